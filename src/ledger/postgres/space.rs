//! `AnswerSpace`: accounts for the space of kept answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{
    KeptAnswer,
    answer_space::{OVERHEAD, is_short},
};

/// The space of all answers, as far as this process knows: its last measurement, and the answers that it has kept
/// since. A counter row in the database would make all commits wait for each other.
#[derive(Debug)]
pub(super) struct AnswerSpace {
    taken: AtomicUsize,
    all: usize,
}

impl AnswerSpace {
    pub(super) const fn new(all: usize) -> Self {
        Self { taken: AtomicUsize::new(0), all }
    }

    pub(super) const fn space(&self) -> usize {
        self.all
    }

    /// Sets the measured size of all answers.
    pub(super) fn measured(&self, bytes: usize) {
        self.taken.store(bytes, Ordering::Relaxed);
    }

    /// Takes the space of an answer, if there is enough.
    pub(super) fn take(&self, answer: &KeptAnswer) -> Option<Taken<'_>> {
        let size = answer.content().len().saturating_add(OVERHEAD);
        let add = |taken: usize| taken.checked_add(size).filter(|taken| *taken <= self.all);
        let is_taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if !is_taken {
            is_short();
        }
        is_taken.then(|| Taken { from: self, size })
    }
}

/// The space of one answer. Dropping it frees the space: the lease was lost, the sale was recorded before, or the
/// commit failed.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    from: &'a AnswerSpace,
    size: usize,
}

impl Taken<'_> {
    /// Keeps the space until the next measurement, since the answer is stored.
    pub(super) fn keep(mut self) {
        self.size = 0;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // A measurement may have happened meanwhile, without this answer.
        let free = |taken: usize| Some(taken.saturating_sub(self.size));
        let _ = self.from.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
    }
}
