//! What discovery tells of a merchant.

use std::sync::Arc;

use crate::{
    discovery::{Described, Discovery, Storefront},
    paywall::{merchant::Merchant, seller::inner::MerchantInner, way::offers},
    protocol::Network,
};

impl Merchant {
    /// Returns a service that tells programs what is sold: every endpoint that was
    /// [described](crate::X402Layer::describe) until it is asked.
    pub fn discovery(&self) -> Discovery {
        Discovery::new(Arc::clone(self.inner()) as Arc<dyn Storefront>)
    }
}

impl Storefront for MerchantInner {
    fn described(&self) -> Vec<Described> {
        self.catalog.described()
    }

    fn symbol(&self) -> &str {
        Self::symbol(self)
    }

    fn decimals(&self) -> u8 {
        Self::decimals(self)
    }

    fn network(&self) -> Network {
        self.network
    }

    fn takes_transfers(&self) -> bool {
        self.chain().is_some()
    }

    fn takes_x402(&self) -> bool {
        // A settler that did not answer yet will.
        !offers(self).is_empty() || !self.knows_ways_to_pay()
    }

    fn contact(&self) -> Option<&str> {
        self.contact.as_deref()
    }

    fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }
}
