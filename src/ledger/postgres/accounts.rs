//! The accounts of a PostgreSQL ledger: reads a record, decides, and writes the result if the record is unchanged.

use std::time::Duration;

use super::{
    super::{
        LedgerError,
        account::{
            Account, AccountAnswer, AccountId, AccountList, AccountQuestion, AccountRecord, AccountTime,
            account_ledger, decide_account,
        },
        sql::{BATCH, in_time, micros},
    },
    connection::ask,
    handle::PostgresLedger,
    statements::{Flush, bytes, flag, null, text, whole},
};

/// A record as it was read, with its version; `None` if there is no account.
type Read = Option<(i64, AccountRecord)>;

impl PostgresLedger {
    async fn ask_account(&self, question: AccountQuestion) -> Result<AccountAnswer, LedgerError> {
        in_time(self.time_limit, async {
            let _turn = self.turns.of(question.account()).await;
            let _permit = match question.begins() {
                true => Some(self.shares.enter_draw().await?),
                false => None,
            };
            // Each failed try means that another process has written.
            loop {
                let (read, now) = self.read_account(&question).await?;
                let (version, record) = read.unzip();
                let verdict = decide_account(record, &question, now);
                let Some(record) = verdict.write else { return Ok(verdict.answer) };
                let flush = if question.must_be_durable() { Flush::Now } else { Flush::Later };
                if self.write_account(flush, question.account(), version, &record).await? {
                    return Ok(verdict.answer);
                }
            }
        })
        .await
    }

    /// Reads the account. If money is spent, the server must know the last sales of this process.
    async fn read_account(&self, question: &AccountQuestion) -> Result<(Read, AccountTime), LedgerError> {
        type Row = (i64, Option<i64>, Option<String>);
        let (say, values) = (&self.statements.account, [bytes(question.account().as_bytes())]);
        let rows = match question.spends() {
            true => ask(|| self.known_rows::<Row>(Flush::Later, say, &values)).await?,
            false => ask(|| self.rows::<Row>(Flush::Later, say, &values)).await?,
        };
        let (now, version, record) = rows.into_iter().next().ok_or(LedgerError::unavailable())?;
        let read = match version.zip(record) {
            Some((version, record)) => {
                Some((version, AccountRecord::parse(&record).ok_or(LedgerError::incompatible())?))
            }
            None => None,
        };
        Ok((read, AccountTime::at(u64::try_from(now).unwrap_or(0))))
    }

    /// Writes the record. Returns whether the account still had this version, or still did not exist.
    async fn write_account(
        &self,
        flush: Flush,
        id: AccountId,
        version: Option<i64>,
        record: &AccountRecord,
    ) -> Result<bool, LedgerError> {
        let expires = match record.expires() {
            Some(end) => whole(i64::try_from(end).unwrap_or(i64::MAX)),
            None => null("bigint"),
        };
        let mut values = vec![bytes(id.as_bytes()), text(&record.to_string()), expires];
        if record.is_claimable() {
            values.extend([flag(record.is_owed()), flag(record.is_open_to_claims())]);
        }
        values.extend(version.map(whole));
        let say = match (version.is_some(), record.is_claimable()) {
            (true, false) => &self.statements.set_account,
            (true, true) => &self.statements.set_claimable,
            (false, false) => &self.statements.new_account,
            (false, true) => &self.statements.new_claimable,
        };
        Ok(self.one::<(bool,)>(flush, say, &values).await?.is_some())
    }

    async fn list_accounts(
        &self,
        list: AccountList,
        after: Option<AccountId>,
        most: usize,
    ) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        let say = match list {
            AccountList::Owed => &self.statements.owed,
            AccountList::Claimable => &self.statements.claimable,
        };
        let behind = after.as_ref().map_or(&[][..], |id| id.as_bytes());
        let values = [bytes(behind), whole(i64::try_from(most).unwrap_or(i64::MAX))];
        let rows: Vec<(i64, String, String)> = self.book_rows(Flush::Later, say, &values).await?;
        let listed = rows.into_iter().map(|(now, id, record)| {
            let id: AccountId = id.parse().map_err(|_| LedgerError::incompatible())?;
            let record = AccountRecord::parse(&record).ok_or(LedgerError::incompatible())?;
            Ok((id, record.at(AccountTime::at(u64::try_from(now).unwrap_or(0)))))
        });
        listed.collect()
    }

    async fn forget_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        let values = [micros(expired_for), BATCH].map(whole);
        let mut forgotten = 0;
        loop {
            let question = self.one::<(i64,)>(Flush::Later, &self.statements.forget_accounts, &values);
            let gone = in_time(self.time_limit, question).await?.map_or(0, |(gone,)| gone);
            forgotten += u64::try_from(gone).unwrap_or(0);
            if gone < BATCH {
                return Ok(forgotten);
            }
        }
    }
}

account_ledger!(PostgresLedger);
