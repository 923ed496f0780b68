//! `WayToPay`: what every way to pay answers.

use std::{future::Future, pin::Pin};

use crate::{
    paywall::{
        priced_request::PricedRequest, refusal::Rejection, sale::deliver::Purchase, seller::inner::MerchantInner,
    },
    protocol::{Amount, Proof, Way},
};

/// One way to pay.
pub(crate) trait WayToPay: Sync {
    /// The entries of the standard's quote that this way honours.
    fn offers(&self, merchant: &MerchantInner) -> Vec<Way>;

    /// Whether a proof is this way's to judge.
    fn recognises(&self, proof: &Proof) -> bool;

    /// Reserves the payment that a proof shows, for a request at this price.
    fn reserve<'a>(
        &'a self,
        request: &'a PricedRequest,
        proof: Proof,
        price: Result<Amount, Rejection>,
    ) -> Reserving<'a>;
}

/// A reservation under way.
pub(crate) type Reserving<'a> = Pin<Box<dyn Future<Output = Result<Purchase, Rejection>> + Send + 'a>>;
