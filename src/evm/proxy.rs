//! A permit's nonce at Permit2, and the calls of the standard's proxies that use it.

use alloy::sol_types::SolCall as _;
use serde_json::value::RawValue;

use super::{
    eth_call::{eth_call_at, returned},
    json_rpc::{Fault, Question},
    permit2::{nonce_bitmap, read_used, sol},
};
use crate::protocol::{
    Address, Amount,
    permit2::{EXACT_PROXY, PERMIT2, UPTO_PROXY},
};

/// One payer's nonce at Permit2, which has a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitNonce {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
}

impl PermitNonce {
    /// Asks for the bits of the nonce and its neighbours at that height.
    pub(crate) fn state_at(&self, height: u64) -> Question {
        self.state(&format!("{height:#x}"))
    }

    /// Asks for them at the newest block.
    #[cfg(all(feature = "wallet", feature = "client"))]
    pub(crate) fn state_now(&self) -> Question {
        self.state("latest")
    }

    fn state(&self, block: &str) -> Question {
        let data = nonce_bitmap(self.owner, &self.nonce);
        Question { method: "eth_call", params: eth_call_at(PERMIT2, &data, block) }
    }

    /// Reads the answer to that: whether the nonce was used or cancelled. Where there is no Permit2, nothing is said.
    pub(crate) fn read_state(&self, raw: &RawValue) -> Result<bool, Fault> {
        read_used(&returned(raw)?, &self.nonce).ok_or(Fault::Answer)
    }
}

/// A permit that a transaction hands to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedPermit {
    pub(crate) owner: Address,
    pub(crate) nonce: [u8; 32],
}

/// The permit that a call of a proxy settles, with what the call charges of it where it succeeds; `None` for any other call.
///
/// Read where the contract reads it: behind the selector, at places that do not depend on the signature.
pub(crate) fn charged(to: Option<Address>, input: &[u8]) -> Option<(UsedPermit, Amount)> {
    let (selector, words) = input.split_first_chunk::<4>()?;
    let (charge, nonce, owner) = match (to?, *selector) {
        (EXACT_PROXY, sol::Exact::settleCall::SELECTOR) => (1, 2, 4),
        (EXACT_PROXY, sol::Exact::settleWithPermitCall::SELECTOR) => (6, 7, 9),
        (UPTO_PROXY, sol::UpTo::settleCall::SELECTOR) => (4, 2, 5),
        (UPTO_PROXY, sol::UpTo::settleWithPermitCall::SELECTOR) => (9, 7, 10),
        _ => return None,
    };
    let word = |index: usize| words.as_chunks::<32>().0.get(index).copied();
    let (charge, nonce, owner) = (word(charge)?, word(nonce)?, word(owner)?);
    let (_, owner) = owner.split_last_chunk::<20>()?;
    Some((UsedPermit { owner: Address::new(*owner), nonce }, Amount::from_be_bytes(charge)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evm::permit2::settle,
        protocol::{
            Network, PaymentSignature,
            permit2::{Permit, PermitScheme, SignedPermit},
            v2::Extensions,
        },
    };

    const NONCE: [u8; 32] = [0x42; 32];
    const OWNER: Address = Address::new([0x11; 20]);

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
            let signed = SignedPermit::new(permit, PaymentSignature::new([9; 65]).unwrap());
            for allowance in [None, allowance.as_ref()] {
                let call = settle(&signed, Amount::from_base_units(5), allowance, Network::BASE);
                let amount = if scheme == PermitScheme::Exact { 9 } else { 5 };
                let used = Some((UsedPermit { owner: OWNER, nonce: NONCE }, Amount::from_base_units(amount)));
                assert_eq!(charged(Some(scheme.proxy()), &call), used, "{scheme:?}");
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
