//! A batch of questions inside one transaction. No other process writes meanwhile, so every value that was read stays
//! true.

mod accounts;
mod reserve;
mod rows;
mod sweep;

use std::collections::{HashMap, HashSet};

use sqlx::{Row as _, SqliteConnection};

use super::{
    super::{
        Lease, LedgerError, RefundOutcome, answer_space,
        sql::{BATCH, SCHEMA, chain, compatible, seconds},
    },
    asked::Asked,
    question::{Answer, MemoryChange, Question},
    statements::{Statements, Text},
};
use crate::protocol::{ChainTime, PaymentId, TxHash};
use rows::{begun, charged, held, json, millis, on, settled};
use sweep::sweep;

/// Answers each question, those that free something before those that reserve. Returns the number of leases that had
/// expired.
pub(super) async fn answer(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<i64> {
    commits(work, say, batch).await?;
    renewals(work, say, batch).await?;
    unsettlements(work, say, batch).await?;
    releases(work, say, batch).await?;
    let mut expired = 0;
    for asked in &mut *batch {
        match asked.question {
            Question::Memory(word) => asked.answer = Some(memory(work, say, word).await?),
            Question::Sweep(network, head) => {
                let swept = sweep(work, say, (network, head), BATCH).await?;
                expired += swept.leases;
                asked.answer = Some(Ok(Answer::Swept { sales: swept.sales, more: swept.more }));
            }
            Question::Refund(payment, transaction) => {
                asked.answer = Some(refund(work, say, payment, transaction).await?.map(Answer::Refunded));
            }
            Question::Announced(payment) => {
                let announced = sqlx::query(say.announced.sql()).bind(payment.to_string());
                announced.execute(&mut *work).await?;
                asked.answer = Some(Ok(Answer::Announced));
            }
            Question::ForgetAccounts(expired_for) => {
                let (accounts, more) = accounts::forget(work, say, expired_for).await?;
                asked.answer = Some(Ok(Answer::Forgotten { accounts, more }));
            }
            _ => {}
        }
    }
    accounts::all(work, say, batch).await?;
    Ok(expired + reserve::all(work, say, batch).await?)
}

/// The fences that the statement returns.
async fn fences(work: &mut SqliteConnection, text: &Text, rows: String) -> sqlx::Result<Vec<u64>> {
    let told = on(text, rows).fetch_all(work).await?;
    told.iter().map(|row| row.try_get::<i64, _>(0).map(i64::cast_unsigned)).collect()
}

/// The lease that the question commits.
const fn committed(asked: &Asked) -> Option<&Lease> {
    match &asked.question {
        Question::Commit(lease, _) => Some(lease),
        _ => None,
    }
}

async fn commits(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<()> {
    let leases = |batch: &[Asked], wanted: &dyn Fn(&Lease) -> bool| {
        let leases = batch.iter().filter_map(committed).filter(|lease| wanted(lease));
        leases.map(|lease| held(lease, 0)).collect::<Vec<_>>()
    };
    let asked = leases(batch, &|_| true);
    if asked.is_empty() {
        return Ok(());
    }
    let settled: Vec<_> = batch.iter().filter_map(committed).filter_map(settled).collect();
    if !settled.is_empty() {
        on(&say.settled, json(&settled)?).execute(&mut *work).await?;
    }
    let charged: Vec<_> = batch.iter().filter_map(committed).filter_map(charged).collect();
    if !charged.is_empty() {
        let charged = json(&charged)?;
        on(&say.allowed, charged.clone()).execute(&mut *work).await?;
        on(&say.charged, charged).execute(&mut *work).await?;
    }
    let sold = fences(work, &say.commit, json(&asked)?).await?;
    let others = leases(batch, &|lease| !sold.contains(&lease.fencing_token()));
    let before = match others.is_empty() {
        true => Vec::new(),
        false => fences(work, &say.is_committed, json(&others)?).await?,
    };
    if !sold.is_empty() {
        let spent = leases(batch, &|lease| sold.contains(&lease.fencing_token()));
        let spent = json(&spent)?;
        on(&say.end_settling, spent).execute(&mut *work).await?;
        keep(work, say, batch, &sold).await?;
        let to_announce = leases(batch, &|lease| lease.is_to_announce() && sold.contains(&lease.fencing_token()));
        if !to_announce.is_empty() {
            on(&say.to_announce, json(&to_announce)?).execute(&mut *work).await?;
        }
    }
    for asked in batch {
        if let Question::Commit(lease, _) = &asked.question {
            let only_now = sold.contains(&lease.fencing_token());
            asked.answer =
                Some(Ok(Answer::Sold { sold: only_now || before.contains(&lease.fencing_token()), only_now }));
        }
    }
    Ok(())
}

/// Keeps the answers of new sales, one by one, since each may be large. If one cannot be written, the batch fails, and
/// then only its own question.
async fn keep(work: &mut SqliteConnection, say: &Statements, batch: &[Asked], sold: &[u64]) -> sqlx::Result<()> {
    let mut sold: HashSet<_> = sold.iter().copied().collect();
    for asked in batch {
        let Question::Commit(lease, Some((answer, space))) = &asked.question else { continue };
        // If two questions commit one lease, the first keeps its answer.
        if sold.remove(&lease.fencing_token()) {
            let row = sqlx::query(say.keep.sql()).bind(lease.intent().as_bytes().to_vec());
            let row = row.bind(answer.content().to_vec()).bind(millis(answer.keep_for()));
            let kept = row.bind(i64::try_from(*space).unwrap_or(i64::MAX)).execute(&mut *work).await?;
            if kept.rows_affected() == 0 {
                answer_space::is_short();
            }
        }
    }
    Ok(())
}

/// The lease that the question renews.
const fn renewed(asked: &Asked) -> Option<&Lease> {
    match &asked.question {
        Question::Renew(lease) | Question::Settling(lease, _) => Some(lease),
        _ => None,
    }
}

/// Renews leases, and records begun settlements.
async fn renewals(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<()> {
    let leases = batch.iter().filter_map(renewed).map(|lease| held(lease, millis(lease.length())));
    let leases: Vec<_> = leases.collect();
    if leases.is_empty() {
        return Ok(());
    }
    let held = fences(work, &say.renew, json(&leases)?).await?;
    for asked in &mut *batch {
        if let Some(lease) = renewed(asked) {
            let is_held = held.contains(&lease.fencing_token());
            asked.answer = Some(Ok(Answer::Renewed(is_held)));
        }
    }
    let settlings: Vec<_> = batch
        .iter()
        .filter_map(|asked| match &asked.question {
            Question::Settling(lease, settling) if held.contains(&lease.fencing_token()) => {
                Some(begun(lease, settling))
            }
            _ => None,
        })
        .collect();
    if !settlings.is_empty() {
        on(&say.settling, json(&settlings)?).execute(work).await?;
    }
    Ok(())
}

/// Removes the records of settlements that did not use their payment.
async fn unsettlements(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<()> {
    let mut leases = Vec::new();
    for asked in batch {
        if let Question::NotSettled(lease) = &asked.question {
            leases.push(held(lease, 0));
            asked.answer = Some(Ok(Answer::NotSettled));
        }
    }
    if !leases.is_empty() {
        on(&say.not_settled, json(&leases)?).execute(work).await?;
    }
    Ok(())
}

async fn releases(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<()> {
    // If two questions release one lease, the first is answered.
    let mut leases = HashMap::new();
    for asked in &*batch {
        if let Question::Release(lease) = &asked.question {
            leases.entry(lease.fencing_token()).or_insert_with(|| held(lease, 0));
        }
    }
    if leases.is_empty() {
        return Ok(());
    }
    let freed = fences(work, &say.release, json(&leases.values().collect::<Vec<_>>())?).await?;
    for asked in batch {
        if let Question::Release(lease) = &asked.question {
            asked.answer = Some(Ok(Answer::Released(freed.contains(&lease.fencing_token()))));
        }
    }
    Ok(())
}

async fn memory(
    work: &mut SqliteConnection,
    say: &Statements,
    word: MemoryChange,
) -> sqlx::Result<Result<Answer, LedgerError>> {
    let order = sqlx::query(word.text(say).sql()).bind(SCHEMA);
    let order = match word.mark() {
        Some((network, time)) => order.bind(chain(network)).bind(seconds(time)),
        None => order,
    };
    order.execute(&mut *work).await?;
    let question = sqlx::query_as::<_, (i64, Option<i64>)>(say.mark.sql()).bind(SCHEMA);
    let told = question.bind(word.mark().map(|(network, _)| chain(network))).fetch_optional(work).await?;
    let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
    Ok(compatible(told.map(|(version, _)| version)).map(|()| Answer::Memory(mark.map(ChainTime::from_unix))))
}

/// Notes a refund, unless the payment has one.
async fn refund(
    work: &mut SqliteConnection,
    say: &Statements,
    payment: PaymentId,
    transaction: TxHash,
) -> sqlx::Result<Result<RefundOutcome, LedgerError>> {
    let payment = payment.to_string();
    let note = sqlx::query(say.note_refund.sql()).bind(payment.clone()).bind(transaction.as_bytes().to_vec());
    if note.execute(&mut *work).await?.rows_affected() > 0 {
        return Ok(Ok(RefundOutcome::Noted));
    }
    let noted: Vec<u8> = sqlx::query_scalar(say.refund.sql()).bind(payment).fetch_one(work).await?;
    Ok(match noted.try_into().map(TxHash::new) {
        Ok(noted) if noted == transaction => Ok(RefundOutcome::NotedBefore),
        Ok(transaction) => Ok(RefundOutcome::Differs { transaction }),
        Err(_) => Err(LedgerError::incompatible()),
    })
}
