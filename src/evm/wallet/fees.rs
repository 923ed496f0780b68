//! `Fees`: what a transaction may cost, by EIP-1559. Plain functions of what the node told.

use super::node::FeeHistory;

/// The two fees of a transaction, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fees {
    /// The most that is paid in all.
    pub(crate) most: u128,
    /// How much of it may go to the builder of the block.
    pub(crate) tip: u128,
}

impl Fees {
    /// Twice the base fee of the next block, and the median of what the cheaper ones paid on top: it still fits after
    /// six full blocks.
    pub(crate) fn estimated(history: &FeeHistory) -> Option<Self> {
        let base = history.base_fees.last()?.0;
        let mut tips: Vec<u128> =
            history.rewards.iter().flatten().filter_map(|tips| tips.first()).map(|wei| wei.0).collect();
        tips.retain(|tip| *tip > 0);
        tips.sort_unstable();
        let tip = tips.get(tips.len() / 2).copied().unwrap_or(1);
        Some(Self { most: base.saturating_mul(2).saturating_add(tip), tip })
    }

    /// The least with which a node takes another transaction in place of one with these: an eighth more of both, which is
    /// more than the tenth that geth, reth and anvil ask.
    pub(crate) fn raised(self) -> Self {
        let raised = |fee: u128| fee.saturating_add(fee / 8).saturating_add(1);
        Self { most: raised(self.most), tip: raised(self.tip) }
    }

    /// Returns these, and no more than that per gas in all.
    pub(crate) fn at_most(self, most: u128) -> Self {
        Self { most: self.most.min(most), tip: self.tip.min(most) }
    }

    /// Returns the higher of each.
    pub(crate) fn or_higher(self, other: Self) -> Self {
        Self { most: self.most.max(other.most), tip: self.tip.max(other.tip) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::node::Quantity, *};

    fn history(base: &[u128], tips: &[u128]) -> FeeHistory {
        let wei = |wei: &u128| Quantity(*wei);
        FeeHistory {
            base_fees: base.iter().map(wei).collect(),
            rewards: Some(tips.iter().map(|tip| vec![wei(tip)]).collect()),
        }
    }

    #[test]
    fn an_estimate_is_twice_the_next_base_fee_and_the_usual_tip() {
        assert_eq!(Fees::estimated(&history(&[9, 100], &[7, 0, 3, 5])), Some(Fees { most: 205, tip: 5 }));
        assert_eq!(Fees::estimated(&history(&[0], &[0])), Some(Fees { most: 1, tip: 1 }));
        assert_eq!(
            Fees::estimated(&FeeHistory { rewards: None, ..history(&[50], &[]) }),
            Some(Fees { most: 101, tip: 1 })
        );
        assert_eq!(Fees::estimated(&history(&[], &[1])), None);
    }

    proptest! {
        #[test]
        fn fees_are_never_out_of_order_and_a_raise_is_an_eighth(base: u128, tips: Vec<u128>) {
            if let Some(fees) = Fees::estimated(&history(&[base], &tips)) {
                prop_assert!(fees.tip <= fees.most && fees.tip >= 1);
                let raised = fees.raised();
                prop_assert!(raised.tip <= raised.most);
                prop_assert!(raised.most == u128::MAX || raised.most - fees.most > fees.most / 8);
                prop_assert_eq!(raised.or_higher(fees), raised);
            }
        }
    }
}
