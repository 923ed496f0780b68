//! A permit's nonce at Permit2, and the calls by which the standard's proxies use it.

use alloy::sol_types::SolCall as _;
use serde_json::value::RawValue;

use super::{
    eth_call::{eth_call_at, returned},
    json_rpc::{Fault, Question},
    permit2::{nonce_bitmap, read_used, sol},
};
use crate::protocol::{
    Address, Amount,
    permit2::{EXACT_PROXY, PERMIT2, Permit, UPTO_PROXY},
};

/// A payer's nonce at Permit2, which has one bit for each nonce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitNonce {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
}

impl PermitNonce {
    /// Asks for the word of bits with the nonce, at that height.
    pub(crate) fn state_at(&self, height: u64) -> Question {
        self.state(&format!("{height:#x}"))
    }

    /// Asks for the same at the latest block.
    #[cfg(all(feature = "wallet", feature = "client"))]
    pub(crate) fn state_now(&self) -> Question {
        self.state("latest")
    }

    fn state(&self, block: &str) -> Question {
        let data = nonce_bitmap(self.owner, &self.nonce);
        Question { method: "eth_call", params: eth_call_at(PERMIT2, &data, block) }
    }

    /// Parses the answer: whether the nonce was used or cancelled. An answer without Permit2 is unusable.
    pub(crate) fn read_state(&self, raw: &RawValue) -> Result<bool, Fault> {
        read_used(&returned(raw)?, &self.nonce).ok_or(Fault::Answer)
    }
}

/// A permit that a transaction hands to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedPermit {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
    /// A digest of the proxy and all signed terms. Needed because the payer can sign other terms under the same nonce,
    /// and use them first.
    terms: [u8; 32],
}

impl UsedPermit {
    /// Returns the form that a call with this permit is parsed to.
    pub(crate) fn of(permit: &Permit) -> Self {
        let number = |number: u64| Amount::from_base_units(number.into()).to_be_bytes();
        let mut signed = vec![
            address_word(permit.token),
            permit.amount.to_be_bytes(),
            permit.nonce,
            number(permit.deadline.unix()),
            address_word(permit.from),
            address_word(permit.to),
        ];
        signed.extend(permit.facilitator.map(address_word));
        signed.push(number(permit.valid_after.unix()));
        Self { owner: permit.from, nonce: permit.nonce, terms: digest(permit.spender, &signed) }
    }
}

fn address_word(address: Address) -> [u8; 32] {
    let mut word = [0; 32];
    word[12..].copy_from_slice(address.as_bytes());
    word
}

fn digest(proxy: Address, signed: &[[u8; 32]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(proxy.as_bytes());
    hasher.update(signed.as_flattened());
    *hasher.finalize().as_bytes()
}

/// The number of words of an allowance.
const ALLOWANCE: usize = 5;

/// Returns the permit that a proxy's call settles, and the amount that the call charges if it succeeds; `None` for any
/// other call.
///
/// Reads the same places as the contract: after the selector, independent of the signature.
pub(crate) fn charged(to: Option<Address>, input: &[u8]) -> Option<(UsedPermit, Amount)> {
    let (selector, words) = input.split_first_chunk::<4>()?;
    let proxy = to?;
    // The index of the permit's first word: after the allowance, if the call has one.
    let (first, is_exact) = match (proxy, *selector) {
        (EXACT_PROXY, sol::Exact::settleCall::SELECTOR) => (0, true),
        (EXACT_PROXY, sol::Exact::settleWithPermitCall::SELECTOR) => (ALLOWANCE, true),
        (UPTO_PROXY, sol::UpTo::settleCall::SELECTOR) => (0, false),
        (UPTO_PROXY, sol::UpTo::settleWithPermitCall::SELECTOR) => (ALLOWANCE, false),
        _ => return None,
    };
    let words = words.as_chunks::<32>().0.get(first..)?;
    // Token, amount, nonce, deadline; the charge, which is not signed; the owner, and the witness.
    let (permitted, charge, owner_and_witness) = match is_exact {
        true => (words.get(..4)?, words.get(1)?, words.get(4..7)?),
        false => (words.get(..4)?, words.get(4)?, words.get(5..9)?),
    };
    let (_, owner) = owner_and_witness.first()?.split_last_chunk::<20>()?;
    let terms = digest(proxy, &[permitted, owner_and_witness].concat());
    Some((UsedPermit { owner: Address::new(*owner), nonce: *permitted.get(2)?, terms }, Amount::from_be_bytes(*charge)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evm::permit2::settle,
        protocol::{
            ChainTime, Network, PaymentSignature,
            permit2::{PermitScheme, SignedPermit},
            v2::Extensions,
        },
    };

    const NONCE: [u8; 32] = [0x42; 32];
    const OWNER: Address = Address::new([0x11; 20]);

    /// The same payer's permits with the same nonce, each with one other term.
    fn others_of(permit: &Permit) -> Vec<Permit> {
        let stranger = Address::new([0xbb; 20]);
        let later = ChainTime::from_unix(1_795_280_401);
        let mut others = vec![
            Permit { token: stranger, ..permit.clone() },
            Permit { amount: Amount::from_base_units(1), ..permit.clone() },
            Permit { to: stranger, ..permit.clone() },
            Permit { deadline: later, ..permit.clone() },
            Permit { valid_after: ChainTime::from_unix(8), ..permit.clone() },
            Permit { spender: stranger, ..permit.clone() },
        ];
        others.extend(permit.facilitator.map(|_| Permit { facilitator: Some(stranger), ..permit.clone() }));
        others
    }

    #[test]
    fn every_call_that_settles_tells_its_permit() {
        let info = serde_json::json!({
            "from": OWNER.to_string(), "asset": Address::new([3; 20]).to_string(), "spender": PERMIT2.to_string(), "amount": "9",
            "nonce": "0", "deadline": "5", "signature": format!("0x{}", "07".repeat(65)), "version": "1",
        });
        let allowance = Extensions::new().with("eip2612GasSponsoring", info, None).eip2612_permit().unwrap();
        for scheme in [PermitScheme::Exact, PermitScheme::UpTo] {
            let permit = Permit::new(scheme, OWNER, NONCE).paying(
                Address::new([2; 20]),
                Address::new([3; 20]),
                Amount::from_base_units(9),
            );
            let permit = permit.valid_between(ChainTime::from_unix(7), ChainTime::from_unix(1_795_280_400));
            let signed = SignedPermit::new(permit.clone(), PaymentSignature::new([9; 65]).unwrap());
            for allowance in [None, allowance.as_ref()] {
                let call = settle(&signed, Amount::from_base_units(5), allowance, Network::BASE);
                let amount = if scheme == PermitScheme::Exact { 9 } else { 5 };
                let used = Some((UsedPermit::of(&permit), Amount::from_base_units(amount)));
                assert_eq!(charged(Some(scheme.proxy()), &call), used, "{scheme:?}");
                for other in others_of(&permit) {
                    let other = UsedPermit::of(&other);
                    assert_eq!((other.owner, other.nonce), (OWNER, NONCE));
                    assert_ne!(Some(other), used.map(|(used, _)| used), "of other terms under the same nonce");
                }
                for other in [None, Some(OWNER), Some(PERMIT2)] {
                    assert_eq!(charged(other, &call), None, "{other:?}");
                }
                let other = if scheme == PermitScheme::Exact { UPTO_PROXY } else { EXACT_PROXY };
                assert_eq!(charged(Some(other), &call), None, "another scheme's proxy");
                for cut in [0, 3, 4, 4 + 32 * 4] {
                    assert_eq!(charged(Some(scheme.proxy()), &call[..cut]), None, "{cut}");
                }
            }
        }
    }
}
