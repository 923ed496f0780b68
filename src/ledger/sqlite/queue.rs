//! The line of those who write. What waits together is written together, by a task that is there while anybody waits.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    super::LedgerError,
    question::{Answer, Asked, Question},
    writer::{Home, Writer},
};

/// How many are answered at once at most.
const TOGETHER: usize = 256;

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
    /// Whose it is while nobody works.
    writer: Writer,
}

impl Queue {
    pub(super) fn new(home: Home, limit: usize) -> Self {
        Self { home, line: Mutex::default(), limit }
    }

    pub(super) const fn home(&self) -> &Home {
        &self.home
    }

    /// Asks; whoever asks sets the time limit. Once this is dropped, the question is answered or passed over.
    pub(super) async fn ask(self: &Arc<Self>, question: Question) -> Result<Answer, LedgerError> {
        let (asked, answer) = Asked::new(question);
        self.join(asked)?;
        answer.await.unwrap_or(Err(LedgerError::Unavailable))
    }

    /// Closes the file once who works has finished.
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
            return Err(LedgerError::Unavailable);
        }
        if !line.works {
            let runtime = Handle::try_current().map_err(|_| LedgerError::Unavailable)?;
            line.works = true;
            let turn = Turn { queue: Arc::clone(self), writer: Some(std::mem::take(&mut line.writer)) };
            drop(runtime.spawn(turn.work()));
        }
        line.waiting.push_back(asked);
        Ok(())
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing in here can panic halfway.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Whoever was answered just now may ask again, and be among the next.
            tokio::task::yield_now().await;
            let Some(writer) = &mut self.writer else { return };
            let mut batch = self.queue.next();
            writer.answer(&self.queue.home, &mut batch).await;
            // First this: once the last one is answered, the runtime may stand still.
            self.rest();
            batch.into_iter().for_each(Asked::reply);
        }
    }

    /// Hands the writer back, unless somebody waits.
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

/// Broken off: the runtime ended. Who waits is told so by the lost reply, and the next one begins anew.
impl Drop for Turn {
    fn drop(&mut self) {
        if self.writer.is_some() {
            let mut line = self.queue.line();
            line.works = false;
            line.waiting.clear();
        }
    }
}
