//! `Unclaimed`: what a turn of the claimer leaves unclaimed of what is sold in channels. It is reported to the metrics, and to the log if
//! it can be lost.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
};

use crate::{
    metrics,
    paywall::seller::channels::{Channels, due::Owed},
    protocol::{Address, channel::ChannelId},
};

/// The state of the channels that owed something.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Mutex<Outcomes>);

#[derive(Debug, Default)]
struct Outcomes {
    claimed: HashSet<ChannelId>,
    /// Their claim was tried, and is not known to have succeeded.
    failed: HashSet<ChannelId>,
    /// They hold less than what was sold, and the rest may come back.
    lacking: HashSet<ChannelId>,
}

/// What is left in one token; the amounts are in base units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Left {
    channels: u32,
    unclaimed: u128,
    at_risk: u128,
}

impl Unclaimed {
    /// Notes that these rows are about to be claimed.
    pub(super) fn tried(&self, rows: &[Owed]) {
        self.with(|outcomes| outcomes.failed.extend(rows.iter().map(|row| row.channel.id)));
    }

    /// Notes that the whole debt is claimed, or lost for good. A channel that lacks something still owes it.
    pub(super) fn claimed(&self, channel: ChannelId) {
        self.with(|outcomes| {
            if !outcomes.lacking.contains(&channel) {
                outcomes.failed.remove(&channel);
                outcomes.claimed.insert(channel);
            }
        });
    }

    pub(super) fn lacks(&self, channel: ChannelId) {
        self.with(|outcomes| _ = outcomes.lacking.insert(channel));
    }

    pub(super) fn is_claimed(&self, row: &Owed) -> bool {
        self.with(|outcomes| outcomes.claimed.contains(&row.channel.id))
    }

    fn is_failed(&self, row: &Owed) -> bool {
        self.with(|outcomes| outcomes.failed.contains(&row.channel.id))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Outcomes) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports what is left of the debts, in each token.
    pub(super) fn tell(&self, channels: &Channels, owed: &[Owed]) {
        let network = channels.network();
        for (token, left) in self.by_token(&tokens(channels), owed) {
            let Left { channels, unclaimed, at_risk } = left;
            metrics::owed_in_channels(network, &token, channels, [unclaimed, at_risk]);
            if at_risk > 0 {
                tracing::warn!(
                    %network, %token, amount = at_risk,
                    "sold in channels and at risk: their payers withdraw, or claims fail"
                );
            }
        }
    }

    fn by_token(&self, tokens: &[Address], owed: &[Owed]) -> BTreeMap<Address, Left> {
        let mut by_token: BTreeMap<_, _> = tokens.iter().map(|token| (*token, Left::default())).collect();
        for row in owed {
            // Also if all of its debts are claimed: then nothing is left.
            let left = by_token.entry(row.channel.config.token).or_default();
            if self.is_claimed(row) {
                continue;
            }
            let amount = row.owed.to_u128().unwrap_or(u128::MAX);
            left.channels += 1;
            left.unclaimed = left.unclaimed.saturating_add(amount);
            if row.is_withdrawn_from || self.is_failed(row) {
                left.at_risk = left.at_risk.saturating_add(amount);
            }
        }
        by_token
    }
}

/// Clears the metrics of this process, because another process has the turn and reports.
pub(super) fn told_elsewhere(channels: &Channels) {
    for token in tokens(channels) {
        metrics::owed_in_channels(channels.network(), &token, 0, [0, 0]);
    }
}

fn tokens(channels: &Channels) -> Vec<Address> {
    channels.tokens().unwrap_or_default().iter().map(|token| token.asset.contract()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paywall::seller::channels::due::owing;

    #[test]
    fn what_is_left_is_summed_by_token_and_what_can_be_lost_beside_it() {
        let mut rows = [owing(1, 9, 5), owing(2, 9, 6), owing(3, 9, 7), owing(4, 8, 100), owing(5, 7, 1)];
        rows[1].is_withdrawn_from = true;
        let unclaimed = Unclaimed::default();
        unclaimed.tried(&rows[2..]);
        for claimed in &rows[3..] {
            unclaimed.claimed(claimed.channel.id);
        }
        let token = |byte| Address::new([byte; 20]);
        let left = unclaimed.by_token(&[token(6), token(8)], &rows);
        let nothing = Left::default();
        let of_nine = Left { channels: 3, unclaimed: 18, at_risk: 13 };
        // Also of a token that is no longer sold in, and of one in which nothing is owed.
        let expected = [(token(6), nothing), (token(7), nothing), (token(8), nothing), (token(9), of_nine)];
        assert_eq!(left, expected.into());
    }
}
