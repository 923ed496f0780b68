//! The rules for every ledger, as checks that any backend can run. [`run_book`] has those of every book of sales,
//! [`run_announcements`] those of ledgers that mark sales, [`run_accounts`] those of ledgers with accounts, and
//! [`run_durable`] those of durable ledgers.
//!
//! A backend brings a [`Harness`], which makes empty ledgers and lets time pass on the clock of their leases, and calls
//! [`run`]. A violation is reported with the name of the check and its rule.
//!
//! ```
//! use std::time::Duration;
//! use tower_x402::{ledger::{MemoryLedger, conformance::{self, Harness}}, testing::FakeClock};
//!
//! struct Memory(FakeClock);
//!
//! impl Harness for Memory {
//!     type Ledger = MemoryLedger;
//!
//!     async fn fresh(&self) -> MemoryLedger {
//!         MemoryLedger::with_clock(self.0.clone())         // a database: a schema or a file of its own
//!     }
//!
//!     async fn share(&self, ledger: &MemoryLedger) -> MemoryLedger {
//!         ledger.clone()                                   // a database: a second pool
//!     }
//!
//!     async fn pass(&self, span: Duration) {
//!         self.0.advance(span);                            // a database: tokio::time::sleep(span).await
//!     }
//!
//!     fn skips_time(&self) -> bool {
//!         true                                             // a database: false
//!     }
//! #   fn rounds(&self) -> usize { 5 }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let report = conformance::run(&Memory(FakeClock::new(0))).await?;
//! assert!(report.left_out.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account_fixture;
mod account_race;
mod accounts;
mod announcements;
mod answer;
mod book;
mod claims;
mod claims_race;
mod dropped;
mod durable;
mod fixture;
mod harness;
mod lease;
mod mark;
mod network;
mod order;
mod payment;
mod purchase;
mod race;
mod sale;
mod settling;
mod space;

use std::{pin::Pin, time::Duration};

pub use accounts::run_accounts;
pub use announcements::run_announcements;
pub use book::run_book;
pub use durable::run_durable;
use fixture::{Fault, Fixture};
pub use harness::{Harness, KeepsAnswers, Reopens};
pub use space::run_space;

use crate::testing::conformance::{Check, Report, Violation, Violations};

/// A check that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs every check, each on a ledger of its own, and reports all violations.
///
/// It needs a tokio runtime with its timer, and several threads, since tasks do not race on a single one.
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
    Violations::or(violations, "ledger", report)
}

/// Runs the check of this name. Returns `false` if there is none, or if it was left out because it would take minutes.
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
    if check.takes_minutes && !harness.skips_time() {
        return Ok(false);
    }
    let outcome = tokio::time::timeout(PATIENCE, dispatch(check.name, harness)).await;
    match outcome.unwrap_or_else(|_| Err(Fault::new("it hangs"))) {
        Ok(()) => Ok(true),
        Err(fault) => Err(Violation { check, detail: fault.to_string() }),
    }
}

/// Puts a check on the heap. Each is created in a stack frame of its own: all of them together do not fit into a
/// thread's stack.
fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

/// Checks of a ledger's optional capabilities, each on a ledger of its own that has begun.
macro_rules! suite {
    (
        $(#[$checks_doc:meta])* $checks:ident;
        $(#[$run_doc:meta])* $run:ident<$harness:ident: $bound:path $(where Ledger: $ledger:path)?>;
        $($check:ident: $rule:literal;)*
    ) => {
        $(#[$checks_doc])*
        const $checks: &[super::Check] = &[$(super::Check {
            name: stringify!($check),
            rule: $rule,
            takes_minutes: false,
        }),*];

        $(#[$run_doc])*
        ///
        /// # Errors
        /// [`Violations`](crate::testing::conformance::Violations): every rule that is broken.
        pub async fn $run<$harness>(harness: &$harness) -> Result<super::Report, super::Violations>
        where
            $harness: $bound $(+ super::Harness<Ledger: $ledger>)?,
        {
            let (mut report, mut broken) = (super::Report::default(), Vec::new());
            for check in $checks {
                let made = async {
                    let fixture = super::fixture::Fixture::new(harness).await;
                    fixture.begin().await?;
                    $(if check.name == stringify!($check) {
                        return super::boxed(|| $check(&fixture)).await;
                    })*
                    Err(super::Fault::new("there is no such check"))
                };
                let outcome = tokio::time::timeout(super::PATIENCE, made).await;
                match outcome.unwrap_or_else(|_| Err(super::Fault::new("it hangs"))) {
                    Ok(()) => report.passed.push(*check),
                    Err(fault) => broken.push(super::Violation { check: *check, detail: fault.to_string() }),
                }
            }
            super::Violations::or(broken, "ledger", report)
        }
    };
}
use suite;

macro_rules! checks {
    ($($module:ident::$check:ident $(@$minutes:ident)?: $rule:literal;)*) => {
        /// All checks.
        pub const CHECKS: &[Check] = &[$(Check {
            name: stringify!($check),
            rule: $rule,
            takes_minutes: $(stringify!($minutes).len() > 0 ||)? false,
        }),*];

        async fn dispatch<H: Harness>(name: &str, harness: &H) -> Result<(), Fault> {
            let fixture = Fixture::new(harness).await;
            $(if name == stringify!($check) {
                return boxed(|| $module::$check(&fixture)).await;
            })*
            Err(Fault::new("there is no such check"))
        }
    };
}

checks! {
    sale::nothing_before_begin: "a ledger whose memory has not begun grants nothing";
    sale::a_pair_is_sold_once: "what is sold is refused, through every handle";
    sale::both_are_consumed: "intent and transfer are consumed in one step";
    sale::both_are_freed: "intent and transfer are freed in one step";
    sale::one_transaction_pays_three: "each transfer of a transaction is spent once, on its own";
    sale::smallest_first: "the smallest free transfer is taken, of equal ones the earliest";
    sale::payments_are_told_apart: "a payment is chain, transaction and position, all three";
    sale::extremes_are_kept: "every value of the types is kept as it is";
    sale::consumed_means_committed: "an intent is consumed from its commit on, not from its reservation";
    sale::commit_is_repeatable: "a committed lease commits again, and again";
    sale::a_charge_of_nothing_is_a_sale: "a payment of which nothing is charged is consumed with its intent";
    sale::committed_stays: "neither release nor renewal undoes a commit";
    sale::release_is_repeatable: "a second release does nothing, not even to a new holder of the pair";
    sale::healthy: "a ledger that works says so";
    payment::an_authorization_is_one_payment: "a transfer made from an authorization is the same payment in whatever transaction";
    payment::a_lease_follows_its_authorization: "leases are an authorization's, in whatever transaction it is used";
    payment::authorizations_are_told_apart: "an authorization is chain, token, payer and nonce, all four";
    payment::permits_are_told_apart: "a permit is chain, payer and nonce, whatever its token, and never an authorization of that nonce";
    payment::a_voucher_pays_once_for_its_intent: "a voucher is one payment of its channel, total and intent, and sells without a transaction";
    payment::a_permit_is_settled_and_sold: "a permit is held, settled and sold as one payment, whatever was charged of it";
    answer::kept_byte_for_byte: "an answer is given back as it was kept, through every handle";
    answer::kept_from_the_commit_on: "an answer is kept with its sale, and no other";
    answer::kept_for_its_time: "an answer is given back in its time and not after; its sale stays";
    answer::a_repeated_commit_keeps_the_first: "a repeated commit neither changes nor prolongs what is kept";
    answer::a_lost_lease_keeps_nothing: "a lease that was lost keeps no answer";
    answer::for_no_time_none_is_kept: "an answer is kept for as long as is asked, be it no time or for ever";
    lease::held_is_busy: "what is held is refused, and when to ask again is told";
    lease::intent_holds_one: "an intent under a live lease gets no other transfer";
    lease::released_is_lost: "a released lease neither renews nor commits";
    lease::run_out_is_taken_over: "a lease that ran out is taken over by the next claim, under a fresh fence";
    lease::taken_over_is_lost: "a lease that was taken over neither renews, nor commits, nor releases";
    lease::own_lease_is_taken_over: "an intent takes over its own lease that ran out, and the old one is lost";
    lease::a_lost_renewal_changes_nothing: "the renewal of a lost lease neither shortens nor prolongs the lease of its successor";
    lease::take_over_frees_the_rest: "taking over an intent frees the transfer it held, and the other way round";
    lease::late_holder_commits: "a lease that ran out and was not taken over commits";
    lease::late_holder_renews: "a lease that ran out and was not taken over renews";
    lease::late_holder_releases: "a lease that ran out and was not taken over is released";
    lease::renewal_prolongs: "a renewal lasts the full length from now";
    mark::begin_is_repeatable: "the low-water mark is where the first begin put it";
    mark::payments_at_or_below_are_refused: "a payment at or below the low-water mark is refused";
    mark::payments_above_are_taken: "of several transfers those above the low-water mark are taken";
    mark::kept_to_the_second: "a sale is remembered up to the last second in which it could come back";
    mark::forgetting_raises_the_mark: "what is forgotten is refused by the low-water mark from then on";
    mark::mined_again_is_kept_by_its_later_time: "a sold payment that is shown with a later block time is kept by that one";
    mark::mined_again_beside_a_free_one: "a sold payment that is shown with a later block time beside a free one is kept by that time as well";
    mark::mined_again_is_refused_unseen: "a sold payment that is mined again within a day is refused, also if it was not shown meanwhile";
    mark::the_mark_never_falls: "forgetting an earlier payment does not lower the mark, nor does a head that goes back";
    mark::nothing_sold_nothing_raised: "what was held and not sold is forgotten without a trace";
    network::each_has_its_own_mark: "each network has its own low-water mark";
    network::forgetting_is_its_own: "a network's head forgets that network's sales alone, and raises its mark alone";
    network::settlements_are_its_own: "a network's head forgets the settlements that were begun on that network, and no others";
    network::each_candidate_has_its_own_mark: "of transfers on several networks each is held against its own network's mark";
    network::not_begun_sells_nothing: "a network on which the memory has not begun sells nothing";
    order::intent_consumed_comes_first: "an intent that bought its answer is told so, whatever else is true";
    order::payment_used_comes_second: "a payment that is used up comes before a lease in the way";
    order::busy_comes_third: "a lease in the way comes before the mark";
    order::before_memory_comes_last: "the mark is told where every transfer that is not used up is below it";
    settling::without_a_record_anyone_takes_over: "a lease that ran out on what is not settled, and was not begun to be, is taken over by any intent";
    settling::its_own_intent_goes_on: "what was begun to be settled is granted to its own intent alone, with the record";
    settling::a_release_leaves_the_record: "a release frees the lease, and not the payment that was begun to be settled";
    settling::a_foreign_claim_changes_nothing: "a refused claim of another intent leaves the holder's lease as it was";
    settling::the_last_record_counts: "a settlement is recorded as it was told last, all of it";
    settling::one_record_for_each_intent_and_payment: "a record of a settlement replaces every other of its intent and of its payment";
    settling::found_by_intent_and_payment: "the record of a settlement is found by its intent and its payment, until its end";
    settling::only_the_holder_records: "only the holder of a lease records a settlement, or removes the record";
    settling::a_record_renews: "recording a settlement renews the lease";
    settling::not_settled_is_free: "what was begun to be settled, and certainly was not, is free after a release";
    settling::once_settled_it_is_taken_over: "the same payment, shown as settled, is taken over by any intent";
    settling::refused_as_if_held: "what is settled for another intent is refused as if it were held";
    settling::no_second_beside_it: "an intent that settles a payment gets no other that is not settled";
    settling::recorded_as_settled: "what was settled since it was reserved is kept, and forgotten, by the block that settled it";
    settling::kept_for_its_intent @minutes: "the record of a settlement is remembered until the payment cannot come back";
    settling::only_its_intent_resumes: "of its own intent and many others at once, its own goes on";
    purchase::another_payment_waits: "while a payment holds a purchase, another payment for it is refused as if it were held";
    purchase::one_payment_buys_it: "once a payment bought a purchase, another payment for it is told so, for good";
    purchase::what_is_not_sold_is_free: "a purchase is free again once its payment is released, or was certainly not settled";
    purchase::a_lease_that_ran_out_gives_way: "a purchase whose lease ran out is taken over, and the old lease is lost";
    purchase::what_was_begun_is_undecided: "a purchase that was begun to be settled waits for that, also when the lease is gone";
    purchase::what_was_begun_keeps_it: "a payment that was begun to be settled keeps its purchase, whatever later claims name";
    purchase::without_a_name_all_are_free: "claims that name no purchase, or another one, do not meet";
    purchase::forgotten_with_its_sale: "a purchase is remembered as long as its sale, and no longer";
    purchase::told_behind_intent_and_payment: "a purchase that is used comes after intent and payment, and before what is held";
    dropped::a_dropped_claim_runs_out: "a claim that is dropped on its way holds nothing for longer than its lease";
    dropped::a_dropped_commit_is_repeated: "a commit that is dropped on its way is repeated";
    dropped::a_dropped_record_is_repeated: "a record of a settlement and a renewal that are dropped on their way are repeated";
    dropped::a_dropped_release_is_repeated: "a release that is dropped on its way is repeated, and frees no other's pair";
    race::one_pair: "of many at once with one pair, one is granted";
    race::one_payment_many_intents: "of many intents at once with one payment, one is granted";
    race::one_intent_many_payments: "of many payments at once for one intent, one is granted";
    race::three_payments_many_intents: "of many intents at once with three transfers, three are granted, one each";
    race::one_purchase_many_payments: "of many payments at once for one purchase, one is granted";
    race::one_takes_over_a_purchase: "of many at once that find a purchase's lease run out, one takes it over, or its payment is settled";
    race::one_takes_over: "of many at once that find a lease run out, one takes it over";
    race::commit_or_take_over: "a late commit and a take-over at once: one of them";
    race::settling_or_take_over: "a late record of a settlement and a take-over at once: one of them";
    race::release_and_reserve: "a release among many claims frees the pair for one of them";
    race::one_delivery: "of many that ask until they are answered or refused, one is answered";
}
