//! The ways to pay: how the money moves, what a shown payment claims, and how it is settled.
//!
//! To add a way: add a folder here, and a line to the list.

pub(crate) mod authorization;
mod channel;
mod echo;
pub(crate) mod pass;
mod permit;
#[cfg(all(test, feature = "test-util"))]
mod scripted;
pub(crate) mod signed;
pub(crate) mod transfer;
mod way_to_pay;

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::Rejection,
        sale::deliver::Purchase,
        seller::{inner::MerchantInner, pricing::Tariff},
        way::way_to_pay::WayToPay,
    },
    protocol::{ProblemCode, Proof, Way},
};

/// Lists the ways to pay. Each is called by its concrete type, so that a request carries nothing for the ways it does not use.
macro_rules! ways {
    ($($(#[$when:meta])* $way:path),+ $(,)?) => {
        /// Returns the ways to pay that the standard's quotes name, in the order of the list, and each in the merchant's order of networks.
        /// A network that has not started yet is left out.
        pub(crate) fn offers(merchant: &MerchantInner, tariff: Tariff) -> Vec<Way> {
            let mut offers = Vec::new();
            let (started, others): (Vec<_>, Vec<_>) = merchant.chains.iter().partition(|chain| chain.start.is_done());
            others.iter().for_each(|chain| chain.start.ensure_later());
            $($(#[$when])* offers.extend(started.iter().flat_map(|chain| $way.offers(merchant, chain, tariff)));)+
            offers
        }

        /// Reserves the payment that buys this answer; `None` if the request is free. The first way that recognises the proof takes it.
        pub(crate) async fn reserve(request: &PricedRequest, proof: Proof) -> Result<Option<Purchase>, Rejection> {
            let Some(price) = request.cost().await.transpose() else { return Ok(None) };
            $($(#[$when])* if $way.recognises(&proof) {
                return $way.reserve(request, proof, price).await.map(Some);
            })+
            Err(ProblemCode::InvalidRedemption.into())
        }
    };
}

// The ways that official clients know come first.
ways![
    #[cfg(all(test, feature = "test-util"))]
    scripted::ByScript,
    permit::ByPermit,
    authorization::ByAuthorization,
    transfer::ByTransfer,
    channel::ByChannel,
];
