//! Signatures of contract accounts (EIP-1271).

use alloy::{primitives::B256, sol_types::SolCall as _};

#[allow(missing_docs, reason = "generated from Solidity")]
mod abi {
    alloy::sol! {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

/// Returns the call data of `isValidSignature(hash, signature)`.
pub(crate) fn is_valid_signature(hash: B256, signature: &[u8]) -> Vec<u8> {
    abi::isValidSignatureCall { hash, signature: signature.to_vec().into() }.abi_encode()
}

/// Returns whether a contract's answer accepts the signature: the function's selector, alone in one word.
pub(crate) fn is_accepted(returned: &[u8]) -> bool {
    let mut magic = [0; 32];
    magic[..4].copy_from_slice(&abi::isValidSignatureCall::SELECTOR);
    returned == magic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_that_of_eip_1271() {
        let call = is_valid_signature(B256::repeat_byte(7), &[9; 65]);
        assert_eq!(call[..4], [0x16, 0x26, 0xba, 0x7e]);
        assert_eq!((&call[4..36], call[67], call[99]), (&[7; 32][..], 64, 65));
        assert_eq!((&call[100..165], &call[165..]), (&[9; 65][..], &[0; 31][..]));
    }

    #[test]
    fn only_the_magic_value_in_a_clean_word_accepts() {
        let mut magic = [0; 32];
        magic[..4].copy_from_slice(&[0x16, 0x26, 0xba, 0x7e]);
        assert!(is_accepted(&magic));
        let mut at_the_end = [0; 32];
        at_the_end[28..].copy_from_slice(&magic[..4]);
        let mut one = [0; 32];
        one[31] = 1;
        for no in [&[][..], &magic[..4], &magic[..31], &[&magic[..], &[0]].concat(), &at_the_end, &one, &[0xff; 32]] {
            assert!(!is_accepted(no), "{no:02x?}");
        }
        for dirty in 0..32 {
            let mut word = magic;
            word[dirty] ^= 1;
            assert!(!is_accepted(&word), "{dirty}");
        }
    }
}
