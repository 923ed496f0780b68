//! Concurrent questions about one account, and questions whose callers leave.

use super::{
    super::{AccountLedger, ChargeOutcome, Draw, DrawOutcome, OpenOutcome, Opening},
    account_fixture::{done, granted, units},
    dropped::{POLLS, broken_off},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
    race::{handle, together, waiting_rounds},
};

/// The number of concurrent tasks.
const TASKS: usize = 32;

pub(super) async fn twenty_draws_on_three<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open(3).await?;
        let tasks = (0..20).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                Ok(match ledger.draw(&Draw::new(id, units(1), LONG)).await? {
                    DrawOutcome::Granted(lease) => {
                        // Half of them are charged at once.
                        if task % 2 == 0 {
                            must_be!(
                                ledger.charge(&lease, units(1), None).await?,
                                ChargeOutcome::Done { .. },
                                "a charge"
                            );
                        }
                        1
                    }
                    DrawOutcome::Busy { .. } | DrawOutcome::UsedUp { .. } => 0,
                    other => return Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                })
            }
        });
        let granted: usize = together(tasks).await?.iter().sum();
        must_be!(granted, 3, "grants of three");
    }
    Ok(())
}

pub(super) async fn all_is_spent_once<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    const ALL: u64 = 20;
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open(ALL).await?;
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                let mut charged = 0;
                for turn in 0.. {
                    match ledger.draw(&Draw::new(id, units(2), LONG)).await? {
                        DrawOutcome::Granted(lease) if (task + turn) % 3 == 0 => ledger.release_draw(&lease).await?,
                        DrawOutcome::Granted(lease) => {
                            must_be!(
                                ledger.charge(&lease, units(1), None).await?,
                                ChargeOutcome::Done { .. },
                                "a charge"
                            );
                            charged += 1;
                        }
                        DrawOutcome::Busy { .. } => tokio::task::yield_now().await,
                        // One unit may be left, but a draw needs two.
                        DrawOutcome::UsedUp { .. } => return Ok(charged),
                        other => return Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                    }
                }
                Ok(charged)
            }
        });
        let charged: u64 = together(tasks).await?.iter().sum();
        must_be!(charged, charged if charged == ALL - 1, "charges of one each");
        must_be!(fixture.spent(id).await?, spent if spent == units(ALL - 1), "what was spent");
    }
    Ok(())
}

pub(super) async fn charge_or_take_over<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for _ in 0..waiting_rounds(fixture) {
        let id = fixture.open(1).await?;
        let late = fixture.draw_briefly(id, 1).await?;
        fixture.run_out().await;
        let tasks = (0..TASKS).map(|task| {
            let (ledger, late) = (handle(fixture, task), late.clone());
            async move {
                Ok(if task == TASKS / 2 {
                    (matches!(ledger.charge(&late, units(1), None).await?, ChargeOutcome::Done { .. }), false)
                } else {
                    let told = ledger.draw(&Draw::new(id, units(1), LONG)).await?;
                    (false, matches!(told, DrawOutcome::Granted(_)))
                })
            }
        });
        let outcomes = together(tasks).await?;
        let charged = outcomes.iter().filter(|(charged, _)| *charged).count();
        let granted = outcomes.iter().filter(|(_, granted)| *granted).count();
        must_be!((charged, granted), (1, 0) | (0, 1), "late charges, and take-overs");
    }
    Ok(())
}

pub(super) async fn one_expected_sum<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open(100).await?;
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                Ok(match ledger.draw(&Draw::new(id, units(1), LONG).expecting(units(0))).await? {
                    DrawOutcome::Granted(_) => 1,
                    DrawOutcome::Busy { .. } => 0,
                    other => return Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                })
            }
        });
        let granted: usize = together(tasks).await?.iter().sum();
        must_be!(granted, 1, "grants beside no other");
    }
    Ok(())
}

pub(super) async fn closed_meanwhile<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    const ALL: u64 = 40;
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open(ALL).await?;
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                if task == TASKS / 2 {
                    must_be!(ledger.close_account(id).await?, Some(_), "the closing");
                    must_be!(
                        ledger.draw(&Draw::new(id, units(1), LONG)).await?,
                        DrawOutcome::Closed,
                        "a draw after it"
                    );
                    return Ok(0);
                }
                let lease = match ledger.draw(&Draw::new(id, units(1), LONG)).await? {
                    DrawOutcome::Granted(lease) => lease,
                    DrawOutcome::Closed => return Ok(0),
                    other => return Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                };
                if task % 3 == 0 {
                    ledger.release_draw(&lease).await?;
                    return Ok(0);
                }
                must_be!(
                    ledger.charge(&lease, units(1), None).await?,
                    ChargeOutcome::Done { .. },
                    "a charge of what is live"
                );
                Ok(1)
            }
        });
        let charged: u64 = together(tasks).await?.iter().sum();
        must_be!(
            fixture.twin.close_account(id).await?,
            Some(closed) if closed.left == units(ALL - charged) && closed.held.is_zero(),
            "what is left in the end"
        );
        must_be!(fixture.spent(id).await?, spent if spent == units(charged), "what was spent");
    }
    Ok(())
}

pub(super) async fn opened_by_many<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.account();
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                must_be!(ledger.open_account(&Opening::new(id, units(3))).await?, OpenOutcome::Open(_), "an opening");
                match ledger.draw(&Draw::new(id, units(1), LONG)).await? {
                    DrawOutcome::Granted(_) => Ok(1),
                    DrawOutcome::Busy { .. } => Ok(0),
                    other => Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                }
            }
        });
        let granted: usize = together(tasks).await?.iter().sum();
        must_be!(granted, 3, "grants of three");
    }
    Ok(())
}

pub(super) async fn a_dropped_draw_runs_out<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let mut dropped = Vec::new();
    for polls in 1..=POLLS {
        let id = fixture.open(1).await?;
        let draw = Draw::new(id, units(1), fixture.harness.lease());
        let answer = broken_off(fixture.ledger.draw(&draw), polls).await;
        dropped.push(id);
        if let Some(answer) = answer {
            let _ = granted(answer?)?;
            break;
        }
    }
    fixture.run_out().await;
    for id in dropped {
        must_be!(fixture.charge(&fixture.draw(id, 1).await?, 1).await?, told if done(0)(&told), "the next one's charge");
    }
    Ok(())
}

pub(super) async fn a_dropped_charge_is_repeated<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for polls in 1..=POLLS {
        let id = fixture.open(5).await?;
        let lease = fixture.draw(id, 2).await?;
        let answer = broken_off(fixture.ledger.charge(&lease, units(2), None), polls).await;
        must_be!(fixture.charge(&lease, 2).await?, told if done(3)(&told), "a charge after a dropped one");
        must_be!(fixture.spent(id).await?, spent if spent == units(2), "what was spent");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}

pub(super) async fn a_dropped_release_is_repeated<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for polls in 1..=POLLS {
        let id = fixture.open(1).await?;
        let lease = fixture.draw(id, 1).await?;
        let answer = broken_off(fixture.ledger.release_draw(&lease), polls).await;
        fixture.ledger.release_draw(&lease).await?;
        let other = fixture.draw(id, 1).await?;
        must_be!(fixture.charge(&lease, 1).await?, ChargeOutcome::LeaseLost, "the charge of what was released");
        must_be!(fixture.charge(&other, 1).await?, ChargeOutcome::Done { .. }, "the next one's charge");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}
