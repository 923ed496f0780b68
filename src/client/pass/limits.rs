//! `Limits`: the price and time limits of a request, including the pass that is bought for it.

use std::time::Duration;

use http::Request;
use tokio::time::Instant;

use crate::{
    client::{Deadline, MaxPrice},
    protocol::Amount,
};

pub(super) struct Limits {
    price: Option<Amount>,
    deadline: Option<Duration>,
    since: Instant,
}

impl Limits {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let (price, deadline) = (request.extensions().get::<MaxPrice>(), request.extensions().get::<Deadline>());
        Self { price: price.map(|max| max.0), deadline: deadline.map(|deadline| deadline.0), since: Instant::now() }
    }

    /// Returns whether the request has any limits.
    pub(super) const fn are_set(&self) -> bool {
        self.price.is_some() || self.deadline.is_some()
    }

    /// Subtracts what was paid for a pass.
    pub(super) fn spend(&mut self, paid: Amount) {
        self.price = self.price.map(|most| most.checked_sub(paid).unwrap_or(Amount::ZERO));
    }

    /// Limits the request's price to what is left.
    pub(super) fn bind<B>(&self, request: &mut Request<B>) {
        if let Some(most) = self.price {
            request.extensions_mut().insert(MaxPrice(most));
        }
    }

    /// Returns whether this price exceeds the request's limit.
    pub(super) fn exclude(&self, price: Amount) -> bool {
        self.price.is_some_and(|most| price > most)
    }

    /// Returns the request's price limit.
    pub(super) const fn price(&self) -> Option<Amount> {
        self.price
    }

    /// Returns the price limit of a pass with this quoted price.
    pub(super) fn price_of(&self, quoted: Option<Amount>) -> Option<MaxPrice> {
        self.price.into_iter().chain(quoted).min().map(MaxPrice)
    }

    /// Returns the remaining time.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(self.since.elapsed()))
    }

    /// Adds the time that an approval took, which does not count.
    pub(super) fn extend(&mut self, approving: Duration) {
        self.deadline = self.deadline.map(|deadline| deadline.saturating_add(approving));
    }

    /// Returns `most`, or half of the remaining time if that is less: the request itself needs the rest.
    pub(super) fn part(&self, most: Duration) -> Duration {
        self.left().map_or(most, |left| most.min(left / 2))
    }
}
