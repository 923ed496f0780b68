//! `Writer`: the queue before the file. Writes happen in the order of the calls, on any thread, even if the caller is
//! gone.

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

/// Writes to one file, on one thread at a time. Clones share the queue.
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

    /// Queues a job. The first job of an empty queue starts a thread, which also takes the jobs queued until it has the
    /// file.
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

/// A thread's visit to the file.
struct Errand {
    shared: Arc<Shared>,
    done: bool,
}

/// A runtime that shuts down drops tasks that it has not begun. No other thread would process the jobs.
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
            // After a panic the file's content is unknown. Dropping the jobs answers them with `Broken`.
            let Ok(mut store) = store else { return };
            work(&mut store, jobs)
        };
        // Release the journal first, so that a caller with an answer can close and reopen it.
        drop(self);
        for answer in answers {
            answer();
        }
    }
}

/// Processes the jobs in order, with one write for consecutive records. Returns functions that send the answers.
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
    // If the caller is gone, it is recorded all the same.
    Some(Box::new(move || {
        waiting.into_iter().for_each(|answer| drop(answer.send(recorded.as_ref().copied().map_err(alike))));
    }))
}

/// Copies an error, because one failed write may fail many records.
fn alike(error: &JournalError) -> JournalError {
    match error {
        JournalError::Io(error) => {
            JournalError::Io(error.raw_os_error().map_or(error.kind().into(), std::io::Error::from_raw_os_error))
        }
        _ => JournalError::Broken,
    }
}
