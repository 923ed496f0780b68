//! `Fees`: the fees of a transaction by EIP-1559. Plain functions of the nodes' answers.

use super::median::lower_median;

/// The tip that is allowed whatever the base fee, in wei per gas: 0.01 gwei. Base takes a tenth of it.
const TIP_MIN: u128 = 10_000_000;

/// A node's report of the fees of the last blocks, in wei per gas.
#[derive(Clone, Debug)]
pub(crate) struct FeeHistory {
    /// The base fee of the next block.
    pub(crate) base: u128,
    /// The tips of the cheaper transactions in each block.
    pub(crate) tips: Vec<u128>,
}

/// The two fees of a transaction, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fees {
    /// The maximum that is paid in all.
    pub(crate) most: u128,
    /// The maximum part of it for the builder of the block.
    pub(crate) tip: u128,
}

impl Fees {
    /// Returns twice the base fee of the next block, which still suffices after six full blocks, plus a tip. With
    /// several nodes, the lower median of each value counts. The chain itself sets the base fee, so a single node can
    /// make an account lose only the tip. The tip is at most the base fee, or [`TIP_MIN`] if that is more.
    pub(crate) fn agreed(histories: &[FeeHistory]) -> Option<Self> {
        let base = lower_median(histories.iter().map(|history| history.base))?;
        let tip = lower_median(histories.iter().map(usual_tip))?.min(base.max(TIP_MIN));
        Some(Self { most: base.saturating_mul(2).saturating_add(tip), tip })
    }

    /// Returns what is likely to be paid per gas: base fee plus tip. Only for fees that were [agreed](Self::agreed).
    pub(crate) const fn expected(self) -> u128 {
        self.most.saturating_sub(self.tip) / 2 + self.tip
    }

    /// Returns the lowest fees with which a node accepts a replacement: an eighth more of both, above the tenth that
    /// geth, reth and anvil demand.
    pub(crate) fn raised(self) -> Self {
        let raised = |fee: u128| fee.saturating_add(fee / 8).saturating_add(1);
        Self { most: raised(self.most), tip: raised(self.tip) }
    }

    /// Returns the same fees, capped at this maximum per gas.
    pub(crate) fn at_most(self, most: u128) -> Self {
        Self { most: self.most.min(most), tip: self.tip.min(most) }
    }

    /// Returns the higher value of each fee.
    pub(crate) fn or_higher(self, other: Self) -> Self {
        Self { most: self.most.max(other.most), tip: self.tip.max(other.tip) }
    }
}

/// The median tip of the blocks with a tip.
fn usual_tip(history: &FeeHistory) -> u128 {
    let mut tips: Vec<u128> = history.tips.iter().copied().filter(|tip| *tip > 0).collect();
    tips.sort_unstable();
    tips.get(tips.len() / 2).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn history(base: u128, tips: &[u128]) -> FeeHistory {
        FeeHistory { base, tips: tips.to_vec() }
    }

    #[test]
    fn an_estimate_is_twice_the_next_base_fee_and_the_usual_tip() {
        let estimated = |history| Fees::agreed(&[history]);
        assert_eq!(estimated(history(100, &[7, 0, 3, 5])), Some(Fees { most: 205, tip: 5 }));
        assert_eq!(estimated(history(0, &[0])), Some(Fees { most: 1, tip: 1 }));
        assert_eq!(estimated(history(50, &[])), Some(Fees { most: 101, tip: 1 }));
        assert_eq!(Fees::agreed(&[]), None);
        assert_eq!(estimated(history(100, &[5])).map(Fees::expected), Some(105));
    }

    #[test]
    fn no_single_node_raises_the_fees_and_a_tip_stays_near_the_base_fee() {
        const GWEI: u128 = 1_000_000_000;
        let honest = || history(20_000_000, &[1_000_000]);
        let fair = Some(Fees { most: 41_000_000, tip: 1_000_000 });
        for lie in [history(20_000_000, &[4_900_000_000]), history(2 * GWEI, &[2 * GWEI])] {
            assert_eq!(Fees::agreed(&[lie.clone(), honest()]), fair);
            assert_eq!(Fees::agreed(&[honest(), lie.clone(), honest()]), fair);
        }
        let alone = |base, tip| Fees::agreed(&[history(base, &[tip])]).map(|fees| fees.tip);
        assert_eq!(alone(20_000_000, 4_900_000_000), Some(20_000_000), "no more than the base fee");
        assert_eq!(alone(7, 4_900_000_000), Some(TIP_MIN));
        assert_eq!(alone(30 * GWEI, 2 * GWEI), Some(2 * GWEI), "where gas is dear");
    }

    proptest! {
        #[test]
        fn fees_are_never_out_of_order_and_a_raise_is_an_eighth(base: u128, tips: Vec<u128>) {
            if let Some(fees) = Fees::agreed(&[history(base, &tips)]) {
                prop_assert!(fees.tip <= fees.most && fees.tip >= 1);
                let raised = fees.raised();
                prop_assert!(raised.tip <= raised.most);
                prop_assert!(raised.most == u128::MAX || raised.most - fees.most > fees.most / 8);
                prop_assert_eq!(raised.or_higher(fees), raised);
            }
        }
    }
}
