//! `Consumption`: which answers are sold, by the handler's decision or by the route's rules.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, response::Parts};

/// Decides, in the extensions of a handler's response, whether this answer is sold, in place of the route's rule.
///
/// It reaches the layer only if every layer in between keeps the response's extensions. A layer that builds a new
/// response from status and body, such as a cache, drops it; then the route's rule decides.
///
/// ```
/// use http::Response;
/// use tower_x402::Consumption;
///
/// let mut nothing_found = Response::new("no results; you keep your payment");
/// nothing_found.extensions_mut().insert(Consumption::Keep);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumption {
    /// The answer is sold: intent and payment are consumed.
    Consume,
    /// The answer is given away: intent and payment stay good.
    ///
    /// The run counts as an attempt, like a failure: after 16 attempts on one payment in one process the layer
    /// answers 429 `too_many_attempts` for a while. To give away more answers on purpose, use
    /// [`free_when`](crate::X402Layer::free_when).
    Keep,
}

/// A route's rule about heads.
pub(crate) type ConsumeRule = dyn Fn(StatusCode, &HeaderMap) -> bool + Send + Sync;

type Sells = dyn Fn(StatusCode, &HeaderMap, &Bytes) -> bool + Send + Sync;

/// A route's rule about whole answers, for those that its rule about heads sells.
#[derive(Clone)]
pub(crate) struct BodyRule {
    sells: Arc<Sells>,
}

impl BodyRule {
    pub(crate) fn new(sells: impl Fn(StatusCode, &HeaderMap, &Bytes) -> bool + Send + Sync + 'static) -> Self {
        Self { sells: Arc::new(sells) }
    }

    pub(crate) fn sells(&self, head: &Parts, body: &Bytes) -> bool {
        (self.sells)(head.status, &head.headers, body)
    }
}

/// What the head of an answer says about its sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByHead {
    Sold,
    NotSold,
    /// It is sold if the route's rule about bodies says so.
    AskBody,
}

/// Decides whether this answer is sold, as far as its head tells. Removes the handler's own decision from it.
pub(crate) fn by_head<ResB>(response: &mut Response<ResB>, rule: &ConsumeRule, body_rule: Option<&BodyRule>) -> ByHead {
    match response.extensions_mut().remove::<Consumption>() {
        Some(Consumption::Consume) => ByHead::Sold,
        Some(Consumption::Keep) => ByHead::NotSold,
        None if !rule(response.status(), response.headers()) => ByHead::NotSold,
        None if body_rule.is_some() => ByHead::AskBody,
        None => ByHead::Sold,
    }
}
