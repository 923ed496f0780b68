//! The one connection that writes: a batch of questions in one transaction, with at most one flush.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{
    super::{
        LedgerError, events,
        sql::{count, failed},
    },
    asked::Asked,
    batch,
    codes::{is_broken, is_busy},
    file::{Companions, Place},
    record::Record,
    statements::{FLUSHED, Statements, UNFLUSHED},
};

/// The state that all writers of a ledger share.
pub(super) struct Home {
    pub(super) place: Place,
    pub(super) options: SqliteConnectOptions,
    pub(super) statements: Arc<Statements>,
    record: Mutex<Record>,
    /// Whether sales were lost: the log was removed, or a backup overwrote the file. Nothing is sold until the ledger
    /// is opened again.
    lost: AtomicBool,
}

impl Home {
    pub(super) fn new(place: Place, options: SqliteConnectOptions, statements: Arc<Statements>) -> Self {
        Self { place, options, statements, record: Mutex::default(), lost: AtomicBool::new(false) }
    }

    /// Whether the file still has the written contents.
    pub(super) fn is_sound(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && self.place.is_same()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub(super) struct Writer {
    open: Option<Open>,
    /// Whether a write or a flush failed: earlier writes may be missing on the disk, and a later flush would not report
    /// it.
    suspects: bool,
}

struct Open {
    connection: SqliteConnection,
    /// Set by the first transaction.
    companions: Option<Companions>,
}

/// Why a batch failed.
enum Fault {
    /// Every question would fail.
    All(LedgerError),
    /// The file, or one of its companions, was replaced.
    Moved,
    /// Earlier records are missing.
    Restored,
    /// The loss was reported before.
    Lost,
    /// Perhaps one question is the cause.
    One(sqlx::Error),
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::One(error)
    }
}

impl Writer {
    /// Answers all questions. If the batch fails, asks each question alone, so that only the failing one fails.
    pub(super) async fn answer(&mut self, home: &Home, batch: &mut [Asked]) {
        let error = match self.try_answer(home, batch).await {
            Ok(()) => return,
            Err(Fault::One(_)) if batch.len() > 1 => {
                for asked in batch.chunks_mut(1) {
                    Box::pin(self.answer(home, asked)).await;
                }
                return;
            }
            Err(Fault::One(error)) => failed(&error),
            Err(Fault::All(error)) => error,
            Err(Fault::Moved) => {
                tracing::error!(
                    "the ledger's file was moved, removed, replaced or hard-linked: nothing is sold until it is opened \
                     again, under its only name"
                );
                LedgerError::unavailable()
            }
            Err(Fault::Restored) => {
                tracing::error!(
                    "the ledger lacks what was on record, as if a backup was restored into its file: nothing is sold \
                     until it is opened again; raise its mark first"
                );
                LedgerError::unavailable()
            }
            Err(Fault::Lost) => LedgerError::unavailable(),
        };
        for asked in batch {
            asked.answer = Some(Err(error.clone()));
        }
    }

    /// Answers the batch in one transaction. After a failure the connection is not used again, because SQLite may or
    /// may not have undone its transaction.
    async fn try_answer(&mut self, home: &Home, batch: &mut [Asked]) -> Result<(), Fault> {
        if batch.iter().all(Asked::is_obsolete) {
            return Ok(());
        }
        if home.lost.load(Ordering::Relaxed) {
            return Err(Fault::Lost);
        }
        if !home.place.is_same() {
            return Err(Fault::Moved);
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect(home).await.map_err(|error| Fault::All(failed(&error)))?,
        };
        let outcome = open.answer(home, batch).await;
        match &outcome {
            Ok(()) => self.open = Some(open),
            Err(fault) => {
                self.suspects |= matches!(fault, Fault::One(error) if is_broken(error));
                if matches!(fault, Fault::Moved | Fault::Restored) {
                    home.lost.store(true, Ordering::Relaxed);
                }
                let _ = open.connection.close().await;
            }
        }
        outcome
    }

    async fn connect(&mut self, home: &Home) -> sqlx::Result<Open> {
        let mut connection = SqliteConnection::connect_with(&home.options).await?;
        if self.suspects {
            // Moves the log into the database, which has a flush of its own: then nothing depends on the log.
            let checkpoint = sqlx::query_scalar::<_, i64>("PRAGMA wal_checkpoint(TRUNCATE)");
            if checkpoint.fetch_one(&mut connection).await? != 0 {
                return Err(sqlx::Error::Io(std::io::ErrorKind::ResourceBusy.into()));
            }
            self.suspects = false;
        }
        Ok(Open { connection, companions: None })
    }

    pub(super) async fn close(self) {
        if let Some(open) = self.open {
            let _ = open.connection.close().await;
        }
    }
}

impl Open {
    async fn answer(&mut self, home: &Home, batch: &mut [Asked]) -> Result<(), Fault> {
        if !self.begin(home, batch).await? {
            return Ok(());
        }
        let expired = batch::answer(&mut self.connection, &home.statements, batch).await?;
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        let companions = home.place.companions();
        let is_same = companions.is_some() && (self.companions.is_none() || self.companions == companions);
        if !is_same || !home.place.is_same() {
            return Err(Fault::Moved);
        }
        self.companions = companions;
        home.record().grow(batch);
        events::expired(count(expired));
        Ok(())
    }

    /// Begins to write, exclusively, once no other process writes; the flush level is set before. Returns `false` if no
    /// caller waits for an answer any more.
    async fn begin(&mut self, home: &Home, batch: &[Asked]) -> Result<bool, Fault> {
        let (say, lasts) = (&home.statements, batch.iter().any(|asked| asked.question.must_be_durable()));
        let (text, level) = if lasts { (&say.begin_flushed, FLUSHED) } else { (&say.begin_unflushed, UNFLUSHED) };
        let sale = home.record().sale();
        while !batch.iter().all(Asked::is_obsolete) {
            let begin = sqlx::query_scalar::<_, i64>(text.sql());
            let begin = begin.bind(sale.map(|sale| sale.fence)).bind(sale.map(|sale| sale.block_time));
            let begin = begin.bind(sale.map(|sale| sale.chain));
            // Prepared anew each time, because a PRAGMA takes effect when it is prepared.
            match begin.persistent(false).fetch_all(&mut self.connection).await {
                Ok(told) if told.first() != Some(&level) => {
                    tracing::error!("SQLite does not say that it flushes");
                    return Err(Fault::All(LedgerError::unavailable()));
                }
                Ok(told) if home.record().meets(told.get(1).copied()) => return Ok(true),
                Ok(_) => return Err(Fault::Restored),
                // If no caller waits, the busy file is tried once: a runtime that ends waits for this task.
                Err(error) if is_busy(&error) && batch.iter().any(|asked| !asked.is_the_ledgers_own()) => {}
                Err(error) if is_busy(&error) => break,
                Err(error) => return Err(Fault::All(failed(&error))),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::{
                Settling,
                account::{AccountId, AccountMemo, AccountQuestion, Draw, DrawLease, Opening},
            },
            handle::SqliteLedger,
            question::{MemoryChange, Question},
            tests::{TIME, claim, held, unproven},
        },
        *,
    };
    use crate::protocol::{Amount, Network, TxHash};

    /// Queries the same connection, in the same transaction, batch after batch.
    #[tokio::test]
    async fn a_batch_with_a_sale_is_flushed_and_one_without_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let home = ledger.queue.home();
        let mut open = Writer::default().connect(home).await.unwrap();
        let (claim, lease, sweep) = (claim(), held(), || Question::Sweep(Network::BASE, TIME));
        let unsettled = unproven();
        let (id, one, of_account) = (AccountId::new([7; 16]), Amount::from_base_units(1), Question::Account);
        let call = Draw::new(id, one, std::time::Duration::from_secs(60));
        let drawn = DrawLease::new(&call, 1, 1, AccountMemo::default());
        let (renew, commit) = (|| Question::Renew(lease.clone()), || Question::Commit(lease.clone(), None));
        for (questions, full) in [
            (vec![commit()], true),
            (vec![Question::Reserve(claim.clone())], false),
            (vec![Question::Reserve(unsettled), Question::NotSettled(lease.clone())], false),
            (vec![Question::Settling(lease.clone(), Settling::new([7; 16], TIME))], true),
            (vec![renew(), sweep(), commit(), renew()], true),
            (vec![renew(), Question::Release(lease.clone()), sweep()], false),
            (vec![Question::Memory(MemoryChange::Start(Network::BASE, TIME))], true),
            (vec![Question::Refund(claim.payments()[0].id(), TxHash::new([5; 32]))], true),
            // A call by pass waits for the disk only at its charge.
            (vec![of_account(AccountQuestion::Draw(call.clone()))], false),
            (
                vec![
                    of_account(AccountQuestion::Renew(drawn.clone())),
                    of_account(AccountQuestion::Release(drawn.clone())),
                ],
                false,
            ),
            (vec![of_account(AccountQuestion::Charge(drawn.clone(), one, None))], true),
            (vec![of_account(AccountQuestion::Open(Opening::new(id, one)))], true),
            (vec![of_account(AccountQuestion::Close(id))], true),
        ] {
            let (batch, _answers): (Vec<_>, Vec<_>) = questions.into_iter().map(Asked::new).unzip();
            assert!(matches!(open.begin(home, &batch).await, Ok(true)));
            let pragma = sqlx::query_scalar::<_, i64>("PRAGMA synchronous").persistent(false);
            assert_eq!(pragma.fetch_one(&mut open.connection).await.unwrap(), if full { 2 } else { 1 });
            sqlx::query("ROLLBACK").execute(&mut open.connection).await.unwrap();
        }
    }

    /// Simulates a connection that does not flush as it was told to.
    #[tokio::test]
    async fn nothing_is_written_at_another_level_than_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let ledger = SqliteLedger::open(&path).await.unwrap();
        let mut statements = Statements::new("ledger_");
        std::mem::swap(&mut statements.begin_flushed, &mut statements.begin_unflushed);
        let home = Home::new(Place::new(&path), ledger.queue.home().options.clone(), Arc::new(statements));
        let mut open = Writer::default().connect(&home).await.unwrap();
        for question in [Question::Commit(held(), None), Question::Renew(held())] {
            let (asked, _answer) = Asked::new(question);
            assert!(matches!(open.begin(&home, &[asked]).await, Err(Fault::All(_))));
            sqlx::query("ROLLBACK").execute(&mut open.connection).await.unwrap();
        }
    }
}
