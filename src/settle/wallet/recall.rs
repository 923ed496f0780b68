//! `Recall`: a bounded cache whose answers expire.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The most answers in one cache.
const REMEMBERED: usize = 4_096;

#[derive(Debug)]
pub(super) struct Recall<K, V> {
    known: Mutex<HashMap<K, (V, Instant)>>,
    lasts: Duration,
}

impl<K: Clone + Eq + Hash, V: Clone> Recall<K, V> {
    pub(super) fn lasting(lasts: Duration) -> Self {
        Self { known: Mutex::default(), lasts }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let known = self.known();
        known.get(key).filter(|(_, since)| since.elapsed() < self.lasts).map(|(value, _)| value.clone())
    }

    pub(super) fn set(&self, key: K, value: V) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.retain(|_, (_, since)| since.elapsed() < self.lasts);
        }
        if known.len() >= REMEMBERED {
            let oldest = known.iter().min_by_key(|(_, (_, since))| *since).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(key, (value, Instant::now()));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<K, (V, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_a_while_and_the_oldest_gives_way() {
        let recall = Recall::lasting(Duration::from_secs(2));
        recall.set(1, "one");
        tokio::time::advance(Duration::from_secs(1)).await;
        recall.set(2, "two");
        assert_eq!((recall.get(&1), recall.get(&2)), (Some("one"), Some("two")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((recall.get(&1), recall.get(&2)), (None, Some("two")));
        for key in 3..3 + REMEMBERED {
            tokio::time::advance(Duration::from_micros(1)).await;
            recall.set(key, "more");
        }
        assert_eq!(recall.get(&2), None, "the oldest");
        assert_eq!(recall.known().len(), REMEMBERED);
    }
}
