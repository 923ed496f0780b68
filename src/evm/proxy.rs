//! Permit2 and the standard's proxies, as far as the chain tells which permits are used.

use alloy::{
    primitives::U256,
    sol_types::{SolCall as _, SolEvent as _},
};
use serde_json::value::RawValue;

use super::{
    eip3009::read_word,
    eth_call::{eth_call_at, returned},
    json_rpc::{Fault, Question},
};
use crate::protocol::{
    Address,
    permit2::{EXACT_PROXY, PERMIT2, UPTO_PROXY},
};

#[allow(missing_docs, clippy::too_many_arguments, reason = "generated from Solidity")]
mod sol {
    alloy::sol! {
        struct TokenPermissions { address token; uint256 amount; }
        struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
        struct Permit2612 { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }
        struct ExactWitness { address to; uint256 validAfter; }
        struct UptoWitness { address to; address facilitator; uint256 validAfter; }
        interface Permit2 {
            function nonceBitmap(address owner, uint256 word) external view returns (uint256);
        }
        interface Exact {
            function settle(PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature) external;
            function settleWithPermit(
                Permit2612 permit2612, PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature
            ) external;
            event Settled();
            event SettledWithPermit();
        }
        interface Upto {
            function settle(
                PermitTransferFrom permit, uint256 amount, address owner, UptoWitness witness, bytes signature
            ) external;
            function settleWithPermit(
                Permit2612 permit2612, PermitTransferFrom permit, uint256 amount, address owner, UptoWitness witness,
                bytes signature
            ) external;
        }
    }
}

/// The only topic of the events of a proxy that has settled. They tell nothing else.
pub(crate) const SETTLED_TOPICS: [[u8; 32]; 2] =
    [sol::Exact::Settled::SIGNATURE_HASH.0, sol::Exact::SettledWithPermit::SIGNATURE_HASH.0];

/// Whether this is one of the proxies.
pub(crate) fn is_proxy(account: Address) -> bool {
    account == EXACT_PROXY || account == UPTO_PROXY
}

/// One payer's nonce at Permit2, which has a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitNonce {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
}

impl PermitNonce {
    /// Asks for the bits of the nonce and its neighbours at that height.
    pub(crate) fn state_at(&self, height: u64) -> Question {
        let word = U256::from_be_bytes(self.nonce) >> 8;
        let data = sol::Permit2::nonceBitmapCall { owner: self.owner.as_bytes().into(), word }.abi_encode();
        Question { method: "eth_call", params: eth_call_at(PERMIT2, &data, &format!("{height:#x}")) }
    }

    /// Reads the answer to that: whether the nonce was used or cancelled. Where there is no Permit2, nothing is said.
    pub(crate) fn read_state(&self, raw: &RawValue) -> Result<bool, Fault> {
        let bits = read_word(&returned(raw)?).ok_or(Fault::Answer)?;
        let [.., bit] = self.nonce;
        Ok(U256::from_be_bytes(bits).bit(usize::from(bit)))
    }
}

/// A permit that a transaction hands to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedPermit {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
}

/// The permit that a call of a proxy settles; `None` for any other call.
///
/// Read where the contract reads it: behind the selector, at places that do not depend on the signature.
pub(crate) fn used_permit(to: Option<Address>, input: &[u8]) -> Option<UsedPermit> {
    let (selector, words) = input.split_first_chunk::<4>()?;
    let (nonce, owner) = match (to?, *selector) {
        (EXACT_PROXY, sol::Exact::settleCall::SELECTOR) => (2, 4),
        (EXACT_PROXY, sol::Exact::settleWithPermitCall::SELECTOR) => (7, 9),
        (UPTO_PROXY, sol::Upto::settleCall::SELECTOR) => (2, 5),
        (UPTO_PROXY, sol::Upto::settleWithPermitCall::SELECTOR) => (7, 10),
        _ => return None,
    };
    let word = |index: usize| words.as_chunks::<32>().0.get(index).copied();
    let (nonce, owner) = (word(nonce)?, word(owner)?);
    let (_, owner) = owner.split_last_chunk::<20>()?;
    Some(UsedPermit { owner: Address::new(*owner), nonce })
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, U256};

    use super::{sol::*, *};

    const NONCE: [u8; 32] = [0x42; 32];
    const OWNER: Address = Address::new([0x11; 20]);

    fn permit() -> PermitTransferFrom {
        let permitted = TokenPermissions { token: [0x83; 20].into(), amount: U256::from(10_000) };
        PermitTransferFrom { permitted, nonce: U256::from_be_bytes(NONCE), deadline: U256::from(9) }
    }

    fn permit2612() -> Permit2612 {
        Permit2612 { value: U256::MAX, deadline: U256::from(9), r: [1; 32].into(), s: [2; 32].into(), v: 27 }
    }

    #[test]
    fn a_nonce_has_its_bit_in_the_word_of_its_neighbours() {
        let mut nonce = [0x42; 32];
        nonce[31] = 0;
        for bit in [0_u8, 1, 8, 0x42, 254, 255] {
            nonce[31] = bit;
            let asked = PermitNonce { owner: OWNER, nonce };
            let word = format!("{:064x}", U256::from_be_bytes(nonce) >> 8);
            assert!(asked.state_at(7).params.to_string().contains(&word), "{bit}");
            for other in [0, 1, 8, 0x42, 254, 255] {
                let bits = format!("\"{:#066x}\"", U256::from(1) << usize::from(other));
                let used = asked.read_state(&RawValue::from_string(bits).unwrap());
                assert_eq!(used, Ok(bit == other), "{bit} {other}");
            }
            for nothing in ["\"0x\"", "\"0x01\"", "null"] {
                assert!(asked.read_state(&RawValue::from_string(nothing.to_owned()).unwrap()).is_err());
            }
        }
    }

    #[test]
    fn every_call_that_settles_tells_its_permit() {
        let (owner, signature) = (OWNER.as_bytes().into(), Bytes::from_static(&[7; 65]));
        let exact = || ExactWitness { to: [0x5a; 20].into(), validAfter: U256::ZERO };
        let upto = || UptoWitness { to: [0x5a; 20].into(), facilitator: [0x5b; 20].into(), validAfter: U256::ZERO };
        let amount = U256::from(1_858);
        let calls = [
            (
                EXACT_PROXY,
                Exact::settleCall { permit: permit(), owner, witness: exact(), signature: signature.clone() }.abi_encode(),
            ),
            (
                EXACT_PROXY,
                Exact::settleWithPermitCall {
                    permit2612: permit2612(),
                    permit: permit(),
                    owner,
                    witness: exact(),
                    signature: signature.clone(),
                }
                .abi_encode(),
            ),
            (
                UPTO_PROXY,
                Upto::settleCall { permit: permit(), amount, owner, witness: upto(), signature: signature.clone() }
                    .abi_encode(),
            ),
            (
                UPTO_PROXY,
                Upto::settleWithPermitCall {
                    permit2612: permit2612(),
                    permit: permit(),
                    amount,
                    owner,
                    witness: upto(),
                    signature,
                }
                .abi_encode(),
            ),
        ];
        let used = Some(UsedPermit { owner: OWNER, nonce: NONCE });
        for (at, (proxy, call)) in calls.iter().enumerate() {
            assert_eq!(used_permit(Some(*proxy), call), used, "{at}");
            assert_eq!(used_permit(Some(OWNER), call), None, "{at}");
            assert_eq!(used_permit(None, call), None, "{at}");
            let other = if *proxy == EXACT_PROXY { UPTO_PROXY } else { EXACT_PROXY };
            assert_eq!(used_permit(Some(other), call), None, "{at}");
            for cut in [0, 3, 4, 4 + 32 * 4] {
                assert_eq!(used_permit(Some(*proxy), &call[..cut]), None, "{at} {cut}");
            }
        }
    }
}
