//! What discovery publishes about a merchant.

use std::sync::Arc;

use crate::{
    discovery::{Described, Discovery, Storefront},
    paywall::{
        merchant::Merchant,
        seller::{demands::payable, inner::MerchantInner, payment_identifier::PaymentIdentifier, pricing::Tariff},
        way::offers,
    },
    protocol::{Address, Network},
};

impl Merchant {
    /// Returns a service that describes the merchant's offers to programs: every endpoint that is
    /// [described](crate::X402Layer::describe) by the time of the request.
    pub fn discovery(&self) -> Discovery {
        Discovery::new(Arc::clone(self.inner()) as Arc<dyn Storefront>)
    }
}

impl Storefront for MerchantInner {
    fn described(&self) -> Vec<Described> {
        self.catalog.described(self.decimals())
    }

    fn symbol(&self) -> &str {
        Self::symbol(self)
    }

    fn decimals(&self) -> u8 {
        Self::decimals(self)
    }

    fn networks(&self) -> Vec<Network> {
        self.chains.iter().map(|chain| chain.network).collect()
    }

    fn takes_transfers(&self) -> bool {
        self.first().reader().is_some()
    }

    fn takes_x402(&self) -> bool {
        // A settler that has not answered yet is expected to.
        [Tariff::Fixed, Tariff::UpTo].into_iter().any(|tariff| !offers(self, tariff).is_empty())
            || !self.knows_ways_to_pay()
    }

    fn mpp_tokens(&self) -> Vec<Address> {
        let speaks = self.mpp.is_some();
        let ways = if speaks { offers(self, Tariff::Fixed) } else { Vec::new() };
        payable(self, &ways).filter(|_| speaks).map(|((_, token, _), _)| token).collect()
    }

    fn names_required(&self) -> Option<bool> {
        self.payment_identifier.map(PaymentIdentifier::is_required)
    }

    fn contact(&self) -> Option<&str> {
        self.contact.as_deref()
    }

    fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }
}
