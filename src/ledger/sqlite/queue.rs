//! The queue of writes. A task writes waiting questions in batches, and ends when none is left.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    super::{DrawLease, Lease, LedgerError},
    asked::Asked,
    delivery::{TakesBack, Unheard},
    question::{Answer, Question, Rank},
    writer::{Home, Writer},
};

/// The most questions in a batch. A reservation counts by its candidates.
const TOGETHER: usize = 256;
/// The most reservations of unsettled payments in a batch with other questions, since each keeps those waiting.
const UNPROVEN_BESIDE: usize = 1;
/// The most of them in a batch of their own, since later questions wait for it.
const UNPROVEN_ALONE: usize = 4;
/// The most sales that are kept because their callers have not heard of them. Further ones are looked up on demand.
const UNHEARD: usize = 1_024;

pub(super) struct Queue {
    home: Home,
    line: Mutex<Line>,
    /// The most questions that may wait when another reservation comes.
    limit: usize,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Asked>,
    /// Questions of the last rank, kept apart because there may be many.
    unproven: VecDeque<Asked>,
    /// Whether a task is at work.
    works: bool,
    /// The writer is here while no task works.
    writer: Writer,
    /// In order; the latest is last.
    unheard: VecDeque<Unheard>,
}

impl Line {
    fn len(&self) -> usize {
        self.waiting.len() + self.unproven.len()
    }
}

impl Queue {
    pub(super) fn new(home: Home, limit: usize) -> Self {
        Self { home, line: Mutex::default(), limit }
    }

    pub(super) const fn home(&self) -> &Home {
        &self.home
    }

    /// Asks a question. The caller sets the time limit. If the returned future is dropped, the question is still
    /// answered or passed over.
    pub(super) async fn ask(self: &Arc<Self>, question: Question) -> Result<Answer, LedgerError> {
        if let Some(answer) = self.recall(&question) {
            return Ok(answer);
        }
        let (asked, answer) = Asked::new(question);
        self.join(asked)?;
        answer.await.map_err(|_| LedgerError::unavailable())?.take()
    }

    /// Returns a sale that is recorded and flushed, so that a caller that missed the reply does not wait for another
    /// flush.
    fn recall(&self, question: &Question) -> Option<Answer> {
        let mut line = self.line();
        let place = line.unheard.iter().position(|sale| sale.is_of(question))?;
        line.unheard.remove(place).map(Unheard::into_answer)
    }

    /// Closes the file once the task at work has finished.
    pub(super) async fn close(self: &Arc<Self>) {
        loop {
            let writer = {
                let mut line = self.line();
                (!line.works).then(|| std::mem::take(&mut line.writer))
            };
            match writer {
                Some(writer) => return writer.close().await,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    fn join(self: &Arc<Self>, asked: Asked) -> Result<(), LedgerError> {
        let mut line = self.line();
        let rank = asked.question.rank();
        let most = match rank {
            Rank::Holder => usize::MAX,
            Rank::Reservation => self.limit,
            Rank::Unproven => self.limit.div_ceil(2),
        };
        let is_full = |line: &Line| line.len() >= most;
        if is_full(&line) {
            line.waiting.retain(|asked| !asked.is_obsolete());
            line.unproven.retain(|asked| !asked.is_obsolete());
        }
        if is_full(&line) {
            tracing::warn!("too many wait for the ledger");
            return Err(LedgerError::unavailable());
        }
        if !line.works && Handle::try_current().is_err() {
            return Err(LedgerError::unavailable());
        }
        let waiting = if rank == Rank::Unproven { &mut line.unproven } else { &mut line.waiting };
        waiting.push_back(asked);
        self.start(line);
        Ok(())
    }

    /// Starts a task, unless one works already. Without a runtime, the next question starts it.
    fn start(self: &Arc<Self>, mut line: MutexGuard<'_, Line>) {
        let (false, Ok(runtime)) = (line.works, Handle::try_current()) else { return };
        line.works = true;
        let turn = Turn { queue: Arc::clone(self), writer: Some(std::mem::take(&mut line.writer)) };
        // If the runtime is ending, it drops the turn at once, and the turn's drop locks the line.
        drop(line);
        // SQLite's thread answers each statement, and on a busy runtime an ordinary task would wait behind all others
        // for each answer.
        let waits = runtime.clone();
        drop(runtime.spawn_blocking(move || waits.block_on(turn.work())));
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // No code under this lock can panic halfway.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakesBack for Queue {
    /// Releases the lease in the next batch.
    fn give_back(self: Arc<Self>, lease: Lease) {
        let mut line = self.line();
        line.waiting.push_back(Asked::give_back(lease));
        self.start(line);
    }

    fn give_back_draw(self: Arc<Self>, lease: DrawLease) {
        let mut line = self.line();
        line.waiting.push_back(Asked::give_back_draw(lease));
        self.start(line);
    }

    fn keep(self: Arc<Self>, sale: Unheard) {
        let mut line = self.line();
        let Some(place) = line.waiting.iter().position(|asked| sale.is_of(&asked.question)) else {
            if line.unheard.len() >= UNHEARD {
                line.unheard.pop_front();
            }
            return line.unheard.push_back(sale);
        };
        let asked = line.waiting.remove(place);
        drop(line);
        if let Some(mut asked) = asked {
            asked.answer = Some(Ok(sale.into_answer()));
            // If the caller does not take it here either, it comes back.
            asked.reply(&self);
        }
    }
}

/// The work of one task.
struct Turn {
    queue: Arc<Queue>,
    /// `None` once it was handed back.
    writer: Option<Writer>,
}

impl Turn {
    async fn work(mut self) {
        loop {
            // A caller that just got its answer may ask again, and join the next batch.
            tokio::task::yield_now().await;
            let Some(writer) = &mut self.writer else { return };
            let mut batch = self.queue.next();
            writer.answer(&self.queue.home, &mut batch).await;
            // Hand the writer back first: once the last question is answered, the runtime may stop.
            self.rest();
            batch.into_iter().for_each(|asked| asked.reply(&self.queue));
        }
    }

    /// Hands the writer back if no question waits.
    fn rest(&mut self) {
        let mut line = self.queue.line();
        if line.len() == 0
            && let Some(writer) = self.writer.take()
        {
            line.writer = writer;
            line.works = false;
        }
    }
}

impl Queue {
    /// The next batch, by rank, and in order of arrival within a rank.
    fn next(&self) -> Vec<Asked> {
        let mut line = self.line();
        let mut next: Vec<_> = line.waiting.drain(..).filter(|asked| !asked.is_obsolete()).collect();
        next.sort_by_key(|asked| asked.question.rank());
        let mut weight = 0;
        let fits = |asked: &&Asked| {
            weight += asked.question.weight();
            weight <= TOGETHER
        };
        // The first question is taken whatever its weight.
        let now = next.iter().take_while(fits).count().max(1).min(next.len());
        let later = next.split_off(now);
        line.waiting.extend(later);
        let most = if next.is_empty() { UNPROVEN_ALONE } else { UNPROVEN_BESIDE };
        let unproven = std::iter::from_fn(|| line.unproven.pop_front()).filter(|asked| !asked.is_obsolete());
        next.extend(unproven.take(most));
        next
    }
}

/// The runtime ended before the turn did. Waiting callers learn it from the lost reply, and the next question begins
/// anew. Releases stay in the queue and go with it.
impl Drop for Turn {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let mut line = self.queue.line();
            line.works = false;
            line.waiting.retain(Asked::is_the_ledgers_own);
            line.unproven.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::Settling,
            handle::SqliteLedger,
            tests::{TIME, claim, claim_on_many, covered, held, unproven},
        },
        *,
    };

    /// Many waiting reservations neither delay a sale nor keep it out of the queue.
    #[tokio::test]
    async fn a_sale_does_not_wait_behind_reservations() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let queue = Arc::clone(&ledger.queue);
        // Pretends that a task works, so that no question is answered.
        queue.line().works = true;
        let mut replies = Vec::new();
        let mut join = |question| {
            let (asked, reply) = Asked::new(question);
            replies.push(reply);
            queue.join(asked)
        };
        for _ in 0..queue.limit {
            assert!(join(Question::Reserve(claim())).is_ok());
        }
        assert!(join(Question::Reserve(claim())).is_err(), "the line is full");
        let settling = Settling::new([7; 16], TIME);
        for question in [Question::Commit(held(), None), Question::Settling(held(), settling)] {
            assert!(join(question).is_ok(), "not for a holder");
        }
        let batch = queue.next();
        assert_eq!(batch.len(), TOGETHER);
        assert!(matches!(batch[0].question, Question::Commit(..)));
        assert!(matches!(batch[1].question, Question::Settling(..)));
        assert!(matches!(batch[2].question, Question::Reserve(_)));
        assert_eq!(queue.line().waiting.len(), queue.limit + 2 - TOGETHER, "the others wait on");
    }

    /// Each candidate is examined while the sale beside it waits.
    #[tokio::test]
    async fn a_batch_has_few_candidates() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let queue = Arc::clone(&ledger.queue);
        // Pretends that a task works, so that no question is answered.
        queue.line().works = true;
        let mut replies = Vec::new();
        let mut join = |question| {
            let (asked, reply) = Asked::new(question);
            replies.push(reply);
            queue.join(asked).unwrap();
        };
        for _ in 0..TOGETHER {
            join(Question::Reserve(claim_on_many(32)));
        }
        join(Question::Reserve(claim_on_many(3_000)));
        join(Question::Commit(held(), None));
        let batch = queue.next();
        assert!(matches!(batch[0].question, Question::Commit(..)));
        assert_eq!(batch.len(), 1 + (TOGETHER - 1) / 32);
        let sizes: Vec<_> = std::iter::from_fn(|| Some(queue.next().len()).filter(|size| *size > 0)).collect();
        assert_eq!(sizes.iter().sum::<usize>(), TOGETHER - 7 + 1);
        assert_eq!((sizes.iter().max(), sizes.last()), (Some(&(TOGETHER / 32)), Some(&1)), "the largest is alone");
    }

    /// Each reservation costs its author nothing, and delays the sale beside it.
    #[tokio::test]
    async fn payments_that_have_not_happened_are_reserved_a_few_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let queue = Arc::clone(&ledger.queue);
        // Pretends that a task works, so that no question is answered.
        queue.line().works = true;
        let mut replies = Vec::new();
        let mut join = |question| {
            let (asked, reply) = Asked::new(question);
            replies.push(reply);
            queue.join(asked)
        };
        let most = queue.limit / 2;
        for _ in 0..most {
            assert!(join(Question::Reserve(unproven())).is_ok());
        }
        assert!(join(Question::Reserve(unproven())).is_err(), "half of the line is for others");
        assert!(join(Question::Reserve(claim())).is_ok());
        assert!(join(Question::Reserve(covered())).is_ok(), "it costs a deposit");
        assert!(join(Question::Commit(held(), None)).is_ok());
        let ranks: Vec<_> = queue.next().iter().map(|asked| asked.question.rank()).collect();
        assert_eq!(ranks[..3], [Rank::Holder, Rank::Reservation, Rank::Reservation]);
        assert_eq!(ranks[3..], [Rank::Unproven; UNPROVEN_BESIDE]);
        assert_eq!(queue.next().len(), UNPROVEN_ALONE, "they go on alone, too");
        assert_eq!(queue.line().unproven.len(), most - UNPROVEN_BESIDE - UNPROVEN_ALONE);
    }

    /// A second flush would be slow and useless.
    #[tokio::test]
    async fn who_asks_twice_is_told_what_the_first_was_too_late_for() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let queue = Arc::clone(&ledger.queue);
        // Pretends that a task works, so that no question is answered.
        queue.line().works = true;
        let (mut first, given_up) = Asked::new(Question::Commit(held(), None));
        drop(given_up);
        let (second, again) = Asked::new(Question::Commit(held(), None));
        let (other, mut waits) = Asked::new(Question::Renew(held()));
        queue.line().waiting.extend([second, other]);
        first.answer = Some(Ok(Answer::Sold { sold: true, only_now: true }));
        first.reply(&queue);
        assert!(matches!(again.await.unwrap().take(), Ok(Answer::Sold { sold: true, only_now: true })));
        assert!(waits.try_recv().is_err());
        assert!(queue.recall(&Question::Commit(held(), None)).is_none(), "it was told");
    }
}
