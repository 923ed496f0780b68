//! The accounts of a Redis ledger: reads a record, decides, and writes the result if the record is unchanged.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    super::{
        LedgerError,
        account::{
            Account, AccountAnswer, AccountId, AccountList, AccountQuestion, AccountRecord, AccountTime,
            account_ledger, decide_account,
        },
    },
    handle::RedisLedger,
    words::{recorded, word},
};

/// The time limit of a question, as a multiple of the limit of each of its parts.
const PARTS: u32 = 2;
/// The largest time that Lua counts exactly. It lies too far in the future to be reached.
const MOST: u64 = (1 << 53) - 1;

impl RedisLedger {
    async fn ask_account(&self, question: AccountQuestion) -> Result<AccountAnswer, LedgerError> {
        let answer = async {
            let _turn = self.inner.turns.of(question.account()).await;
            // Each failed try means that another process has written.
            loop {
                if let Some(answer) = self.try_account(&question).await? {
                    return Ok(answer);
                }
            }
        };
        timeout(self.inner.connection.time_limit() * PARTS, answer).await.unwrap_or(Err(LedgerError::unavailable()))
    }

    /// Returns `None` if another process has written meanwhile.
    async fn try_account(&self, question: &AccountQuestion) -> Result<Option<AccountAnswer>, LedgerError> {
        let id = question.account().to_string();
        let (version, record, now) = self.read_account(&id, question.spends()).await?;
        let before = record.clone();
        let verdict = decide_account(record, question, now);
        // Writes an unchanged record again if it must last and has replicas, since the earlier write may not have
        // reached them.
        let again = before.filter(|_| question.must_be_durable() && self.inner.replicated.is_some());
        let Some(record) = verdict.write.or(again) else { return Ok(Some(verdict.answer)) };
        let expires = record.expires().map_or_else(String::new, |end| end.min(MOST).to_string());
        let mut words = vec![id, version, record.to_string(), expires];
        if record.is_claimable() {
            let (owed, open) = (record.is_owed(), record.is_open_to_claims());
            let lists = [if owed { "owed" } else { "claimed" }, if open { "open" } else { "closed" }];
            words.extend(lists.map(str::to_owned));
        }
        let (may, must) = (&self.inner.scripts.set_account, &self.inner.scripts.set_account_at_last);
        let written = match (question.must_be_durable(), question.begins()) {
            (true, begins) => self.ask_for_good(if begins { may } else { must }, &words, None).await?,
            (false, begins) => self.ask(if begins { may } else { must }, &words).await?,
        };
        Ok(word(&written, &[("done", true), ("changed", false)])?.then_some(verdict.answer))
    }

    /// Reads the account. If money is spent, the server must know the last sales of this process.
    async fn read_account(
        &self,
        id: &str,
        spends: bool,
    ) -> Result<(String, Option<AccountRecord>, AccountTime), LedgerError> {
        let last = if spends { self.inner.last_sales.get() } else { Vec::new() };
        let mut words = recorded(&last);
        words.push(id.to_owned());
        let told: Vec<String> = self.ask(&self.inner.scripts.account, &words).await?;
        word(&told, &[("done", ())])?;
        let [_, now, version, record] = <[String; 4]>::try_from(told).map_err(|_| LedgerError::incompatible())?;
        let now = now.parse().map_err(|_| LedgerError::incompatible())?;
        let record = match version.is_empty() {
            true => None,
            false => Some(AccountRecord::parse(&record).ok_or(LedgerError::incompatible())?),
        };
        Ok((version, record, AccountTime::at(now)))
    }

    async fn list_accounts(
        &self,
        list: AccountList,
        after: Option<AccountId>,
        most: usize,
    ) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        let list = match list {
            AccountList::Owed => "accounts_owed",
            AccountList::Claimable => "accounts_claimable",
        };
        let most = u64::try_from(most).unwrap_or(MOST).min(MOST).to_string();
        let words = [list.to_owned(), after.map(|id| id.to_string()).unwrap_or_default(), most];
        let told: Vec<String> = self.ask(&self.inner.scripts.list_accounts, &words).await?;
        word(&told, &[("done", ())])?;
        let [_, now, listed @ ..] = &told[..] else { return Err(LedgerError::incompatible()) };
        let now = now.parse().map(AccountTime::at).map_err(|_| LedgerError::incompatible())?;
        let listed = listed.as_chunks::<2>().0.iter().map(|[id, record]| {
            let id: AccountId = id.parse().map_err(|_| LedgerError::incompatible())?;
            Ok((id, AccountRecord::parse(record).ok_or(LedgerError::incompatible())?.at(now)))
        });
        listed.collect()
    }

    async fn forget_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        let micros = u64::try_from(expired_for.as_micros()).unwrap_or(MOST).min(MOST).to_string();
        let mut forgotten = 0;
        loop {
            let told: Vec<String> =
                self.ask(&self.inner.scripts.forget_accounts, std::slice::from_ref(&micros)).await?;
            let gone = told.get(1).and_then(|gone| gone.parse().ok()).unwrap_or(0_u64);
            if gone == 0 {
                return Ok(forgotten);
            }
            forgotten += gone;
        }
    }
}

account_ledger!(RedisLedger);
