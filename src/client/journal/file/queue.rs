//! The queue before the file: what is asked first is done first, whichever thread gets to it, and whoever still waits.

use std::{
    mem,
    sync::{Arc, MutexGuard, PoisonError},
};

use tokio::{sync::oneshot, task::spawn_blocking};

use super::{Shared, VecDeque, keeper::Keeper};
use crate::client::{Entry, JournalError};

type Answer<T> = oneshot::Sender<Result<T, JournalError>>;

pub(super) enum Job {
    Record(Box<Entry>, Answer<()>),
    Load(Answer<Vec<Entry>>),
}

/// Queues a job. The first one of an empty queue sends a thread for it and for all that come until that one is there.
pub(super) fn push(shared: &Arc<Shared>, job: Job) {
    let mut jobs = jobs(shared);
    jobs.push_back(job);
    if jobs.len() == 1 {
        let errand = Errand { shared: Arc::clone(shared), done: false };
        drop(jobs);
        spawn_blocking(move || errand.run());
    }
}

fn jobs(shared: &Shared) -> MutexGuard<'_, VecDeque<Job>> {
    shared.jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's way to the file and back.
struct Errand {
    shared: Arc<Shared>,
    done: bool,
}

/// A runtime that shuts down forgets threads it has not begun. Nobody else would come for the jobs.
impl Drop for Errand {
    fn drop(&mut self) {
        if !self.done {
            jobs(&self.shared).clear();
        }
    }
}

impl Errand {
    fn run(mut self) {
        let answers = {
            let keeper = self.shared.keeper.lock();
            let jobs = mem::take(&mut *jobs(&self.shared));
            self.done = true;
            // After a panic nobody knows what the file says; to drop the jobs is to answer `Broken`.
            let Ok(mut keeper) = keeper else { return };
            work(&mut keeper, jobs)
        };
        // First let go of the journal, so that whoever has the answer can close it and open it again.
        drop(self);
        for answer in answers {
            answer();
        }
    }
}

/// Does the jobs in their order, with one write for all that is recorded in a row. Gives the answers, to be sent.
fn work(keeper: &mut Keeper, jobs: VecDeque<Job>) -> Vec<Box<dyn FnOnce()>> {
    let mut answers: Vec<Box<dyn FnOnce()>> = Vec::new();
    let (mut entries, mut waiting) = (Vec::new(), Vec::new());
    for job in jobs {
        match job {
            Job::Record(entry, answer) => {
                entries.push(*entry);
                waiting.push(answer);
            }
            Job::Load(answer) => {
                answers.extend(record(keeper, mem::take(&mut entries), mem::take(&mut waiting)));
                let loaded = keeper.entries();
                answers.push(Box::new(move || drop(answer.send(loaded))));
            }
        }
    }
    answers.extend(record(keeper, entries, waiting));
    answers
}

fn record(keeper: &mut Keeper, entries: Vec<Entry>, waiting: Vec<Answer<()>>) -> Option<Box<dyn FnOnce()>> {
    if entries.is_empty() {
        return None;
    }
    let recorded = keeper.record(entries);
    // Whoever asked may be gone: it is recorded all the same.
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
