//! Shared by the ways that pay by signature: a payment that has not happened yet is reserved, checked, and settled under its lease.

pub(crate) mod judgement;
pub(crate) mod reserve;
mod settling;
pub(crate) mod showing;
pub(crate) mod unmatched;

use std::{future::Future, time::Duration};

use crate::{
    ledger::Settling,
    paywall::{
        error::BuildError,
        sale::{reservation::Records, settle::Settled},
        seller::inner::MerchantInner,
        way::signed::{judgement::Found, showing::Showing},
    },
    protocol::{Amount, ChainTime, Payment, v2::Reason},
};

/// How long a signature must be valid beyond the longest hold, so that it can be settled.
const SETTLING_TIME: Duration = Duration::from_secs(120);
/// How long a signature must still be valid, so that it can be settled.
const LAST_MOMENT: Duration = Duration::from_secs(6);
/// The shortest validity that clients may be asked for: within it, the signature must also reach the seller.
const SHORTEST: Duration = Duration::from_secs(10);
/// How much a client's clock may be ahead.
const CLOCK_AHEAD: Duration = Duration::from_secs(30);
/// How long a settler may take to settle. Facilitators wait for a block.
pub(crate) const SETTLE: Duration = Duration::from_secs(100);
/// How long a settled payment may take to be confirmed by the verifier.
pub(crate) const CONFIRM: Duration = Duration::from_secs(60);
/// How often a settled payment is checked until it is confirmed.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A signed payment that is reserved, or about to be, and may have been settled before.
pub(crate) trait Signed: Send + Sync + 'static {
    /// The occasion on which it is shown.
    fn showing(&self) -> &Showing;

    /// The same, mutable, to learn the earliest time at which it can be settled.
    fn showing_mut(&mut self) -> &mut Showing;

    /// Returns the payment to reserve, as shown at this time.
    fn payment(&self, shown: ChainTime) -> Payment;

    /// Whether the handler sets the charge, up to the reserved amount.
    fn is_metered(&self) -> bool;

    /// Checks a payment that the payer's key did not sign, before it is reserved. Otherwise anyone could show a used payment without a
    /// valid signature, hold it, and so keep it from its payer. If the signature is not the payer's, returns the payment's state on the
    /// chain.
    fn forged(&mut self) -> impl Future<Output = Option<Found>> + Send;

    /// Returns whether the payer certainly signed it: by its own key, or because the settler says so. `None` if the settler does not
    /// answer.
    fn is_proven(&self) -> impl Future<Output = Option<bool>> + Send;

    /// Accepts it after the reservation, so that a sold or held payment does not count against its payer. Returns whether the payer's
    /// unsettled payments are within their limit.
    fn take_on(&mut self) -> bool;

    /// Marks it as settled: it no longer counts as promised.
    fn is_settled(&mut self);

    /// Returns whether it can be settled, or was. If it is not `payable` now, only the chain is asked.
    fn check(&self, payable: Result<(), Reason>, begun: Option<Settling>) -> impl Future<Output = Found> + Send;

    /// Settles this charge, and waits until the verifier confirms it.
    fn settle(&self, charge: Amount, records: &Records) -> impl Future<Output = Settled> + Send;
}

/// Returns how long clients are asked to make a signature valid, in seconds. The payment is settled after the handler, and must still be
/// valid then. It must expire before the ledger forgets it, even if a client's clock is ahead.
pub(crate) fn timeout(merchant: &MerchantInner) -> u64 {
    let remembered = merchant.max_payment_age.saturating_sub(CLOCK_AHEAD);
    merchant.max_hold.saturating_add(SETTLING_TIME).min(merchant.quote_ttl).min(remembered).as_secs()
}

/// Checks that a signature can be settled that is valid for as long as clients are asked for.
///
/// # Errors
/// [`BuildError::NoTimeToSettle`] if it would expire too soon.
pub(crate) fn check_timeout(merchant: &MerchantInner) -> Result<(), BuildError> {
    let valid_for = Duration::from_secs(timeout(merchant));
    let is_signed = merchant.chains.iter().any(|chain| chain.takes_signatures());
    match is_signed && valid_for < SHORTEST {
        true => Err(BuildError::NoTimeToSettle { valid_for, least: SHORTEST }),
        false => Ok(()),
    }
}

/// Why a signature cannot be settled now, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untimely {
    Early,
    Late,
}

/// Checks that the clock allows settling a payment that is valid from `after` up to `until`.
pub(crate) fn timely(merchant: &MerchantInner, after: ChainTime, until: ChainTime) -> Result<(), Untimely> {
    let clock = merchant.clock.unix();
    let is_over = until.unix() < clock.saturating_add(LAST_MOMENT.as_secs());
    // It must expire before the ledger forgets it: after a reorganisation it could otherwise be settled, and sold, a second time.
    let is_long = until.unix() > clock.saturating_add(merchant.max_payment_age.as_secs());
    match () {
        () if is_over || is_long => Err(Untimely::Late),
        () if after.unix() > clock => Err(Untimely::Early),
        () => Ok(()),
    }
}
