//! Questions about accounts: reads their records together, decides in turn, and writes the results together.

use std::{collections::BTreeMap, time::Duration};

use sqlx::{Row as _, SqliteConnection};

use super::{
    super::{
        super::{
            LedgerError,
            account::{AccountAnswer, AccountId, AccountQuestion, AccountRecord, AccountTime, decide_account},
            sql::{BATCH, micros},
        },
        asked::Asked,
        question::{Answer, Question},
        statements::Statements,
    },
    rows::{json, on},
};

/// An account in this transaction.
#[derive(Default)]
struct Entry {
    record: Option<AccountRecord>,
    is_changed: bool,
    /// Whether the stored text is no valid record.
    is_broken: bool,
}

/// Answers the questions about accounts in the order of the batch, in which the ends of leases come first.
pub(super) async fn all(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<()> {
    let mut entries: BTreeMap<AccountId, Entry> =
        batch.iter().filter_map(asked_of).map(|question| (question.account(), Entry::default())).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let now = read(work, say, &mut entries).await?;
    for asked in &mut *batch {
        let Question::Account(question) = &asked.question else { continue };
        let Some(entry) = entries.get_mut(&question.account()) else { continue };
        asked.answer = Some(match entry.is_broken {
            true => Err(LedgerError::incompatible()),
            false => Ok(Answer::Account(entry.judge(question, now))),
        });
    }
    write(work, say, &entries).await
}

fn asked_of(asked: &Asked) -> Option<&AccountQuestion> {
    match &asked.question {
        Question::Account(question) => Some(question),
        _ => None,
    }
}

impl Entry {
    fn judge(&mut self, question: &AccountQuestion, now: AccountTime) -> AccountAnswer {
        if let Some(record) = &mut self.record {
            let (answer, is_changed) = record.decide(question, now);
            self.is_changed |= is_changed;
            return answer;
        }
        let verdict = decide_account(None, question, now);
        self.is_changed |= verdict.write.is_some();
        self.record = verdict.write;
        verdict.answer
    }
}

/// Reads the records, and the database's clock.
async fn read(
    work: &mut SqliteConnection,
    say: &Statements,
    entries: &mut BTreeMap<AccountId, Entry>,
) -> sqlx::Result<AccountTime> {
    let ids: Vec<_> = entries.keys().map(ToString::to_string).collect();
    let mut now = 0;
    for row in on(&say.accounts, json(&ids)?).fetch_all(work).await? {
        now = row.try_get::<i64, _>(0)?;
        let (Some(id), Some(text)) = (row.try_get::<Option<Vec<u8>>, _>(1)?, row.try_get::<Option<String>, _>(2)?)
        else {
            continue;
        };
        let id = <[u8; 16]>::try_from(id).map(AccountId::new).ok();
        if let Some(entry) = id.and_then(|id| entries.get_mut(&id)) {
            entry.record = AccountRecord::parse(&text);
            entry.is_broken = entry.record.is_none();
        }
    }
    Ok(AccountTime::at(u64::try_from(now).unwrap_or(0)))
}

async fn write(
    work: &mut SqliteConnection,
    say: &Statements,
    entries: &BTreeMap<AccountId, Entry>,
) -> sqlx::Result<()> {
    let changed = || {
        let changed = entries.iter().filter(|(_, entry)| entry.is_changed);
        changed.filter_map(|(id, entry)| entry.record.as_ref().map(|record| (id, record)))
    };
    let rows: Vec<_> =
        changed().filter(|(_, record)| !record.is_claimable()).map(|(id, record)| row(*id, record)).collect();
    if !rows.is_empty() {
        on(&say.set_accounts, json(&rows)?).execute(&mut *work).await?;
    }
    let claimable = changed().filter(|(_, record)| record.is_claimable());
    let rows: Vec<_> = claimable
        .map(|(id, record)| {
            let (id, text, expires) = row(*id, record);
            (id, text, expires, u8::from(record.is_owed()), u8::from(record.is_open_to_claims()))
        })
        .collect();
    if !rows.is_empty() {
        on(&say.set_claimable, json(&rows)?).execute(work).await?;
    }
    Ok(())
}

fn row(id: AccountId, record: &AccountRecord) -> (String, String, Option<i64>) {
    let expires = record.expires().map(|end| i64::try_from(end).unwrap_or(i64::MAX));
    (id.to_string(), record.to_string(), expires)
}

/// Forgets accounts that expired longer ago than this; returns how many, and whether there may be more.
pub(super) async fn forget(
    work: &mut SqliteConnection,
    say: &Statements,
    expired_for: Duration,
) -> sqlx::Result<(u64, bool)> {
    let gone = sqlx::query(say.forget_accounts.sql()).bind(micros(expired_for)).bind(BATCH);
    let gone = gone.execute(work).await?.rows_affected();
    Ok((gone, i64::try_from(gone).is_ok_and(|gone| gone >= BATCH)))
}
