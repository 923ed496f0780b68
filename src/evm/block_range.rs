//! `BlockRange`: consecutive blocks for a log search, which goes from the head backwards.

/// Blocks from one height to another, or to each endpoint's own latest block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRange {
    from: u64,
    to: u64,
    /// Whether the range ends at each endpoint's own latest block, since endpoints are not all on the same block.
    to_latest: bool,
}

impl BlockRange {
    /// The last `width` blocks up to this head, and any later ones.
    pub(crate) const fn up_to_latest(head: u64, width: u64) -> Self {
        Self { from: head.saturating_add(1).saturating_sub(width), to: head, to_latest: true }
    }

    /// A range of one block.
    pub(crate) const fn only(height: u64) -> Self {
        Self { from: height, to: height, to_latest: false }
    }

    /// The blocks from one height to another, both included.
    pub(crate) const fn between(from: u64, to: u64) -> Self {
        Self { from, to, to_latest: false }
    }

    /// The height after the last block.
    pub(crate) const fn next(&self) -> u64 {
        self.to.saturating_add(1)
    }

    /// The `width` blocks before this range, down to block 0.
    pub(crate) const fn before(&self, width: u64) -> Self {
        Self { from: self.from.saturating_sub(width), to: self.from.saturating_sub(1), to_latest: false }
    }

    /// The last `width` blocks of this range.
    pub(crate) fn last_of(&self, width: u64) -> Self {
        Self { from: self.from.max(self.to.saturating_add(1).saturating_sub(width)), ..*self }
    }

    /// The height of the first block.
    pub(crate) const fn from(&self) -> u64 {
        self.from
    }

    /// The first height as a JSON-RPC parameter.
    pub(crate) fn first(&self) -> String {
        format!("{:#x}", self.from)
    }

    /// The last height as a JSON-RPC parameter.
    pub(crate) fn last(&self) -> String {
        if self.to_latest { "latest".to_owned() } else { format!("{:#x}", self.to) }
    }

    pub(crate) const fn has(&self, height: u64) -> bool {
        height >= self.from && (self.to_latest || height <= self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_each_other_down_to_the_first_block() {
        let newest = BlockRange::up_to_latest(4_999, 2_000);
        assert_eq!((newest.from(), newest.last().as_str()), (3_000, "latest"));
        let next = newest.before(2_000);
        assert_eq!((next.first().as_str(), next.last().as_str()), ("0x3e8", "0xbb7"));
        let last = next.before(2_000);
        assert_eq!((last.from(), last.last().as_str()), (0, "0x3e7"));
        assert_eq!(BlockRange::up_to_latest(50, 2_000).from(), 0);
    }

    #[test]
    fn a_narrower_range_keeps_its_end() {
        let newest = BlockRange::up_to_latest(4_999, 2_000).last_of(1_000);
        assert_eq!((newest.from(), newest.last().as_str()), (4_000, "latest"));
        let next = newest.before(1_000).last_of(10);
        assert_eq!((next.from(), next.last().as_str()), (3_990, "0xf9f"));
        assert_eq!(next.last_of(100), next, "never wider");
        for (height, is_in) in [(3_989, false), (3_990, true), (3_999, true), (4_000, false)] {
            assert_eq!(next.has(height), is_in, "{height}");
        }
        assert!(newest.has(6_000), "mined since");
        let one = BlockRange::only(4_000);
        assert_eq!(
            (one.first(), one.last(), one.has(4_000), one.has(4_001)),
            ("0xfa0".into(), "0xfa0".into(), true, false)
        );
        // A node may name any height.
        let highest = BlockRange::up_to_latest(u64::MAX, 2_000).last_of(1);
        assert_eq!((highest.from(), highest.before(1).from()), (u64::MAX - 1, u64::MAX - 2));
    }
}
