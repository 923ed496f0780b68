//! `AnswerSpace`: whether there is space for one more answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{
    KeptAnswer,
    answer_space::{OVERHEAD, is_short},
};

/// How much space answers take, as far as this process knows: what it measured last, and what it has kept since. A row that every commit
/// counts in would let all commits wait for each other.
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

    /// All answers take so much.
    pub(super) fn measured(&self, bytes: usize) {
        self.taken.store(bytes, Ordering::Relaxed);
    }

    /// Takes the space of an answer, if there is enough.
    pub(super) fn take(&self, answer: &KeptAnswer) -> bool {
        let size = answer.content().len().saturating_add(OVERHEAD);
        let add = |taken: usize| taken.checked_add(size).filter(|taken| *taken <= self.all);
        let is_taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if !is_taken {
            is_short();
        }
        is_taken
    }
}
