//! The ways to pay: how the money moves, what a payment that is shown claims, and how it is settled.
//!
//! To add a way: a folder in here, and a line in [`WAYS`].

pub(crate) mod authorization;
#[cfg(all(test, feature = "test-util"))]
mod scripted;
pub(crate) mod transfer;
mod way_to_pay;

use crate::{
    paywall::{
        priced_request::PricedRequest, refusal::Rejection, sale::deliver::Purchase, seller::inner::MerchantInner,
        way::way_to_pay::WayToPay,
    },
    protocol::{ProblemCode, Proof, Way},
};

/// Every way to pay, in the order in which quotes offer them: first those that official clients know. The first that recognises a
/// proof takes it.
static WAYS: &[&dyn WayToPay] = &[
    #[cfg(all(test, feature = "test-util"))]
    &scripted::ByScript,
    &authorization::ByAuthorization,
    &transfer::ByTransfer,
];

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
