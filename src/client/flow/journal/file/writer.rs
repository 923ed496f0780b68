//! `Writer`: the queue before the file. Writes happen in the order of the calls, on any thread, even if the caller has
//! left.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::oneshot, task::spawn_blocking};

use super::store::Store;
use crate::client::{JournalEntry, JournalError};

type Answer<T> = oneshot::Sender<Result<T, JournalError>>;

pub(super) enum Job {
    Record(Box<JournalEntry>, Answer<()>),
    Load(Answer<Vec<JournalEntry>>),
}

/// Writes to one file, one thread at a time. Clones are one writer.
#[derive(Clone)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

struct Shared {
    jobs: Mutex<VecDeque<Job>>,
    store: Mutex<Store>,
}

impl Writer {
    pub(super) fn new(store: Store) -> Self {
        Self { shared: Arc::new(Shared { jobs: Mutex::default(), store: Mutex::new(store) }) }
    }

    /// Queues a job. The first one of an empty queue sends a thread for it and for all that come until that one is there.
    pub(super) fn push(&self, job: Job) {
        let mut jobs = self.shared.jobs();
        jobs.push_back(job);
        if jobs.len() == 1 {
            let errand = Errand { shared: Arc::clone(&self.shared), done: false };
            drop(jobs);
            spawn_blocking(move || errand.run());
        }
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's way to the file and back.
struct Errand {
    shared: Arc<Shared>,
    done: bool,
}

/// A runtime that shuts down forgets threads it has not begun. No other thread would come for the jobs.
impl Drop for Errand {
    fn drop(&mut self) {
        if !self.done {
            self.shared.jobs().clear();
        }
    }
}

impl Errand {
    fn run(mut self) {
        let answers = {
            let store = self.shared.store.lock();
            let jobs = mem::take(&mut *self.shared.jobs());
            self.done = true;
            // After a panic it is unknown what the file says; to drop the jobs is to answer `Broken`.
            let Ok(mut store) = store else { return };
            work(&mut store, jobs)
        };
        // Release the journal first, so that a caller with the answer can close it and open it again.
        drop(self);
        for answer in answers {
            answer();
        }
    }
}

/// Does the jobs in their order, with one write for all that is recorded in a row. Gives the answers, to be sent.
fn work(store: &mut Store, jobs: VecDeque<Job>) -> Vec<Box<dyn FnOnce()>> {
    let mut answers: Vec<Box<dyn FnOnce()>> = Vec::new();
    let (mut entries, mut waiting) = (Vec::new(), Vec::new());
    for job in jobs {
        match job {
            Job::Record(entry, answer) => {
                entries.push(*entry);
                waiting.push(answer);
            }
            Job::Load(answer) => {
                answers.extend(record(store, mem::take(&mut entries), mem::take(&mut waiting)));
                let loaded = store.entries();
                answers.push(Box::new(move || drop(answer.send(loaded))));
            }
        }
    }
    answers.extend(record(store, entries, waiting));
    answers
}

fn record(store: &mut Store, entries: Vec<JournalEntry>, waiting: Vec<Answer<()>>) -> Option<Box<dyn FnOnce()>> {
    if entries.is_empty() {
        return None;
    }
    let recorded = store.record(entries);
    // The caller may be gone: it is recorded all the same.
    Some(Box::new(move || {
        waiting.into_iter().for_each(|answer| drop(answer.send(recorded.as_ref().copied().map_err(alike))));
    }))
}

/// The same error again: one write can fail for many.
fn alike(error: &JournalError) -> JournalError {
    match error {
        JournalError::Io(error) => {
            JournalError::Io(error.raw_os_error().map_or(error.kind().into(), std::io::Error::from_raw_os_error))
        }
        _ => JournalError::Broken,
    }
}
