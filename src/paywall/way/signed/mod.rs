//! What ways by signature have in common: a payment that has not happened yet is reserved, checked, and settled under its lease.

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

/// How long a signature has to be valid beyond the longest hold, so that it can be settled.
const SETTLING_TIME: Duration = Duration::from_secs(120);
/// How long a signature must be valid still, so that it can be settled.
const LAST_MOMENT: Duration = Duration::from_secs(6);
/// How long clients must be able to make a signature valid: it has to be shown, too.
const SHORTEST: Duration = Duration::from_secs(10);
/// How much a client's clock may be ahead.
const CLOCK_AHEAD: Duration = Duration::from_secs(30);
/// How long a settler may take to settle. Facilitators wait for a block.
pub(crate) const SETTLE: Duration = Duration::from_secs(100);
/// How long a settled payment may take to be confirmed by the verifier.
pub(crate) const CONFIRM: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A signed payment that is reserved, or about to be, and may have been settled before.
pub(crate) trait Signed: Send + Sync + 'static {
    /// On what occasion it is shown.
    fn showing(&self) -> &Showing;

    /// The same, to learn the moment from which on it can be settled.
    fn showing_mut(&mut self) -> &mut Showing;

    /// The payment as it is reserved, shown at that time.
    fn payment(&self, shown: ChainTime) -> Payment;

    /// Whether the handler sets the charge, up to what is reserved.
    fn is_metered(&self) -> bool;

    /// Checks a payment without a signature by the payer's key before it is reserved: otherwise a used payment, shown without any signature
    /// of its payer, would be held and so be unavailable to the payer. Returns its state on the chain, where it is not the payer's.
    fn forged(&mut self) -> impl Future<Output = Option<Found>> + Send;

    /// Whether its payer certainly signed it: by its own key, or because the settler says so. `None` where the settler does not answer.
    fn is_proven(&self) -> impl Future<Output = Option<bool>> + Send;

    /// Accepts it after the reservation: a sold or held payment does not count against its payer. Tells whether the payer's unsettled
    /// payments are within their limit.
    fn take_on(&mut self) -> bool;

    /// It is settled: it no longer counts as promised.
    fn is_settled(&mut self);

    /// Returns whether it can be settled, or was. Where it is not `payable` now, only the chain is asked.
    fn check(&self, payable: Result<(), Reason>, begun: Option<Settling>) -> impl Future<Output = Found> + Send;

    /// Settles this much of it, and waits until the verifier confirms it.
    fn settle(&self, charge: Amount, records: &Records) -> impl Future<Output = Settled> + Send;
}

/// How long clients are asked to make a signature valid, in seconds: it is settled when the handler is done, and must be valid still. It must
/// be over before the ledger forgets it, also if a client's clock is ahead.
pub(crate) fn timeout(merchant: &MerchantInner) -> u64 {
    let remembered = merchant.max_payment_age.saturating_sub(CLOCK_AHEAD);
    merchant.max_hold.saturating_add(SETTLING_TIME).min(merchant.quote_ttl).min(remembered).as_secs()
}

/// Checks that a signature as clients are asked for one can be settled.
///
/// # Errors
/// [`BuildError::NoTimeToSettle`] where it would be over too soon.
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

/// Whether the clock allows settling what is valid from `after` up to `until`.
pub(crate) fn timely(merchant: &MerchantInner, after: ChainTime, until: ChainTime) -> Result<(), Untimely> {
    let clock = merchant.clock.unix();
    let is_over = until.unix() < clock.saturating_add(LAST_MOMENT.as_secs());
    // It must be over when the ledger forgets it: after a reorganisation it could be settled, and sold, a second time.
    let is_long = until.unix() > clock.saturating_add(merchant.max_payment_age.as_secs());
    match () {
        () if is_over || is_long => Err(Untimely::Late),
        () if after.unix() > clock => Err(Untimely::Early),
        () => Ok(()),
    }
}
