//! `Limits`: what a request may cost and take, the pass that is bought for it included.

use std::{future::Future, time::Duration};

use http::Request;
use tokio::time::{Instant, timeout};

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

    /// Whether the request has any.
    pub(super) const fn are_set(&self) -> bool {
        self.price.is_some() || self.deadline.is_some()
    }

    /// Takes off what was paid for a pass.
    pub(super) fn spend(&mut self, paid: Amount) {
        self.price = self.price.map(|most| most.checked_sub(paid).unwrap_or(Amount::ZERO));
    }

    /// Has the request cost no more than is left.
    pub(super) fn bind<B>(&self, request: &mut Request<B>) {
        if let Some(most) = self.price {
            request.extensions_mut().insert(MaxPrice(most));
        }
    }

    /// Whether this price is above what the request may cost.
    pub(super) fn exclude(&self, price: Amount) -> bool {
        self.price.is_some_and(|most| price > most)
    }

    /// The most that the request may cost.
    pub(super) const fn price(&self) -> Option<Amount> {
        self.price
    }

    /// The most that a pass may cost for which a quote told this price.
    pub(super) fn price_of(&self, quoted: Option<Amount>) -> Option<MaxPrice> {
        self.price.into_iter().chain(quoted).min().map(MaxPrice)
    }

    /// What is left of the time.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(self.since.elapsed()))
    }

    /// Leaves out the time that an approval took.
    pub(super) fn extend(&mut self, approving: Duration) {
        self.deadline = self.deadline.map(|deadline| deadline.saturating_add(approving));
    }

    /// Waits no longer than is left; `None` where that is not enough.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.left() {
            Some(left) => timeout(left, work).await.ok(),
            None => Some(work.await),
        }
    }
}
