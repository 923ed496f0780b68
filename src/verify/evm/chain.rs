//! `Chain`: the head and the sealed blocks known to lead to it. Pure: its input is a node's answer.

use std::collections::BTreeMap;

use super::view::Block;

/// How many blocks are remembered: some minutes of Base.
const REMEMBERED: usize = 256;

/// The relation of a latest block to the known head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is the head.
    Same,
    /// It follows the head.
    Next,
    /// It is further on, by an unknown path.
    Jump,
    /// It contradicts the head: another block at its height, another parent, or a lower height.
    Replaced,
}

/// A head, and blocks that were canonical together with it.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    head: Block,
    blocks: BTreeMap<u64, Block>,
    /// Grows whenever earlier knowledge stops being valid.
    generation: u64,
}

impl Chain {
    pub(super) fn new(head: Block) -> Self {
        Self { head, blocks: BTreeMap::from([(head.number, head)]), generation: 0 }
    }

    pub(super) const fn head(&self) -> &Block {
        &self.head
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The sealed block at that height, if it is known.
    pub(super) fn at(&self, number: u64) -> Option<Block> {
        self.blocks.get(&number).copied()
    }

    pub(super) fn step_to(&self, latest: &Block) -> Step {
        let head = &self.head;
        match latest.number.checked_sub(head.number) {
            Some(0) if latest.hash == head.hash => Step::Same,
            Some(1) if latest.parent == head.hash => Step::Next,
            None | Some(0 | 1) => Step::Replaced,
            Some(_) => Step::Jump,
        }
    }

    /// Makes this block the head. Forgets blocks that are not known as its ancestors, since a jump may have crossed a
    /// reorganisation.
    pub(super) fn adopt(&mut self, latest: Block) {
        if matches!(self.step_to(&latest), Step::Jump | Step::Replaced) {
            self.blocks.clear();
            self.generation += 1;
        }
        self.head = latest;
        self.remember(latest);
    }

    /// Adds a block that a node named during this `generation`.
    pub(super) fn learn(&mut self, block: Block, generation: u64) {
        if generation == self.generation && block.number <= self.head.number {
            self.blocks.entry(block.number).or_insert(block);
            self.trim();
        }
    }

    fn remember(&mut self, block: Block) {
        self.blocks.insert(block.number, block);
        self.trim();
    }

    fn trim(&mut self) {
        while self.blocks.len() > REMEMBERED {
            self.blocks.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ChainTime;

    fn block(number: u64, hash: u8, parent: u8) -> Block {
        Block { number, hash: [hash; 32], parent: [parent; 32], time: ChainTime::from_unix(1_000 + 2 * number) }
    }

    #[test]
    fn the_next_block_keeps_what_was_known() {
        let mut chain = Chain::new(block(10, 10, 9));
        assert_eq!(chain.step_to(&block(11, 11, 10)), Step::Next);
        chain.adopt(block(11, 11, 10));
        assert_eq!(chain.at(10), Some(block(10, 10, 9)));
        assert_eq!(chain.generation(), 0);
        assert_eq!(chain.step_to(&block(11, 11, 10)), Step::Same);
    }

    #[test]
    fn a_jump_or_a_contradiction_forgets_it() {
        for latest in [block(13, 13, 12), block(11, 99, 98), block(10, 99, 9), block(8, 8, 7)] {
            let mut chain = Chain::new(block(10, 10, 9));
            chain.adopt(latest);
            assert_eq!((chain.head(), chain.generation()), (&latest, 1));
            assert_eq!(chain.at(10).filter(|known| *known != latest), None);
        }
    }

    #[test]
    fn an_answer_from_before_a_reorganisation_is_not_learnt() {
        let mut chain = Chain::new(block(10, 10, 9));
        let before = chain.generation();
        chain.adopt(block(10, 99, 9));
        chain.learn(block(9, 9, 8), before);
        assert_eq!(chain.at(9), None);
        chain.learn(block(9, 9, 8), chain.generation());
        chain.learn(block(11, 11, 10), chain.generation());
        assert_eq!((chain.at(9), chain.at(11)), (Some(block(9, 9, 8)), None));
    }

    #[test]
    fn memory_is_bounded() {
        let mut chain = Chain::new(block(1, 1, 0));
        for number in 2..2_000_u64 {
            let parent = chain.head().hash;
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_be_bytes());
            chain.adopt(Block { number, hash, parent, time: ChainTime::from_unix(number) });
        }
        assert_eq!((chain.blocks.len(), chain.generation()), (REMEMBERED, 0));
    }
}
