//! The quote of a payment that is signed: what the standard's demand says, in our own words.

use std::time::Duration;

use crate::{
    client::Budget,
    protocol::{Address, Amount, Asset, ChainTime, IntentId, Network, Quote},
};

/// What a demand says of a payment.
pub(super) struct SignedDemand {
    pub(super) network: Network,
    pub(super) token: Address,
    pub(super) amount: Amount,
    pub(super) recipient: Address,
    pub(super) seconds: u64,
    pub(super) intent: Option<IntentId>,
    pub(super) label: String,
}

impl SignedDemand {
    /// Returns it as a quote. Where the seller names no intent, one is made up.
    pub(super) fn quote(self, budget: &Budget, now: ChainTime) -> Quote {
        let known = budget.asset(self.network, self.token);
        Quote {
            intent: self.intent.unwrap_or_else(IntentId::random),
            recipient: self.recipient,
            network: self.network,
            label: self.label,
            expiry: now.after(Duration::from_secs(self.seconds)),
            amount: self.amount,
            // A token's decimals are no part of the standard's demand: they are the budget's word.
            decimals: known.map_or(budget.decimals(), Asset::decimals),
            symbol: known.map_or_else(String::new, |asset| asset.symbol().to_owned()),
            contracts: vec![self.token],
        }
    }
}
