//! The standard's Permit2 proxies, as far as a transaction tells which permit it used.

use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::protocol::{
    Address,
    permit2::{EXACT_PROXY, UPTO_PROXY},
};

#[allow(missing_docs, clippy::too_many_arguments, reason = "generated from Solidity")]
mod sol {
    alloy::sol! {
        struct TokenPermissions { address token; uint256 amount; }
        struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
        struct Permit2612 { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }
        struct ExactWitness { address to; uint256 validAfter; }
        struct UptoWitness { address to; address facilitator; uint256 validAfter; }
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
