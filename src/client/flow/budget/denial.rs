//! `BudgetDenial`: why a payment was not made.

use std::time::Duration;

use crate::protocol::{Address, Network};

/// The reason why the budget denied a payment. Nothing was signed, nothing was spent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetDenial {
    /// The price is above the limit for one payment.
    #[error("{price} would exceed the limit of {limit} for one payment: nothing was paid")]
    PerPayment {
        /// The price, as a decimal.
        price: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The price is above the request's own [`MaxPrice`](crate::client::MaxPrice).
    #[error("{price} would exceed the request's own limit of {limit}: nothing was paid")]
    MaxPrice {
        /// The price, as a decimal.
        price: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The price would exceed what one host may receive in a day.
    #[error("{price} would exceed this host's daily limit of {limit} ({spent} already spent): nothing was paid")]
    PerHost {
        /// The price, as a decimal.
        price: String,
        /// What the host received in the last day, as a decimal.
        spent: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The price would exceed what may be spent in a day.
    #[error("{price} would exceed the daily limit of {limit} ({spent} already spent): nothing was paid")]
    PerDay {
        /// The price, as a decimal.
        price: String,
        /// The spending of the last day, as a decimal.
        spent: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The fee of the transfer's transaction could be above the limit for one payment.
    #[error(
        "a network fee of {fee} would exceed the limit of {limit} for one payment: nothing was paid; wait, or raise `gas_per_payment`"
    )]
    GasPerPayment {
        /// The most that the transaction could cost, as a decimal of the chain's coin.
        fee: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The fee of the transfer's transaction could exceed what may be spent on fees in a day.
    #[error(
        "a network fee of {fee} would exceed the daily limit of {limit} ({spent} already spent): nothing was paid; wait, or raise `gas_per_day`"
    )]
    GasPerDay {
        /// The most that the transaction could cost, as a decimal of the chain's coin.
        fee: String,
        /// What the transactions of the last day could cost, as a decimal.
        spent: String,
        /// The limit, as a decimal.
        limit: String,
    },
    /// The recipient is not among those that may be paid, or not one that this host may name.
    #[error("{0} is not among the recipients that the budget allows for this host: nothing was paid")]
    Recipient(Address),
    /// The quote names the paying account itself, a token contract or the zero address as recipient; none of them can
    /// be a seller.
    #[error(
        "{0} is the paying account, a token contract or the zero address, and cannot be a seller: nothing was paid"
    )]
    NoSeller(Address),
    /// The payment is due on a chain without an asset in the budget.
    #[error("the budget has no asset on {0}: nothing was paid")]
    Network(Network),
    /// The seller accepts no asset of the budget, or states other decimals than the budget's assets have.
    #[error("the seller accepts no asset of the budget: nothing was paid")]
    Asset,
    /// The quote asks for an amount of zero: such a transfer pays nothing, and costs its fee.
    #[error("the quote asks for an amount of zero: nothing was paid")]
    Zero,
    /// Another purchase, which is not finished, was paid for the same intent. Two transfers with the same tag could not be
    /// told apart.
    #[error("another unfinished purchase was paid for the same intent: nothing was paid; finish that purchase first")]
    IntentReused,
    /// The quote has expired already.
    #[error("the quote has expired: nothing was paid; check this machine's clock")]
    Expired,
    /// The quote expires before a payment can be relied on to be in a block. See
    /// [`PayLayerBuilder::least_time_to_pay`](crate::client::PayLayerBuilder::least_time_to_pay).
    #[error("the quote expires in {left:?}, and a payment takes at least {least:?}: nothing was paid")]
    ExpiresSoon {
        /// The time that is left.
        left: Duration,
        /// The time that there must be.
        least: Duration,
    },
    /// Over plain HTTP, anyone on the path can replace the quote's recipient. A request that does not say `https` counts as
    /// plain HTTP, unless it certainly goes to this machine.
    #[error(
        "the quote came over plain HTTP, where anyone on the path can replace its recipient: nothing was paid; use an absolute https address"
    )]
    PlainHttp,
    /// The request names its host neither in its address nor in its `Host` header, or names none that is valid: limits and
    /// recipients per host would mean nothing.
    #[error("the request does not name its host: nothing was paid; use an absolute https address")]
    NoHost,
    /// The approval hook returned `false`.
    #[error("the payment was not approved: nothing was paid")]
    NotApproved,
}
