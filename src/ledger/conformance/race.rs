//! Concurrent claims. The decision must be one atomic step: a ledger that reads first and writes later fails here.

use std::{collections::HashSet, future::Future, sync::Arc};

use tokio::sync::Barrier;

use super::{
    super::{Claim, CommitOutcome, Lease, Ledger, RenewOutcome, ReserveOutcome},
    fixture::{BEGUN, Fault, Fixture, claim_for, must_be, unsettled},
    harness::Harness,
};
use crate::protocol::Transfer;

/// The number of concurrent tasks.
const TASKS: usize = 64;

pub(super) async fn one_pair<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
        let grants = grants(fixture, vec![claim.clone(); TASKS]).await?;
        must_be!(grants.len(), 1, "grants of one pair");
        settle(fixture, &grants).await?;
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair after the race");
    }
    Ok(())
}

pub(super) async fn one_payment_many_intents<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let paid = [fixture.paid()];
        let claims: Vec<_> = (0..TASKS).map(|_| fixture.claim(fixture.intent(), &paid)).collect();
        let grants = grants(fixture, claims.clone()).await?;
        must_be!(grants.len(), 1, "grants of one payment");
        settle(fixture, &grants).await?;
        for claim in claims.iter().filter(|claim| claim.intent() != grants[0].intent()).take(2) {
            must_be!(fixture.reserve(claim).await?, ReserveOutcome::PaymentUsed, "the payment after the race");
            let _ = fixture.hold(&fixture.claim(claim.intent(), &[fixture.paid()])).await?;
        }
    }
    Ok(())
}

pub(super) async fn one_intent_many_payments<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let intent = fixture.intent();
        let claims: Vec<_> = (0..TASKS).map(|_| fixture.claim(intent, &[fixture.paid()])).collect();
        let grants = grants(fixture, claims.clone()).await?;
        must_be!(grants.len(), 1, "grants of one intent");
        settle(fixture, &grants).await?;
        for claim in claims.iter().filter(|claim| claim.payments()[0] != *grants[0].payment()).take(2) {
            must_be!(fixture.reserve(claim).await?, ReserveOutcome::IntentConsumed, "the intent after the race");
            let _ = fixture.hold(&fixture.claim(fixture.intent(), claim.payments())).await?;
        }
    }
    Ok(())
}

pub(super) async fn three_payments_many_intents<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let first = fixture.paid();
        let all = [0, 1, 2].map(|position| Transfer { position, ..first.clone() });
        let claims = (0..TASKS).map(|_| fixture.claim(fixture.intent(), &all)).collect();
        let grants = grants(fixture, claims).await?;
        let taken: HashSet<_> = grants.iter().map(|lease| lease.payment().position()).collect();
        must_be!((grants.len(), taken.len()), (3, 3), "grants, and transfers that were granted");
        settle(fixture, &grants).await?;
    }
    Ok(())
}

pub(super) async fn one_purchase_many_payments<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let purchase = fixture.purchase();
        let claims: Vec<_> = (0..TASKS).map(|_| fixture.claim_for(purchase, &[unsettled(fixture)])).collect();
        let grants = grants(fixture, claims.clone()).await?;
        must_be!(grants.len(), 1, "grants of one purchase");
        settle(fixture, &grants).await?;
        for claim in claims.iter().filter(|claim| claim.intent() != grants[0].intent()).take(2) {
            must_be!(fixture.reserve(claim).await?, ReserveOutcome::PurchaseConsumed, "the purchase after the race");
            let _ = fixture.hold(&fixture.claim(claim.intent(), claim.payments())).await?;
        }
    }
    Ok(())
}

pub(super) async fn one_takes_over_a_purchase<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..waiting_rounds(fixture) {
        let purchase = fixture.purchase();
        let brief = claim_for(fixture.intent(), purchase, &[unsettled(fixture)], fixture.harness.lease());
        let old = fixture.hold(&brief).await?;
        fixture.run_out().await;
        let tasks = (0..TASKS).map(|task| {
            let (ledger, old) = (handle(fixture, task), old.clone());
            let claim = fixture.claim_for(purchase, &[unsettled(fixture)]);
            async move {
                Ok(if task == TASKS / 2 {
                    (ledger.settling(&old, &BEGUN).await? == RenewOutcome::Held, false)
                } else {
                    (false, matches!(ledger.reserve(&claim).await?, ReserveOutcome::Granted(_)))
                })
            }
        });
        let outcomes = together(tasks).await?;
        let begun = outcomes.iter().filter(|(begun, _)| *begun).count();
        let granted = outcomes.iter().filter(|(_, granted)| *granted).count();
        must_be!((begun, granted), (1, 0) | (0, 1), "late records, and take-overs of one purchase");
    }
    Ok(())
}

pub(super) async fn one_takes_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..waiting_rounds(fixture) {
        let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
        let old = fixture.hold(&claim).await?;
        fixture.run_out().await;
        // Half of the claims have the old holder's intent, half have others.
        let claims = (0..TASKS)
            .map(|task| if task % 2 == 0 { claim.intent() } else { fixture.intent() })
            .map(|intent| fixture.claim(intent, claim.payments()))
            .collect();
        let grants = grants(fixture, claims).await?;
        must_be!(grants.len(), 1, "grants of what ran out");
        must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the old holder's commit");
        settle(fixture, &grants).await?;
    }
    Ok(())
}

pub(super) async fn commit_or_take_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..waiting_rounds(fixture) {
        let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
        let old = fixture.hold(&claim).await?;
        fixture.run_out().await;
        let paid = claim.payments();
        let tasks = (0..TASKS).map(|task| {
            let (ledger, old, claim) = (handle(fixture, task), old.clone(), fixture.claim(fixture.intent(), paid));
            async move {
                Ok(if task == TASKS / 2 {
                    (ledger.commit(&old, None).await? == CommitOutcome::Done, false)
                } else {
                    (false, matches!(ledger.reserve(&claim).await?, ReserveOutcome::Granted(_)))
                })
            }
        });
        let outcomes = together(tasks).await?;
        let sold = outcomes.iter().filter(|(sold, _)| *sold).count();
        let granted = outcomes.iter().filter(|(_, granted)| *granted).count();
        must_be!((sold, granted), (1, 0) | (0, 1), "late commits, and take-overs");
        must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), consumed if consumed == (sold == 1), "the intent is consumed");
    }
    Ok(())
}

pub(super) async fn settling_or_take_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..waiting_rounds(fixture) {
        let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
        let old = fixture.hold(&claim).await?;
        fixture.run_out().await;
        let paid = claim.payments();
        let tasks = (0..TASKS).map(|task| {
            let (ledger, old, claim) = (handle(fixture, task), old.clone(), fixture.claim(fixture.intent(), paid));
            async move {
                Ok(if task == TASKS / 2 {
                    (ledger.settling(&old, &BEGUN).await? == RenewOutcome::Held, false)
                } else {
                    (false, matches!(ledger.reserve(&claim).await?, ReserveOutcome::Granted(_)))
                })
            }
        });
        let outcomes = together(tasks).await?;
        let begun = outcomes.iter().filter(|(begun, _)| *begun).count();
        let granted = outcomes.iter().filter(|(_, granted)| *granted).count();
        must_be!((begun, granted), (1, 0) | (0, 1), "late records, and take-overs");
    }
    Ok(())
}

pub(super) async fn release_and_reserve<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
        let old = fixture.hold(&claim).await?;
        let tasks = (0..TASKS).map(|task| {
            let (ledger, old, claim) = (handle(fixture, task), old.clone(), claim.clone());
            async move {
                // Several releases of one lease: the second must not free a claim that was granted after the first.
                if task % 8 == 0 {
                    ledger.release(&old).await?;
                    return Ok(None);
                }
                Ok(match ledger.reserve(&claim).await? {
                    ReserveOutcome::Granted(lease) => Some(lease),
                    _ => None,
                })
            }
        });
        let grants: Vec<_> = together(tasks).await?.into_iter().flatten().collect();
        must_be!(grants.len(), 0 | 1, "grants of what was released");
        must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "commit of the released lease");
        settle(fixture, &grants).await?;
    }
    Ok(())
}

pub(super) async fn one_delivery<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for _ in 0..fixture.harness.rounds() {
        let (intent, paid) = (fixture.intent(), [fixture.paid()]);
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            let claim = fixture.claim(if task % 2 == 0 { intent } else { fixture.intent() }, &paid);
            async move {
                loop {
                    match ledger.reserve(&claim).await? {
                        ReserveOutcome::Granted(lease) if task % 3 == 0 => {
                            ledger.release(&lease).await?;
                            return Ok(0);
                        }
                        ReserveOutcome::Granted(lease) => {
                            return Ok(usize::from(ledger.commit(&lease, None).await? == CommitOutcome::Done));
                        }
                        ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } => {
                            tokio::task::yield_now().await;
                        }
                        ReserveOutcome::IntentConsumed | ReserveOutcome::PaymentUsed => return Ok(0),
                        other => return Err(Fault::new(format!("a claim in the race was told {other:?}"))),
                    }
                }
            }
        });
        let delivered: usize = together(tasks).await?.iter().sum();
        must_be!(delivered, 1, "deliveries for one payment");
    }
    Ok(())
}

/// Races that wait for a lease in each round are run less often if that takes real time.
pub(super) fn waiting_rounds<H: Harness>(fixture: &Fixture<'_, H>) -> usize {
    if fixture.harness.skips_time() { fixture.harness.rounds() } else { fixture.harness.rounds().min(3) }
}

/// Half of the tasks are on another replica.
pub(super) fn handle<H: Harness>(fixture: &Fixture<'_, H>, task: usize) -> Arc<H::Ledger> {
    Arc::clone(if task.is_multiple_of(2) { &fixture.ledger } else { &fixture.twin })
}

/// Makes these claims concurrently, and returns the grants.
pub(super) async fn grants<H: Harness>(fixture: &Fixture<'_, H>, claims: Vec<Claim>) -> Result<Vec<Lease>, Fault> {
    let tasks = claims.into_iter().enumerate().map(|(task, claim)| {
        let ledger = handle(fixture, task);
        async move {
            Ok(match ledger.reserve(&claim).await? {
                ReserveOutcome::Granted(lease) => Some(lease),
                ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } => None,
                other => return Err(Fault::new(format!("a claim in the race was told {other:?}"))),
            })
        }
    });
    Ok(together(tasks).await?.into_iter().flatten().collect())
}

/// Commits each of these leases from several tasks at once; each commit must return that it is done.
pub(super) async fn settle<H: Harness>(fixture: &Fixture<'_, H>, leases: &[Lease]) -> Result<(), Fault> {
    for lease in leases {
        let tasks = (0..4).map(|task| {
            let (ledger, lease) = (handle(fixture, task), lease.clone());
            async move { Ok(ledger.commit(&lease, None).await?) }
        });
        let outcomes = together(tasks).await?;
        must_be!(
            outcomes.iter().all(|outcome| *outcome == CommitOutcome::Done),
            true,
            "every commit of the holder is done"
        );
    }
    Ok(())
}

/// Starts all futures at one moment, and waits for all.
pub(super) async fn together<T: Send + 'static>(
    tasks: impl Iterator<Item = impl Future<Output = Result<T, Fault>> + Send + 'static>,
) -> Result<Vec<T>, Fault> {
    let tasks: Vec<_> = tasks.collect();
    let barrier = Arc::new(Barrier::new(tasks.len()));
    let running: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                task.await
            })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(running.len());
    for task in running {
        outcomes.push(task.await.map_err(|_| Fault::new("a task of the race panicked"))??);
    }
    Ok(outcomes)
}
