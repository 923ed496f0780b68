//! Signatures of plain accounts: ECDSA over secp256k1, of an EIP-191 message or a hash.

#[cfg(feature = "evm")]
use alloy::primitives::eip191_hash_message;
use alloy::primitives::{B256, Signature};

use crate::protocol::Address;

/// Returns the EIP-191 hash that an account signs for a text.
#[cfg(feature = "evm")]
pub(crate) fn message_hash(message: &str) -> B256 {
    eip191_hash_message(message)
}

/// Returns the plain account that signed this hash, if the bytes are a valid signature.
///
/// Accepts 65 bytes with a `v` of 0, 1, 27 or 28, or 64 bytes by EIP-2098. Refuses a high `s`: each such signature has
/// a twin with a low `s`, so accepting both would give one signature two forms.
pub(crate) fn signer(hash: &B256, signature: &[u8]) -> Option<Address> {
    match signature.len() {
        64 => recover(hash, Signature::from_erc2098(signature)),
        _ => signer_of_65(hash, signature),
    }
}

/// Returns the same, but refuses 64 bytes.
pub(crate) fn signer_of_65(hash: &B256, signature: &[u8]) -> Option<Address> {
    match (signature.len(), signature.last()) {
        (65, Some(0 | 1 | 27 | 28)) => recover(hash, Signature::from_raw(signature).ok()?),
        _ => None,
    }
}

/// Returns the same, but refuses a `v` of 0 or 1, as contracts with `ecrecover` do.
pub(crate) fn signer_on_chain(hash: &B256, signature: &[u8]) -> Option<Address> {
    match signature.last() {
        Some(27 | 28) => signer_of_65(hash, signature),
        _ => None,
    }
}

fn recover(hash: &B256, signature: Signature) -> Option<Address> {
    if signature.normalize_s().is_some() {
        return None;
    }
    signature.recover_address_from_prehash(hash).ok().map(|address| Address::new(address.into_array()))
}

#[cfg(all(test, feature = "evm", feature = "wallet"))]
mod tests {
    use alloy::{
        primitives::U256,
        signers::{SignerSync as _, local::PrivateKeySigner},
    };
    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &str = "x402 redemption\nchain: eip155:8453";
    /// The order of the curve.
    const ORDER: U256 =
        U256::from_be_bytes(alloy::hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));

    /// The forms of a signature: `v` from 27 or from 0, and EIP-2098; the twin with a high `s` last.
    fn forms(signature: &Signature) -> [Vec<u8>; 4] {
        let mut from_zero = signature.as_bytes();
        from_zero[64] -= 27;
        let high = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
        [signature.as_bytes().into(), from_zero.into(), signature.as_erc2098().into(), high.as_bytes().into()]
    }

    fn recovered(signature: &[u8]) -> Option<Address> {
        signer(&message_hash(MESSAGE), signature)
    }

    #[test]
    fn a_plain_account_signs_in_three_forms() {
        for _ in 0..8 {
            let key = PrivateKeySigner::random();
            let account = Some(Address::new(key.address().into_array()));
            let [usual, from_zero, compact, high] = forms(&key.sign_message_sync(MESSAGE.as_bytes()).unwrap());
            assert_eq!([&usual, &from_zero, &compact].map(|form| recovered(form)), [account; 3]);
            assert_eq!(recovered(&high), None, "malleable");
            assert_ne!(signer(&message_hash("another text"), &usual), account);
        }
    }

    #[test]
    fn nothing_else_is_a_signature() {
        let key = PrivateKeySigner::random();
        let [usual, _, compact, _] = forms(&key.sign_message_sync(MESSAGE.as_bytes()).unwrap());
        for v in (0..=255).filter(|v| ![0, 1, 27, 28].contains(v)) {
            let mut odd = usual.clone();
            odd[64] = v;
            assert_eq!(recovered(&odd), None, "v of {v}");
        }
        for length in (0..64).chain(66..70).chain([4_096]) {
            let mut other = usual.clone();
            other.resize(length, 0);
            assert_eq!(recovered(&other), None, "{length} bytes");
        }
        assert_eq!(recovered(&[0; 64]), None, "zeros");
        assert_eq!(recovered(&[0; 65]), None, "zeros");
        assert_eq!(recovered(&[0xff; 64]), None, "above the order");
        let mut zero_s = usual.clone();
        zero_s[32..64].fill(0);
        assert_eq!(recovered(&zero_s), None, "s of zero");
        // In EIP-2098 the top bit of `s` is the parity, so only high values below 2^255 fit.
        let mut high = compact;
        high[32..].copy_from_slice(&[0x7f; 32]);
        high[33..].fill(0xff);
        assert_eq!(recovered(&high), None, "high s by EIP-2098");
    }

    /// Numbers at the bounds of the field and of the order, and any others.
    fn scalar() -> impl Strategy<Value = U256> {
        let field =
            U256::from_be_bytes(alloy::hex!("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f"));
        let edge =
            move |at: usize, less: u64| [U256::ZERO, ORDER, ORDER >> 1, field][at].wrapping_sub(U256::from(less));
        prop_oneof![
            (0..4_usize, 0..3_u64).prop_map(move |(at, less)| edge(at, less)),
            any::<[u8; 32]>().prop_map(U256::from_be_bytes)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn whichever_library_recovers_it_the_signer_is_the_same(r in scalar(), s in scalar(), odd: bool, hash: [u8; 32]) {
            use alloy::signers::k256::ecdsa::{RecoveryId, VerifyingKey};

            let (shown, hash) = (Signature::new(r, s, odd), B256::new(hash));
            let by_k256 = shown.to_k256().ok().filter(|read| read.normalize_s().is_none()).and_then(|read| {
                let key = VerifyingKey::recover_from_prehash(hash.as_slice(), &read, RecoveryId::new(odd, false)).ok()?;
                Some(Address::new(alloy::signers::utils::public_key_to_address(&key).into_array()))
            });
            prop_assert_eq!(signer(&hash, &shown.as_bytes()), by_k256);
        }
    }
}
