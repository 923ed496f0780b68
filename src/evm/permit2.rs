//! Permit2 and the standard's two proxies: the calls that settle a permit, and the questions about one.

use alloy::{
    primitives::{B256, Bytes, U256},
    sol_types::SolCall as _,
};

use super::signature;
use crate::protocol::{
    Address, Amount, Network,
    permit2::{PERMIT2, SignedPermit},
    v2::Eip2612Permit,
};

#[allow(missing_docs, clippy::too_many_arguments, reason = "generated from Solidity")]
pub(super) mod sol {
    alloy::sol! {
        struct TokenPermissions {
            address token;
            uint256 amount;
        }
        struct PermitTransferFrom {
            TokenPermissions permitted;
            uint256 nonce;
            uint256 deadline;
        }
        struct Allowance {
            uint256 value;
            uint256 deadline;
            bytes32 r;
            bytes32 s;
            uint8 v;
        }
        struct ExactWitness {
            address to;
            uint256 validAfter;
        }
        struct UpToWitness {
            address to;
            address facilitator;
            uint256 validAfter;
        }
        interface Exact {
            function settle(
                PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature
            ) external;
            function settleWithPermit(
                Allowance allowance, PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature
            ) external;
        }
        interface UpTo {
            function settle(
                PermitTransferFrom permit, uint256 amount, address owner, UpToWitness witness, bytes signature
            ) external;
            function settleWithPermit(
                Allowance allowance, PermitTransferFrom permit, uint256 amount, address owner, UpToWitness witness,
                bytes signature
            ) external;
        }
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
    }
}

/// Returns the plain account that signed this permit; `None` if the bytes are no valid signature. Permit2 accepts
/// signatures of 65 and of 64 bytes.
pub(crate) fn signer(signed: &SignedPermit, network: Network) -> Option<Address> {
    signature::signer(&B256::new(signed.permit.digest(network)), signed.signature.as_bytes())
}

/// Returns the call data that charges this amount of a permit, at the proxy of its scheme.
///
/// For a plain account, a `v` of 0 or 1 becomes 27 or 28, the only values that Permit2 takes. For a contract account, the bytes stay
/// unchanged.
pub(crate) fn settle(
    signed: &SignedPermit,
    charge: Amount,
    allowance: Option<&Eip2612Permit>,
    network: Network,
) -> Vec<u8> {
    let of = &signed.permit;
    let permit = sol::PermitTransferFrom {
        permitted: sol::TokenPermissions { token: account(of.token), amount: number(of.amount) },
        nonce: U256::from_be_bytes(of.nonce),
        deadline: U256::from(of.deadline.unix()),
    };
    let (owner, to, signature) = (account(of.from), account(of.to), signature_of(signed, network));
    let after = U256::from(of.valid_after.unix());
    let allowance = allowance.and_then(allowance_of);
    match (of.facilitator, allowance) {
        (None, None) => {
            let witness = sol::ExactWitness { to, validAfter: after };
            sol::Exact::settleCall { permit, owner, witness, signature }.abi_encode()
        }
        (None, Some(allowance)) => {
            let witness = sol::ExactWitness { to, validAfter: after };
            sol::Exact::settleWithPermitCall { allowance, permit, owner, witness, signature }.abi_encode()
        }
        (Some(facilitator), allowance) => {
            let witness = sol::UpToWitness { to, facilitator: account(facilitator), validAfter: after };
            let amount = number(charge);
            match allowance {
                None => sol::UpTo::settleCall { permit, amount, owner, witness, signature }.abi_encode(),
                Some(allowance) => {
                    sol::UpTo::settleWithPermitCall { allowance, permit, amount, owner, witness, signature }
                        .abi_encode()
                }
            }
        }
    }
}

/// Returns whether this call data settles a permit.
pub(crate) fn is_settle(input: &[u8]) -> bool {
    [
        sol::Exact::settleCall::SELECTOR,
        sol::Exact::settleWithPermitCall::SELECTOR,
        sol::UpTo::settleCall::SELECTOR,
        sol::UpTo::settleWithPermitCall::SELECTOR,
    ]
    .iter()
    .any(|selector| input.starts_with(selector))
}

/// Returns the call data of `nonceBitmap(owner, word)`, of Permit2, for the word of this nonce.
pub(crate) fn nonce_bitmap(owner: Address, nonce: &[u8; 32]) -> Vec<u8> {
    let word = U256::from_be_bytes(*nonce) >> 8;
    sol::nonceBitmapCall { owner: account(owner), word }.abi_encode()
}

/// Parses whether a nonce is used; `None` if the answer is not one word.
pub(crate) fn read_used(returned: &[u8], nonce: &[u8; 32]) -> Option<bool> {
    let word: [u8; 32] = returned.try_into().ok()?;
    Some(U256::from_be_bytes(word).bit(usize::from(nonce[31])))
}

/// Returns the call data of `allowance(owner, Permit2)`, of a token.
pub(crate) fn allowance(owner: Address) -> Vec<u8> {
    sol::allowanceCall { owner: account(owner), spender: account(PERMIT2) }.abi_encode()
}

fn signature_of(signed: &SignedPermit, network: Network) -> Bytes {
    let mut bytes = signed.signature.as_bytes().to_vec();
    if let ([.., v @ (0 | 1)], 65) = (&mut bytes[..], signed.signature.as_bytes().len())
        && signer(signed, network) == Some(signed.permit.from)
    {
        *v += 27;
    }
    bytes.into()
}

fn allowance_of(permit: &Eip2612Permit) -> Option<sol::Allowance> {
    let (scalars, [v]) = permit.signature.as_bytes().split_first_chunk::<64>()? else { return None };
    let [r, s] = [&scalars[..32], &scalars[32..]].map(B256::from_slice);
    // Tokens accept 27 and 28 only.
    let v = if *v < 27 { *v + 27 } else { *v };
    Some(sol::Allowance { value: number(permit.amount), deadline: U256::from(permit.deadline.unix()), r, s, v })
}

fn account(address: Address) -> alloy::primitives::Address {
    address.as_bytes().into()
}

fn number(amount: Amount) -> U256 {
    U256::from_be_bytes(amount.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use alloy::primitives::keccak256;

    use super::*;
    use crate::protocol::{
        ChainTime, PaymentSignature,
        permit2::{Permit, PermitScheme},
    };

    fn signed(scheme: PermitScheme) -> SignedPermit {
        let permit = Permit::new(scheme, Address::new([1; 20]), [0x42; 32])
            .paying(Address::new([2; 20]), Address::new([3; 20]), units(10_000))
            .by_facilitator(Address::new([4; 20]))
            .valid_between(ChainTime::from_unix(7), ChainTime::from_unix(1_893_456_000));
        SignedPermit::new(permit, PaymentSignature::new([9; 65]).unwrap())
    }

    fn allowance_over(amount: Amount) -> Eip2612Permit {
        use serde_json::json;
        let info = json!({
            "from": Address::new([1; 20]).to_string(), "asset": Address::new([3; 20]).to_string(), "spender": PERMIT2.to_string(),
            "amount": amount.to_string(), "nonce": "0", "deadline": "5", "signature": format!("0x{}", "07".repeat(65)), "version": "1",
        });
        let sent = crate::protocol::v2::Extensions::new().with("eip2612GasSponsoring", info, None);
        sent.eip2612_permit().unwrap().unwrap()
    }

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    #[test]
    fn calls_are_those_of_the_proxies() {
        let permit = "((address,uint256),uint256,uint256)";
        let allowance = "(uint256,uint256,bytes32,bytes32,uint8)";
        let sent = allowance_over(units(10_000));
        for (scheme, with, signature) in [
            (PermitScheme::Exact, None, format!("settle({permit},address,(address,uint256),bytes)")),
            (PermitScheme::UpTo, None, format!("settle({permit},uint256,address,(address,address,uint256),bytes)")),
            (
                PermitScheme::Exact,
                Some(&sent),
                format!("settleWithPermit({allowance},{permit},address,(address,uint256),bytes)"),
            ),
            (
                PermitScheme::UpTo,
                Some(&sent),
                format!("settleWithPermit({allowance},{permit},uint256,address,(address,address,uint256),bytes)"),
            ),
        ] {
            let call = settle(&signed(scheme), units(10_000), with, Network::BASE);
            assert_eq!(call[..4], keccak256(&signature)[..4], "{signature}");
            assert!(is_settle(&call));
        }
        assert!(!is_settle(&nonce_bitmap(Address::ZERO, &[0; 32])) && !is_settle(&[]));
        for (signature, call) in [
            ("nonceBitmap(address,uint256)", nonce_bitmap(Address::ZERO, &[0; 32])),
            ("allowance(address,address)", super::allowance(Address::ZERO)),
        ] {
            assert_eq!(call[..4], keccak256(signature)[..4], "{signature}");
        }
    }

    #[test]
    fn a_nonce_is_one_bit_of_its_word() {
        let mut nonce = [0x42; 32];
        nonce[31] = 9;
        let call = nonce_bitmap(Address::new([1; 20]), &nonce);
        assert_eq!(call[36..], [&[0][..], &[0x42; 31]].concat());
        let mut word = [0; 32];
        assert_eq!(read_used(&word, &nonce), Some(false));
        word[30] = 2;
        assert_eq!(read_used(&word, &nonce), Some(true));
        word[30] = 1;
        assert_eq!(read_used(&word, &nonce), Some(false));
        nonce[31] = 255;
        word = [0; 32];
        word[0] = 0x80;
        assert_eq!(read_used(&word, &nonce), Some(true));
        for length in [0, 31, 33, 64] {
            assert_eq!(read_used(&vec![0xff; length], &nonce), None, "{length}");
        }
    }
}
