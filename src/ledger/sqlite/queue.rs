//! The queue of writes. Questions that wait together are written together, by a task that lives while any waits.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    super::{Lease, LedgerError},
    asked::Asked,
    delivery::{TakesBack, Unheard},
    question::{Answer, Question},
    writer::{Home, Writer},
};

/// How many are answered at once at most.
const TOGETHER: usize = 256;
/// How many sales are kept whose callers have not heard of them; any more are looked up when they are asked for.
const UNHEARD: usize = 1_024;

pub(super) struct Queue {
    home: Home,
    line: Mutex<Line>,
    /// How many may wait.
    limit: usize,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Asked>,
    /// A task answers.
    works: bool,
    /// Here while no task works.
    writer: Writer,
    /// The latest last.
    unheard: VecDeque<Unheard>,
}

impl Queue {
    pub(super) fn new(home: Home, limit: usize) -> Self {
        Self { home, line: Mutex::default(), limit }
    }

    pub(super) const fn home(&self) -> &Home {
        &self.home
    }

    /// Asks; the caller sets the time limit. Once this is dropped, the question is answered or passed over.
    pub(super) async fn ask(self: &Arc<Self>, question: Question) -> Result<Answer, LedgerError> {
        if let Some(answer) = self.recall(&question) {
            return Ok(answer);
        }
        let (asked, answer) = Asked::new(question);
        self.join(asked)?;
        answer.await.map_err(|_| LedgerError::unavailable())?.take()
    }

    /// What is recorded already, and flushed: a caller that did not hear so does not wait for another flush.
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
        if line.waiting.len() >= self.limit {
            line.waiting.retain(|asked| !asked.is_dropped());
        }
        if line.waiting.len() >= self.limit {
            tracing::warn!("too many wait for the ledger");
            return Err(LedgerError::unavailable());
        }
        if !line.works && Handle::try_current().is_err() {
            return Err(LedgerError::unavailable());
        }
        line.waiting.push_back(asked);
        self.start(line);
        Ok(())
    }

    /// Sets a task to work, unless one works already, or there is no runtime: then the next question does it.
    fn start(self: &Arc<Self>, mut line: MutexGuard<'_, Line>) {
        let (false, Ok(runtime)) = (line.works, Handle::try_current()) else { return };
        line.works = true;
        let turn = Turn { queue: Arc::clone(self), writer: Some(std::mem::take(&mut line.writer)) };
        // A runtime that is ending drops the task at once, and that takes hold of the line.
        drop(line);
        drop(runtime.spawn(turn.work()));
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing in here can panic halfway.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakesBack for Queue {
    /// With what is written next.
    fn give_back(self: Arc<Self>, lease: Lease) {
        let mut line = self.line();
        line.waiting.push_back(Asked::give_back(lease));
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
            // If it is not heard here either, it comes back.
            asked.reply(&self);
        }
    }
}

/// The task's.
struct Turn {
    queue: Arc<Queue>,
    /// None once it was handed back.
    writer: Option<Writer>,
}

impl Turn {
    async fn work(mut self) {
        loop {
            // A caller that was answered just now may ask again, and be among the next.
            tokio::task::yield_now().await;
            let Some(writer) = &mut self.writer else { return };
            let mut batch = self.queue.next();
            writer.answer(&self.queue.home, &mut batch).await;
            // First this: once the last one is answered, the runtime may stand still.
            self.rest();
            batch.into_iter().for_each(|asked| asked.reply(&self.queue));
        }
    }

    /// Hands the writer back, unless a question waits.
    fn rest(&mut self) {
        let mut line = self.queue.line();
        if line.waiting.is_empty()
            && let Some(writer) = self.writer.take()
        {
            line.writer = writer;
            line.works = false;
        }
    }
}

impl Queue {
    fn next(&self) -> Vec<Asked> {
        let mut line = self.line();
        let together = line.waiting.len().min(TOGETHER);
        line.waiting.drain(..together).filter(|asked| !asked.is_dropped()).collect()
    }
}

/// Broken off: the runtime ended. The waiting callers are told so by the lost reply, and the next one begins anew. What is to be
/// given back rides with it.
impl Drop for Turn {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let mut line = self.queue.line();
            line.works = false;
            line.waiting.retain(Asked::is_the_ledgers_own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{handle::SqliteLedger, tests::held},
        *,
    };

    /// Two flushes are as slow as the disk: the second would be in vain.
    #[tokio::test]
    async fn who_asks_twice_is_told_what_the_first_was_too_late_for() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = SqliteLedger::open(folder.path().join("a.db")).await.unwrap();
        let queue = Arc::clone(&ledger.queue);
        // A task works, and answers no question in the queue.
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
