//! Claims and leases for the tests of several files.

use std::time::Duration;

use super::super::{Claim, ClaimBuilder, Lease};
use crate::protocol::{Address, Amount, ChainTime, IntentKey, Network, Payment, SignedTransfer, Transfer, TxHash};

pub(super) const TIME: ChainTime = ChainTime::from_unix(1_795_280_400);

pub(super) fn claim() -> Claim {
    claim_on([transfer(0)]).build()
}

/// A claim on this many payments of one transaction.
pub(super) fn claim_on_many(payments: u32) -> Claim {
    claim_on((0..payments).map(transfer)).build()
}

fn transfer(position: u32) -> Payment {
    let transfer = Transfer::new(Network::BASE, TxHash::new([1; 32]), position)
        .with_token(Address::new([2; 20]))
        .with_payer(Address::new([3; 20]))
        .with_recipient(Address::new([4; 20]))
        .with_amount(Amount::from_base_units(1))
        .with_block(1, TIME);
    transfer.into()
}

/// A claim on an unsettled payment.
pub(super) fn unproven() -> Claim {
    claim_on([signed()]).build()
}

/// The same claim, covered by a deposit.
pub(super) fn covered() -> Claim {
    claim_on([signed()]).covered(true).build()
}

fn signed() -> Payment {
    let signed = SignedTransfer::new(Network::BASE, Address::new([2; 20]), Address::new([3; 20]), [7; 32])
        .with_recipient(Address::new([4; 20]))
        .with_amount(Amount::from_base_units(1))
        .with_shown(TIME);
    signed.into()
}

fn claim_on(payments: impl IntoIterator<Item = Payment>) -> ClaimBuilder {
    let second = Duration::from_secs(1);
    Claim::builder("a", IntentKey::new([5; 16]))
        .pay_until(TIME)
        .payments(payments)
        .head(TIME)
        .max_payment_age(second)
        .lease(second)
}

pub(super) fn held() -> Lease {
    let claim = claim();
    Lease::new(&claim, &claim.payments()[0], 1)
}
