//! `BudgetDenial`: why a payment was not made.

use std::time::Duration;

use crate::protocol::{Address, Network};

/// Why a payment was not made. Nothing was signed, nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetDenial {
    /// The price is above the limit for one payment.
    #[error("nothing was paid: {price} is more than the budget's limit of {limit} for one payment")]
    PerPayment {
        /// What is asked, as a decimal.
        price: String,
        /// What one payment may cost, as a decimal.
        limit: String,
    },
    /// With this payment, the host would have had more in one day than it may.
    #[error(
        "nothing was paid: {price} and the {spent} of the last day are more than the budget's limit of {limit} for one host in a day"
    )]
    PerHost {
        /// What is asked, as a decimal.
        price: String,
        /// What the host had in the last day, as a decimal.
        spent: String,
        /// What it may have, as a decimal.
        limit: String,
    },
    /// With this payment, more would be spent in one day than may be.
    #[error(
        "nothing was paid: {price} and the {spent} of the last day are more than the budget's limit of {limit} for a day"
    )]
    PerDay {
        /// What is asked, as a decimal.
        price: String,
        /// What was spent in the last day, as a decimal.
        spent: String,
        /// What may be spent, as a decimal.
        limit: String,
    },
    /// The recipient is not among those that may be paid, or not the one that this host may name.
    #[error("nothing was paid: {0} is not among the recipients that the budget allows for this host")]
    Recipient(Address),
    /// The quote names the paying account itself, a token contract or the zero address as recipient: whoever is paid so
    /// is nobody who could sell.
    #[error("nothing was paid: {0} is the paying account, a token contract or the zero address, and sells nothing")]
    NoSeller(Address),
    /// The payment is due on a chain of which the budget has no asset.
    #[error("nothing was paid: the budget has nothing to spend on {0}")]
    Network(Network),
    /// The seller accepts no asset of the budget, or states other decimals than it has.
    #[error("nothing was paid: the seller accepts no asset of the budget")]
    Asset,
    /// The quote asks for nothing: a transfer of nothing pays nobody, and costs its fee.
    #[error("nothing was paid: the quote asks for nothing")]
    Zero,
    /// Another purchase, which is not finished, was paid for the same intent: two transfers that say the same could not be
    /// told apart.
    #[error(
        "nothing was paid: the seller gave an intent that another unfinished purchase is paid for; finish that one first"
    )]
    IntentReused,
    /// The quote says that it is over already.
    #[error("nothing was paid: the quote has expired (is the clock right?)")]
    Expired,
    /// The quote is over before a payment could be relied on to be in a block. See
    /// [`PayLayerBuilder::least_time_to_pay`](super::PayLayerBuilder::least_time_to_pay).
    #[error("nothing was paid: the quote expires in {left:?}, and a payment takes {least:?} at least")]
    ExpiresSoon {
        /// How much time is left.
        left: Duration,
        /// How much there must be.
        least: Duration,
    },
    /// Over plain HTTP, anybody on the way can put his own address into the quote. A request that does not say `https`
    /// counts as plain HTTP, unless it goes to this machine for certain.
    #[error(
        "nothing was paid: the quote came over plain HTTP, or the request does not say `https`, and anybody on the way can change whom a quote pays: use an absolute https address"
    )]
    PlainHttp,
    /// The request says neither in its address nor in its `Host` header which host it goes to, or says something that
    /// is none: limits and recipients per host would mean nothing.
    #[error("nothing was paid: the request does not name the host that it goes to; use an absolute https address")]
    NoHost,
    /// The approval hook said no.
    #[error("nothing was paid: the payment was not approved")]
    NotApproved,
}
