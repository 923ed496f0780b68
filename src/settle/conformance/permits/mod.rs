//! The rules of every [`PermitSettler`](crate::settle::PermitSettler), as checks that any can run.

mod charging;
mod fixture;
mod harness;
mod refusing;

use fixture::Fixture;
pub use harness::PermitHarness;

use super::{PATIENCE, fixture::Fault};
use crate::testing::conformance::{Check, Report, Violation, Violations};

/// Performs every check of a settler of permits, each with its own settler and payers, and returns all violations.
///
/// It needs a tokio runtime with its timer.
///
/// # Errors
/// [`Violations`]: every rule that is broken.
pub async fn run_permits<H: PermitHarness>(harness: &H) -> Result<Report, Violations> {
    let (mut report, mut violations) = (Report::default(), Vec::new());
    for check in PERMIT_CHECKS {
        let outcome = tokio::time::timeout(PATIENCE, dispatch(check.name, harness)).await;
        match outcome.unwrap_or_else(|_| Err(Fault::new("it hangs"))) {
            Ok(()) => report.passed.push(*check),
            Err(fault) => violations.push(Violation { check: *check, detail: fault.to_string() }),
        }
    }
    Violations::or(violations, "settler", report)
}

macro_rules! checks {
    ($($module:ident::$check:ident: $rule:literal;)*) => {
        /// All checks of [`run_permits`].
        pub const PERMIT_CHECKS: &[Check] =
            &[$(Check { name: stringify!($check), rule: $rule, takes_minutes: false }),*];

        async fn dispatch<H: PermitHarness>(name: &str, harness: &H) -> Result<(), Fault> {
            let fixture = Fixture::new(harness).await?;
            $(if name == stringify!($check) {
                return Box::pin($module::$check(&fixture)).await;
            })*
            Err(Fault::new("there is no such check"))
        }
    };
}

checks! {
    charging::the_charge_to_the_unit: "a payment of either scheme is charged as the seller says, to the base unit, and no more";
    charging::verifying_charges_nothing: "verifying moves nothing and uses no nonce";
    charging::without_verifying: "what was not verified is settled, too: after a crash, or by another replica";
    charging::again: "a payment that is settled again moves nothing, whatever the charge, and is not reported as refused";
    charging::at_once: "a payment that is settled many times at once, for many charges, moves once";
    charging::used_is_told: "a nonce that paid is reported as used";
    charging::many_nonces: "payments of one payer at once are settled, each by itself";
    charging::dropped: "a settlement that is dropped does no harm: the payment moves at most once, then or later";
    refusing::a_charge_beyond_what_was_signed: "more than was allowed is refused, as is nothing, and of `exact` every other amount";
    refusing::another_signer: "the signature of another account is refused";
    refusing::tampered: "what was changed after signing is refused";
    refusing::not_offered: "a permit for another recipient, token, amount, spender or facilitator is refused, though the payer signed it";
    refusing::out_of_time: "a permit whose time is over, or has not come, is refused";
    refusing::no_balance: "a payer with less than it allows is refused, by a base unit";
    refusing::balance_gone: "a payer who has spent it after verifying is refused, and its permit stays unused";
}
