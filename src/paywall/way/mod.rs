//! The ways to pay: how the money moves, what a payment that is shown claims, and how it is settled.
//!
//! To add a way: a folder in here, and a line in [`WAYS`].

pub(crate) mod authorization;
#[cfg(all(test, feature = "test-util"))]
mod scripted;
pub(crate) mod transfer;

use std::{future::Future, pin::Pin};

use crate::{
    paywall::{
        priced_request::PricedRequest, refusal::Rejection, sale::deliver::Purchase, seller::inner::MerchantInner,
    },
    protocol::{Amount, ProblemCode, Proof, Way},
};

/// Every way to pay, in the order in which quotes offer them: first those that official clients know. The first that recognises a
/// proof takes it.
static WAYS: &[&dyn WayToPay] = &[
    #[cfg(all(test, feature = "test-util"))]
    &scripted::ByScript,
    &authorization::ByAuthorization,
    &transfer::ByTransfer,
];

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

/// The ways to pay that the standard's quotes name.
pub(crate) fn offers(merchant: &MerchantInner) -> Vec<Way> {
    WAYS.iter().flat_map(|way| way.offers(merchant)).collect()
}

/// Reserves the payment that buys this answer; `None` where the request is free.
pub(crate) async fn reserve(request: &PricedRequest, proof: Proof) -> Result<Option<Purchase>, Rejection> {
    let Some(price) = request.amount().await.transpose() else { return Ok(None) };
    match WAYS.iter().find(|way| way.recognises(&proof)) {
        Some(way) => way.reserve(request, proof, price).await.map(Some),
        None => Err(ProblemCode::InvalidRedemption.into()),
    }
}
