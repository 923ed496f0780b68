//! The parts of an error: what went wrong, and where the money is.

use crate::protocol::{ChainTime, TxHash};

/// Where the money of a failed call is: see [`PayError::money`](super::PayError::money).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Money {
    /// Nothing was paid, and nothing will be paid by this call.
    Untouched,
    /// The seller was paid nothing, and will be paid nothing by this call. The network charged the account its fee for
    /// a transaction.
    FeeSpent {
        /// The payment's transaction; `None` if another transaction of the account took its place.
        transaction: Option<TxHash>,
    },
    /// A payment may have been made, or may yet be.
    AtRisk {
        /// When the payment can no longer be made, in Unix seconds of the chain: the end of an authorization. `None`
        /// for a transfer, which has no end.
        until: Option<ChainTime>,
    },
    /// The payment was made.
    Spent {
        /// The transaction.
        transaction: TxHash,
    },
}

/// What went wrong in a call: see [`PayError::kind`](super::PayError::kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayErrorKind {
    /// The layer's patience ended before any money moved. Nothing was paid.
    TimedOut,
    /// The request failed before there was a quote. Nothing was paid.
    Http,
    /// The request carried the caller's own proof of payment, and failed. The layer does not know the outcome of that
    /// payment.
    Forwarded,
    /// A signed payment was not cancelled. The seller may have used it, or may still use it.
    NotCancelled,
    /// The price in the 402 cannot be read. Nothing was paid.
    Quote,
    /// The body can be sent only once, and was already sent. Nothing was paid.
    NotReplayable,
    /// The budget does not allow the payment. Nothing was paid.
    Declined,
    /// The payer could not prepare the payment. Nothing was paid.
    Payer,
    /// The journal did not record the payment, so it was not sent. Nothing was paid.
    Journal,
    /// The request was to finish a purchase, and the journal has none open for it. Nothing was paid.
    NothingToResume,
    /// A transfer is recorded, but no block contained it in time. It may still be mined.
    Unsettled,
    /// The transaction is in a block and transferred nothing.
    Reverted,
    /// Other transactions of the same account repeatedly used the payment's nonce. Nothing was transferred.
    Displaced,
    /// The seller was shown the authorization or permit of this request and did not give the answer, and the chain does
    /// not show it as used. It may still be used, so nothing more is signed until it can no longer be.
    ///
    /// The same request shows it again, and signs another one once the chain's time is past `valid_before`.
    /// [`PayLayer::cancel`](super::PayLayer::cancel) voids an authorization earlier.
    Outstanding,
    /// An unfinished purchase of this request may still be paid, for more than the request's
    /// [`MaxPrice`](super::MaxPrice). It is left unchanged. A request with a higher limit resumes it;
    /// [`PayLayer::cancel`](super::PayLayer::cancel) or [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    AboveMaxPrice,
    /// The authorization of this request was not used, and never can be: nothing was paid. The same request pays anew.
    Lapsed,
    /// The request has an `Authorization` header, and the seller takes MPP payments in that header only. Nothing was
    /// paid. If the error names a purchase, its authorization was not shown, and can be used until it expires.
    ///
    /// Send the credentials of the service in another way, or buy from a seller that takes `Payment-Authorization`.
    AuthorizationTaken,
    /// The seller refuses the payment for good.
    Refused,
    /// The seller rejects the request itself, and the payment stays unspent.
    Misunderstood,
    /// The seller gives the answer to the payer only, and did not accept the proof that this is the payer. The payment
    /// stays unspent, and nothing more is paid for this request while the payment is kept.
    ///
    /// A payer that [signs](super::Payer::sign) redeems the payment with the same request. To redeem it by hand, send a
    /// request with a `paymentSignature` of the paying account over
    /// [`redemption_message`](crate::protocol::redemption_message).
    Unproven,
    /// The seller counts the answer as sold, but it broke off, and the seller does not give it again. The purchase is
    /// closed: the same request would pay anew.
    AnswerLost,
    /// The seller answers a proof of payment with another bill. The layer does not pay it.
    BilledAgain,
    /// A payment for this request bought nothing, and does not cover the seller's new price or terms. While that
    /// payment is kept, the same request pays nothing more.
    ///
    /// [`ResumeOnly`](super::ResumeOnly) presents the payment again under its original quote. A request to the same
    /// seller at the old price uses it. [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    NotCovered,
    /// The seller redirects the proof of payment. The layer did not follow.
    Redirected,
    /// The payment channel to this seller cannot be used. Either an earlier purchase in it, which the error names, has
    /// no answer; or the seller made an impossible statement about the channel, and nothing more is signed for it.
    Channel,
    /// The payment was made, but the answer did not come in time.
    Unanswered,
}
