//! A small seeded generator (SplitMix64): integers only, so equal on every machine.

pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is at least one.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`, which is not empty.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.index(items.len())]
    }

    /// Returns a position in a list of `len` entries; `len` is at least one.
    pub(super) fn index(&mut self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }

    /// Returns a position that prefers the front of the list: the lower of two draws.
    pub(super) fn front(&mut self, len: usize) -> usize {
        self.index(len).min(self.index(len))
    }

    /// Returns a day between 2025-06-01 and 2026-05-28.
    pub(super) fn date(&mut self) -> String {
        let month = self.below(12);
        let (year, month) = if month < 7 { (2025, month + 6) } else { (2026, month - 6) };
        format!("{year}-{month:02}-{:02}", 1 + self.below(28))
    }
}
