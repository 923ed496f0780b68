//! The answers that a memory ledger keeps: each for its time, and all within a limit of bytes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use bytes::Bytes;
use foldhash::HashMap;

use super::super::{KeptAnswer, answer_space::ANSWER_SPACE};
use crate::protocol::IntentKey;

#[derive(Debug)]
pub(super) struct AnswerStore {
    kept: HashMap<IntentKey, Kept>,
    /// In the order of arrival.
    order: BTreeMap<u64, IntentKey>,
    /// By the time at which they end. May include answers that were dropped for space.
    ends: BinaryHeap<Reverse<(Duration, u64)>>,
    next: u64,
    bytes: usize,
    capacity: usize,
}

#[derive(Debug)]
struct Kept {
    content: Bytes,
    number: u64,
}

impl Default for AnswerStore {
    fn default() -> Self {
        Self::with_capacity(ANSWER_SPACE)
    }
}

impl AnswerStore {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let (kept, order, ends) = (HashMap::default(), BTreeMap::new(), BinaryHeap::new());
        Self { kept, order, ends, next: 0, bytes: 0, capacity }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps an answer, and drops the oldest ones if there is not enough space. An answer that exceeds the whole limit
    /// is not kept.
    pub(super) fn keep(&mut self, intent: IntentKey, answer: &KeptAnswer, now: Duration) {
        let size = answer.content().len();
        if size > self.capacity || answer.keep_for().is_zero() {
            return;
        }
        while self.bytes + size > self.capacity
            && let Some((number, _)) = self.order.first_key_value()
        {
            self.drop(*number);
        }
        let number = self.next;
        self.next += 1;
        // A copy: a slice would keep its whole buffer alive.
        let content = Bytes::copy_from_slice(answer.content());
        self.bytes += size;
        self.order.insert(number, intent);
        self.ends.push(Reverse((now.saturating_add(answer.keep_for()), number)));
        self.kept.insert(intent, Kept { content, number });
    }

    pub(super) fn get(&self, intent: IntentKey) -> Option<Bytes> {
        self.kept.get(&intent).map(|kept| kept.content.clone())
    }

    /// Drops an answer with its sale.
    pub(super) fn remove(&mut self, intent: IntentKey) {
        if let Some(number) = self.kept.get(&intent).map(|kept| kept.number) {
            self.drop(number);
        }
    }

    /// Drops answers whose time has ended.
    pub(super) fn forget(&mut self, now: Duration) {
        while let Some(Reverse((end, number))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            self.drop(number);
        }
    }

    fn drop(&mut self, number: u64) {
        let Some(intent) = self.order.remove(&number) else { return };
        if let Some(kept) = self.kept.remove(&intent) {
            debug_assert_eq!(kept.number, number, "an intent is consumed once");
            self.bytes -= kept.content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn intent(name: u8) -> IntentKey {
        IntentKey::new([name; 16])
    }

    fn answer(bytes: usize) -> KeptAnswer {
        KeptAnswer::new(vec![b'a'; bytes], MINUTE)
    }

    #[test]
    fn an_answer_is_kept_for_its_time() {
        let mut store = AnswerStore::default();
        store.keep(intent(1), &answer(10), Duration::ZERO);
        store.forget(MINUTE - Duration::from_nanos(1));
        assert_eq!(store.get(intent(1)).map(|content| content.len()), Some(10));
        store.forget(MINUTE);
        assert_eq!((store.get(intent(1)), store.bytes, store.kept.len(), store.order.len()), (None, 0, 0, 0));
        store.keep(intent(2), &KeptAnswer::new("off", Duration::ZERO), MINUTE);
        assert_eq!(store.get(intent(2)), None);
    }

    #[test]
    fn an_answer_goes_with_its_sale_and_not_with_an_earlier_one() {
        let mut store = AnswerStore::default();
        store.keep(intent(1), &answer(40), Duration::ZERO);
        store.remove(intent(1));
        assert_eq!((store.get(intent(1)), store.bytes, store.kept.len(), store.order.len()), (None, 0, 0, 0));
        store.keep(intent(1), &answer(10), MINUTE / 2);
        store.forget(MINUTE);
        assert_eq!(store.get(intent(1)).map(|content| content.len()), Some(10), "its own time is not over");
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let mut store = AnswerStore::with_capacity(100);
        for name in 1..=3 {
            store.keep(intent(name), &answer(40), Duration::ZERO);
        }
        let kept = |store: &AnswerStore| (1..=4).map(|name| store.get(intent(name)).is_some()).collect::<Vec<_>>();
        assert_eq!(kept(&store), [false, true, true, false]);
        // It exceeds the limit, so no other answer is dropped for it.
        store.keep(intent(4), &answer(101), Duration::ZERO);
        assert_eq!(kept(&store), [false, true, true, false]);
        store.keep(intent(4), &answer(100), Duration::ZERO);
        assert_eq!(kept(&store), [false, false, false, true]);
        store.forget(MINUTE);
        assert_eq!((store.bytes, store.ends.len()), (0, 0));
    }
}
