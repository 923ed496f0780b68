//! The rules of every settler, as checks that any settler can run.
//!
//! A settler provides a [`Harness`], which creates settlers and controls their chain: it funds payers, signs for them,
//! and reads their balances. [`run`] performs all checks. A violation is reported with the check's name and rule.
//!
//! ```no_run
//! use tower_x402::{
//!     protocol::{Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain, v2::{Authorization, SignedAuthorization}},
//!     settle::conformance::{self, Harness},
//!     testing::{ScriptedSettler, ScriptedVerifier},
//!     verify::NonceState,
//! };
//!
//! struct Market { chain: ScriptedVerifier, /* a node, a token, keys */ }
//!
//! impl Harness for Market {
//!     type Settler = ScriptedSettler;
//!
//!     async fn settler(&self) -> ScriptedSettler {
//!         ScriptedSettler::new(self.chain.clone())
//!     }
//! #   fn token(&self) -> Asset { Asset::USDC_BASE }
//! #   fn domain(&self) -> TokenDomain { unimplemented!() }
//! #   async fn now(&self) -> ChainTime { unimplemented!() }
//! #   async fn payer(&self, funds: Amount) -> Address { unimplemented!() }
//! #   async fn sign(&self, signer: Address, authorization: &Authorization) -> PaymentSignature { unimplemented!() }
//! #   async fn submit(&self, authorization: &SignedAuthorization) { unimplemented!() }
//! #   async fn cancel(&self, payer: Address, nonce: [u8; 32]) { unimplemented!() }
//! #   async fn balance(&self, owner: Address) -> Amount { unimplemented!() }
//! #   async fn nonce(&self, payer: Address, nonce: [u8; 32]) -> NonceState { unimplemented!() }
//!     // … and what it knows of the chain.
//! }
//!
//! # async fn example(market: Market) -> Result<(), Box<dyn std::error::Error>> {
//! let report = conformance::run(&market).await?;
//! assert!(!report.passed.is_empty());
//! # Ok(()) }
//! ```

mod contract;
mod fixture;
mod harness;
mod once;
mod permits;
mod refusal;
mod settling;

use std::time::Duration;

use fixture::{Fault, Fixture};
pub use harness::Harness;
pub use permits::{PERMIT_CHECKS, PermitHarness, run_permits};

use crate::testing::conformance::{Check, Report, Violation, Violations};

/// A check that takes longer is considered to hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Performs every check, each with its own settler and payers, and returns all violations.
///
/// It needs a tokio runtime with its timer.
///
/// # Errors
/// [`Violations`]: every rule that is broken.
pub async fn run<H: Harness>(harness: &H) -> Result<Report, Violations> {
    let (mut report, mut violations) = (Report::default(), Vec::new());
    for check in CHECKS {
        match perform(*check, harness).await {
            Ok(true) => report.passed.push(*check),
            Ok(false) => report.left_out.push(*check),
            Err(violation) => violations.push(violation),
        }
    }
    Violations::or(violations, "settler", report)
}

/// Performs the check of this name; returns `false` if there is none, or it was left out because the harness has no
/// contract accounts.
///
/// # Errors
/// [`Violation`] when the rule is broken.
pub async fn run_one<H: Harness>(harness: &H, name: &str) -> Result<bool, Violation> {
    match CHECKS.iter().find(|check| check.name == name) {
        Some(check) => perform(*check, harness).await,
        None => Ok(false),
    }
}

async fn perform<H: Harness>(check: Check, harness: &H) -> Result<bool, Violation> {
    let outcome = tokio::time::timeout(PATIENCE, dispatch(check.name, harness)).await;
    match outcome.unwrap_or_else(|_| Err(Fault::new("it hangs"))) {
        Ok(()) => Ok(true),
        Err(fault) if fault.is_left_out() => Ok(false),
        Err(fault) => Err(Violation { check, detail: fault.to_string() }),
    }
}

macro_rules! checks {
    ($($module:ident::$check:ident: $rule:literal;)*) => {
        /// All checks.
        pub const CHECKS: &[Check] = &[$(Check { name: stringify!($check), rule: $rule, takes_minutes: false }),*];

        async fn dispatch<H: Harness>(name: &str, harness: &H) -> Result<(), Fault> {
            let fixture = Fixture::new(harness).await;
            $(if name == stringify!($check) {
                return Box::pin($module::$check(&fixture)).await;
            })*
            Err(Fault::new("there is no such check"))
        }
    };
}

checks! {
    settling::healthy: "a settler that works says so";
    settling::the_domain_is_the_tokens: "the domain is the one that the token states, and none on a chain that is not settled";
    settling::verified_is_settled: "what is valid is settled, by the transaction that is named, to the base unit";
    settling::verifying_sends_nothing: "verifying moves nothing and uses no nonce";
    settling::without_verifying: "what was not verified is settled, too: after a crash, or by another replica";
    settling::many_payers: "payments of many payers at once are settled, each by itself";
    settling::one_payer_many_nonces: "payments of one payer at once are settled, each by itself";
    settling::the_last_base_unit: "a payer's whole balance is enough";
    once::settled_twice: "a payment that is settled again moves nothing, and is not reported as refused";
    once::settled_at_once: "a payment that is settled many times at once moves once";
    once::used_is_told: "a nonce that paid is reported as used";
    once::by_a_stranger: "a payment that a stranger sent first is used, and not reported as refused";
    once::elsewhere: "a nonce that paid another account is used, and pays no more";
    once::cancelled: "a cancelled nonce is used, and pays no more";
    once::cancelled_after_verifying: "a nonce that is cancelled after verifying pays no more";
    once::dropped_while_settling: "a settlement that is dropped does no harm: the payment moves once, then or later";
    once::dropped_while_verifying: "a verification that is dropped does no harm";
    refusal::another_signer: "the signature of another account is refused";
    refusal::tampered: "what was changed after signing is refused";
    refusal::odd_signatures: "a signature of any length is refused where it is none";
    refusal::less_than_the_price: "an authorization over less than the price is refused, though the payer signed it";
    refusal::more_than_the_price: "an authorization over more than the price is refused, though the payer signed it";
    refusal::another_recipient: "an authorization that pays another account is refused, though the payer signed it";
    refusal::expired: "an authorization whose time is over is refused";
    refusal::not_yet_valid: "an authorization whose time has not come is refused";
    refusal::no_balance: "a payer with too little is refused, by a base unit";
    refusal::balance_gone: "a payer who has spent it after verifying is refused";
    refusal::refused_stays_payable: "a refusal uses no nonce: with the money there, the same authorization is settled";
    contract::its_own_signature: "a contract account pays with a signature that it answers for (EIP-1271)";
    contract::anothers_signature: "a contract account does not pay with a signature that it does not answer for";
}
