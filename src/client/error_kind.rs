//! What an error says by value: what went wrong, and where the money is.

use crate::protocol::{ChainTime, TxHash};

/// Where the money of a failed call is: see [`PayError::money`](super::PayError::money).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Money {
    /// Nothing was paid, and nothing of this call will be.
    Untouched,
    /// The seller was paid nothing, and nothing of this call will be. The network took its fee for a transaction of the account.
    FeeSpent {
        /// The transaction, where it is known: that of the payment. Else another one of the account took the payment's place.
        transaction: Option<TxHash>,
    },
    /// A payment may have been made, or may yet be.
    AtRisk {
        /// The moment from which on it can no longer be made, in Unix seconds of the chain, where there is one: the end of an
        /// authorization. A transfer has none.
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
    /// The request carried a proof of payment of the caller's own, and failed. What became of that payment is not known here.
    Forwarded,
    /// A signed payment was not cancelled. The seller may have used it, or may use it yet.
    NotCancelled,
    /// The 402 names a price that cannot be read. Nothing was paid.
    Quote,
    /// The body can be sent only once, and it has been. Nothing was paid.
    NotReplayable,
    /// The budget does not allow the payment. Nothing was paid.
    Declined,
    /// The payer could not prepare the payment. Nothing was paid.
    Payer,
    /// The journal did not record the payment, so it was not sent. Nothing was paid.
    Journal,
    /// The request was to finish a purchase, and the journal has none open for it. Nothing was paid.
    NothingToResume,
    /// A transfer is recorded, and was in no block in time. It may still be mined.
    Unsettled,
    /// The transaction is in a block and transferred nothing.
    Reverted,
    /// Other transactions of the same account used the payment's nonce, again and again. Nothing was transferred.
    Displaced,
    /// An authorization or a permit is signed for this request, the seller was shown it and did not give the answer, and by the chain it is not
    /// used. It may yet be, so nothing more is signed while it can be.
    ///
    /// The same request shows it again, and signs another one once the chain is past `valid_before`.
    /// [`PayLayer::cancel`](super::PayLayer::cancel) makes it void before that.
    Outstanding,
    /// An unfinished purchase of this request may yet be paid, at more than the request's own [`MaxPrice`](super::MaxPrice). It is left as
    /// it is: a request with a higher limit resumes it, and [`PayLayer::cancel`](super::PayLayer::cancel) or
    /// [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    AboveMaxPrice,
    /// The authorization that was signed for this request was not used, and can never be: nothing was paid. The same request pays anew.
    Lapsed,
    /// The request has an `Authorization` of its own, and the seller takes the payment of MPP in that header only. Nothing was paid;
    /// or, where the error names a purchase, its authorization was not shown, and can be used until it expires.
    ///
    /// Send the credentials of the service in another way, or buy from a seller that takes `Payment-Authorization`.
    AuthorizationTaken,
    /// The seller refuses the payment for good.
    Refused,
    /// The seller rejects the request itself, and the payment stays unspent.
    Misunderstood,
    /// The seller gives the answer to the payer only, and was not convinced that this is the payer. The payment stays
    /// unspent, and nothing more is paid for this request while it is kept.
    ///
    /// A payer that [signs](super::Payer::sign) redeems it by the same request. To redeem it by hand, send a request
    /// with a `paymentSignature` of the paying account over
    /// [`redemption_message`](crate::protocol::redemption_message).
    Unproven,
    /// The seller counts the answer as sold, it broke off on its way, and the seller does not give it again. The purchase is
    /// closed: the same request would pay anew.
    AnswerLost,
    /// The seller answers a proof of payment with another bill. It is not paid.
    BilledAgain,
    /// A payment for this request bought nothing, and does not cover what the seller asks for now. Nothing more was
    /// paid, and nothing more is paid by the same request for as long as that payment is kept.
    ///
    /// [`ResumeOnly`](super::ResumeOnly) presents it once more under the quote that it was made for, a request to the
    /// same seller at the old price uses it, and [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    NotCovered,
    /// The seller redirects the proof of payment. It was not sent there.
    Redirected,
    /// The payment channel to this seller cannot be used: an earlier purchase in it was left without an answer, which the error names; or the
    /// seller said of it what cannot be true, and nothing more is signed for it.
    Channel,
    /// The payment was made, and the answer did not come in time.
    Unanswered,
}
