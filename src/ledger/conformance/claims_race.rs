//! Concurrent questions about one claimable account, and reflections whose callers leave.

use super::{
    super::{
        AccountId, AccountLedger, ChargeOutcome, Draw, DrawOutcome, OpenOutcome, Opening, ReflectOutcome, Reflection,
    },
    account_fixture::{memo, units},
    claims::{ALL, claims, reflected},
    dropped::{POLLS, broken_off},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
    race::{handle, together, waiting_rounds},
};

/// The number of concurrent tasks.
const TASKS: usize = 64;

pub(super) async fn one_voucher_of_many<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(1_000_000).await?;
    for round in 0..u64::try_from(fixture.harness.rounds()).unwrap_or(1) {
        let tasks = (0..TASKS).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                match ledger.draw(&Draw::new(id, units(5), LONG).expecting(units(round))).await? {
                    DrawOutcome::Granted(lease) => {
                        let voucher = memo(&format!("{round} {task}"))?;
                        must_be!(
                            ledger.charge(&lease, units(1), Some(&voucher)).await?,
                            ChargeOutcome::Done { .. },
                            "the charge"
                        );
                        Ok(Some(voucher))
                    }
                    DrawOutcome::Busy { .. } => Ok(None),
                    DrawOutcome::Mismatch { spent } if spent == units(round + 1) => Ok(None),
                    other => Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                }
            }
        });
        let granted: Vec<_> = together(tasks).await?.into_iter().flatten().collect();
        must_be!(granted.len(), 1, "grants of one sum");
        let account = fixture.look(id).await?;
        must_be!(&account.memo, memo if granted.first() == Some(memo), "the voucher of the one that was granted");
        must_be!(account.owed() == units(round + 1) && account.held.is_zero(), true, "what is owed");
    }
    Ok(())
}

pub(super) async fn charges_and_reflections<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    const CHARGES: u64 = 8;
    const READS: u64 = 8;
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open_claimable(1_000).await?;
        fixture.spend(id, READS).await?;
        let charging = handle(fixture, 0);
        let charges = async move {
            for number in 0..CHARGES {
                let draw = Draw::new(id, units(1), LONG).expecting(units(READS + number));
                let lease = super::account_fixture::granted(charging.draw(&draw).await?)?;
                let voucher = memo(&format!("voucher {number}"))?;
                must_be!(
                    charging.charge(&lease, units(1), Some(&voucher)).await?,
                    ChargeOutcome::Done { .. },
                    "a charge beside reflections"
                );
            }
            Ok(())
        };
        let reads = (1..=READS).map(|block| {
            let ledger = handle(fixture, usize::try_from(block).unwrap_or(0));
            async move {
                let read = Reflection::new(id).claimed(units(block)).limit(units(500 + block)).as_of(block);
                must_be!(
                    ledger.reflect(&read.note(memo(&format!("read {block}"))?)).await?,
                    ReflectOutcome::Done(_),
                    "a reflection beside charges"
                );
                Ok(())
            }
        });
        let charges = Box::pin(charges) as std::pin::Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;
        let all = std::iter::once(charges).chain(reads.map(|read| Box::pin(read) as _));
        let _ = together(all).await?;
        let account = fixture.look(id).await?;
        must_be!(
            account.spent == units(READS + CHARGES) && account.limit == units(500 + READS),
            true,
            "what was spent, and the last limit"
        );
        must_be!(&account.memo, told if *told == memo(&format!("voucher {}", CHARGES - 1))?, "the last voucher");
        must_be!(
            claims(&account)?,
            claims if claims.claimed == units(READS) && claims.as_of == Some(READS)
                && claims.note == memo(&format!("read {READS}"))?,
            "what was read last"
        );
    }
    Ok(())
}

pub(super) async fn lower_limit_or_draw<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for _ in 0..fixture.harness.rounds() {
        let id = fixture.open_claimable(10).await?;
        let tasks = (0..TASKS / 2).map(|task| {
            let ledger = handle(fixture, task);
            async move {
                if task == TASKS / 4 {
                    let account = reflected(ledger.reflect(&Reflection::new(id).limit(units(4))).await?)?;
                    must_be!(account.left() <= units(4), true, "what is left of four");
                    return Ok(0);
                }
                match ledger.draw(&Draw::new(id, units(1), LONG)).await? {
                    DrawOutcome::Granted(_) => Ok(1),
                    DrawOutcome::Busy { .. } => Ok(0),
                    other => Err(Fault::new(format!("a draw in the race was told {other:?}"))),
                }
            }
        });
        let granted: u64 = together(tasks).await?.iter().sum();
        must_be!(granted, granted if (4..=10).contains(&granted), "grants before and after the limit was lowered");
        must_be!(
            fixture.look(id).await?,
            account if account.held == units(granted) && account.shortfall() == units(granted - 4),
            "what is held beyond it"
        );
        must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "one more");
    }
    Ok(())
}

pub(super) async fn claim_or_late_charge<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for _ in 0..waiting_rounds(fixture) {
        let id = fixture.open_claimable(100).await?;
        let late = fixture.draw_briefly(id, 2).await?;
        fixture.run_out().await;
        let tasks = (0..TASKS / 2).map(|task| {
            let (ledger, late) = (handle(fixture, task), late.clone());
            async move {
                if task % 2 == 0 {
                    return Ok(matches!(ledger.charge(&late, units(2), None).await?, ChargeOutcome::Done { .. }));
                }
                let _ = reflected(ledger.reflect(&Reflection::new(id).claimed(units(7))).await?)?;
                Ok(false)
            }
        });
        let _ = together(tasks).await?;
        must_be!(
            fixture.look(id).await?,
            account if account.spent == units(7) && account.owed().is_zero() && account.held.is_zero(),
            "what was claimed was spent, with the charge or without"
        );
    }
    Ok(())
}

pub(super) async fn lists_while_accounts_come_and_go<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let mut stable = Vec::new();
    for _ in 0..5 {
        let id = fixture.open_claimable(9).await?;
        fixture.spend(id, 1).await?;
        stable.push(id);
    }
    stable.sort();
    for _ in 0..fixture.harness.rounds().min(20) {
        let passing: Vec<_> = (0..8).map(|_| fixture.account()).collect();
        let tasks =
            passing.into_iter().chain([AccountId::new([0; 16])]).enumerate().map(|(task, id)| {
                let (ledger, stable) = (handle(fixture, task), stable.clone());
                async move {
                    if task < 8 { come_and_go(&*ledger, id).await } else { read_meanwhile(&*ledger, &stable).await }
                }
            });
        let _ = together(tasks).await?;
        must_be!(fixture.listed().await?.0 == stable, true, "what is owed in the end");
    }
    Ok(())
}

/// An account that has a debt for a moment.
async fn come_and_go<L: AccountLedger>(ledger: &L, id: AccountId) -> Result<(), Fault> {
    let opening = Opening::new(id, units(9)).claimable();
    must_be!(ledger.open_account(&opening).await?, OpenOutcome::Open(_), "an opening");
    let lease = super::account_fixture::granted(ledger.draw(&Draw::new(id, units(1), LONG)).await?)?;
    must_be!(ledger.charge(&lease, units(1), None).await?, ChargeOutcome::Done { .. }, "a charge");
    let read = Reflection::new(id).claimed(units(1));
    must_be!(ledger.reflect(&read).await?, ReflectOutcome::Done(_), "a reflection");
    must_be!(ledger.close_account(id).await?, Some(_), "the closing");
    Ok(())
}

/// Reads pages of two accounts. Accounts that stay come once each, in order, while others come and go.
async fn read_meanwhile<L: AccountLedger>(ledger: &L, stable: &[AccountId]) -> Result<(), Fault> {
    for _ in 0..4 {
        let mut seen = Vec::new();
        loop {
            let page = ledger.owed(seen.last().copied(), 2).await?;
            must_be!(page.iter().all(|(_, account)| !account.owed().is_zero()), true, "each of them is owed");
            seen.extend(page.iter().map(|(id, _)| *id));
            if page.len() < 2 {
                break;
            }
        }
        must_be!(seen.is_sorted_by(|one, next| one < next) && seen.len() < ALL, true, "the order of what is owed");
        must_be!(seen.iter().filter(|id| stable.contains(id)).eq(stable), true, "those that stay");
    }
    Ok(())
}

pub(super) async fn a_dropped_reflection_is_repeated<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for polls in 1..=POLLS {
        let id = fixture.open_claimable(9).await?;
        fixture.spend(id, 5).await?;
        let read = Reflection::new(id).claimed(units(5)).limit(units(7)).note(memo("read")?).as_of(3);
        let answer = broken_off(fixture.ledger.reflect(&read), polls).await;
        let account = fixture.reflect(&read).await?;
        must_be!(account.owed().is_zero() && account.left() == units(2), true, "a reflection after a dropped one");
        must_be!(fixture.look(id).await? == account, true, "the account after that");
        must_be!(fixture.listed().await?.0.is_empty(), true, "what is owed");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}
