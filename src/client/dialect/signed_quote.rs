//! The quote of a signed payment, built from the standard's demand.

use std::time::Duration;

use crate::{
    client::Budget,
    protocol::{Address, Amount, Asset, ChainTime, IntentId, Network, Quote},
};

/// The parts of a demand that make a quote.
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
    /// Converts it to a quote. If the seller names no intent, the quote has a random one.
    pub(super) fn quote(self, budget: &Budget, now: ChainTime) -> Quote {
        let known = budget.asset(self.network, self.token);
        Quote {
            intent: self.intent.unwrap_or_else(IntentId::random),
            recipient: self.recipient,
            network: self.network,
            label: self.label,
            expiry: now.after(Duration::from_secs(self.seconds)),
            amount: self.amount,
            // The standard's demand has no decimals; they come from the budget.
            decimals: known.map_or(budget.decimals(), Asset::decimals),
            symbol: known.map_or_else(String::new, |asset| asset.symbol().to_owned()),
            contracts: vec![self.token],
        }
    }
}
