//! `WayToPay`: the interface of each way to pay.

use std::future::Future;

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::Rejection,
        sale::deliver::Purchase,
        seller::{
            chain::SellingChain,
            inner::MerchantInner,
            pricing::{Cost, Tariff},
        },
    },
    protocol::{Proof, Way},
};

/// One way to pay.
pub(crate) trait WayToPay {
    /// The entries of the standard's quote that this way honours on one of the merchant's networks, for prices of this tariff.
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, tariff: Tariff) -> Vec<Way>;

    /// Returns whether a proof is for this way to judge.
    fn recognises(&self, proof: &Proof) -> bool;

    /// Reserves the payment that a proof shows, for a request at this price.
    fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> impl Future<Output = Result<Purchase, Rejection>> + Send;
}
