//! Request extensions for callers.

use std::time::Duration;

use super::PurchaseId;
use crate::protocol::{Amount, TxHash};

/// A request extension: finishes an unfinished purchase of this request, and pays nothing new.
///
/// If the journal has none, the call ends in [`PayErrorKind::NothingToResume`](super::PayErrorKind::NothingToResume).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeOnly;

/// A request extension: asks once more for the answer of a finished purchase of this request, and pays nothing. A seller that keeps its
/// answers gives it again.
///
/// The journal knows finished purchases for about a day. If it does not know this one, or the purchase was made by
/// another request, the call ends in [`PayErrorKind::NothingToResume`](super::PayErrorKind::NothingToResume). A refusal leaves the purchase as
/// it is. An unfinished purchase is resumed instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskAgain(pub PurchaseId);

/// A request extension: this transaction has paid already, by another wallet or without a journal. The layer asks for a
/// quote, pays nothing, and redeems the transaction. See [`PayLayer::redeem_only`](super::PayLayer::redeem_only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyPaid(pub TxHash);

/// A request extension: the most that this request may cost, in base units, within what the budget allows. A higher
/// quote ends the call in [`BudgetDenial::MaxPrice`](super::BudgetDenial::MaxPrice), and an unfinished purchase that
/// may still cost more in [`PayErrorKind::AboveMaxPrice`](super::PayErrorKind::AboveMaxPrice). A purchase that is already
/// paid costs nothing more and is resumed. What an outstanding pass may yet cost is taken off the `MaxPrice` of each
/// request that resumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPrice(pub Amount);

/// A request extension: returns the price of the answer, and pays nothing.
///
/// Returns the seller's 402 unchanged, with the [`Quote`](crate::protocol::Quote) that would be paid in its extensions.
/// If the payer, or what the budget leaves for the day and the host, would not allow the payment now, the call ends in
/// the corresponding error. Unfinished purchases are not resumed.
///
/// ```
/// # use tower::{Service, ServiceExt as _};
/// use tower_x402::{client::{Body, PayError, QuoteOnly}, protocol::Quote};
///
/// # async fn example<S, R>(client: S) -> Result<(), PayError>
/// # where S: Service<http::Request<Body>, Response = http::Response<R>, Error = PayError> {
/// let mut request = http::Request::new(Body::empty());
/// request.extensions_mut().insert(QuoteOnly);
/// if let Some(quote) = client.oneshot(request).await?.extensions().get::<Quote>() {
///     println!("{} {}", quote.amount.to_decimal(quote.decimals), quote.symbol.escape_debug());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuoteOnly;

/// A request extension: the time limit of this call and its answer's body together, within the layer's
/// [patience](super::PayLayerBuilder::patience). The approval hook's time does not count.
///
/// After that the call ends in an error, and the body in [`BodyError::TimedOut`](super::BodyError::TimedOut). The next
/// call with the same request resumes a purchase that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Duration);
