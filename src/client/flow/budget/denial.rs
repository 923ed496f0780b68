//! `Denial`: why a payment was denied, and the budget's rule for it.

use std::time::Duration;

use crate::protocol::{Address, Network};

/// The rule by which the budget denied a payment. Nothing was signed, nothing was spent. The text of the
/// [`PayError`](crate::client::PayError) says the price and the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetDenial {
    /// The price is above the limit for one payment.
    PerPayment,
    /// The price is above the request's own [`MaxPrice`](crate::client::MaxPrice).
    MaxPrice,
    /// The price would exceed what one host may receive in a day.
    PerHost,
    /// The price would exceed what may be spent in a day.
    PerDay,
    /// The least deposit into a payment channel is above the limit for one deposit.
    PerDeposit,
    /// The seller could keep a deposit locked for longer than [allowed](crate::client::BudgetBuilder::longest_withdraw_delay).
    WithdrawDelay,
    /// The fee of the transfer's transaction could be above the limit for one payment.
    GasPerPayment,
    /// The fee of the transfer's transaction could exceed what may be spent on fees in a day.
    GasPerDay,
    /// The budget does not allow this recipient, or does not allow this host to name it.
    Recipient,
    /// The quote names the paying account itself, a token contract or the zero address as recipient; none of them can
    /// be a seller.
    NoSeller,
    /// The payment is due on a network where the budget has no asset.
    Network,
    /// The seller accepts no asset of the budget, or states other decimals than the budget's assets have.
    Asset,
    /// The quote asks for an amount of zero: such a transfer pays nothing, but costs a fee.
    Zero,
    /// Another unfinished purchase was paid for the same intent: two transfers with the same tag could not be told
    /// apart. Or an authorization was signed for the same MPP challenge within the last day: only one of the two could
    /// be used.
    IntentReused,
    /// The quote has expired.
    Expired,
    /// The quote expires before a payment is sure to be in a block. See
    /// [`PayLayerBuilder::least_time_to_pay`](crate::client::PayLayerBuilder::least_time_to_pay).
    ExpiresSoon,
    /// The quote came over plain HTTP, where anyone on the path can replace its recipient. A request without `https`
    /// counts as plain HTTP, unless it certainly goes to this machine.
    PlainHttp,
    /// The request names no valid host, neither in its address nor in its `Host` header. Limits and recipients per host
    /// could not be applied.
    NoHost,
    /// An earlier answer of this host stated an impossible charge: above the signed maximum, unreadable, or different
    /// from the chain. This process pays nothing more to that host.
    Mischarged,
    /// The approval hook returned `false`.
    NotApproved,
}

/// A denial with the values for its text; amounts are decimals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("{price} would exceed the limit of {limit} for one payment: nothing was paid")]
    PerPayment { price: String, limit: String },
    #[error("{price} would exceed the request's own limit of {limit}: nothing was paid")]
    MaxPrice { price: String, limit: String },
    #[error("{price} would exceed this host's daily limit of {limit} ({spent} already spent): nothing was paid")]
    PerHost { price: String, spent: String, limit: String },
    #[error("{price} would exceed the daily limit of {limit} ({spent} already spent): nothing was paid")]
    PerDay { price: String, spent: String, limit: String },
    #[error(
        "a deposit of {deposit} would exceed the limit of {limit} for one deposit: nothing was paid; raise `per_deposit`"
    )]
    PerDeposit { deposit: String, limit: String },
    #[error(
        "the seller could keep a deposit for {} s without an answer, and the limit is {} s: nothing was paid; raise `longest_withdraw_delay`",
        delay.as_secs(), limit.as_secs()
    )]
    WithdrawDelay { delay: Duration, limit: Duration },
    #[error(
        "a network fee of {fee} would exceed the limit of {limit} for one payment: nothing was paid; wait, or raise `gas_per_payment`"
    )]
    GasPerPayment { fee: String, limit: String },
    #[error(
        "a network fee of {fee} would exceed the daily limit of {limit} ({spent} already spent): nothing was paid; wait, or raise `gas_per_day`"
    )]
    GasPerDay { fee: String, spent: String, limit: String },
    #[error("{0} is not among the recipients that the budget allows for this host: nothing was paid")]
    Recipient(Address),
    #[error(
        "{0} is the paying account, a token contract or the zero address, and cannot be a seller: nothing was paid"
    )]
    NoSeller(Address),
    #[error("the budget has no asset on {0}: nothing was paid")]
    Network(Network),
    #[error("the seller accepts no asset of the budget: nothing was paid")]
    Asset,
    #[error("the quote asks for an amount of zero: nothing was paid")]
    Zero,
    #[error("another purchase was paid for the same intent: nothing was paid; finish that purchase, or ask again")]
    IntentReused,
    #[error("the quote has expired: nothing was paid; check this machine's clock")]
    Expired,
    #[error("the quote expires in {left:?}, and a payment takes at least {least:?}: nothing was paid")]
    ExpiresSoon { left: Duration, least: Duration },
    #[error(
        "the quote came over plain HTTP, where anyone on the path can replace its recipient: nothing was paid; use an absolute https address"
    )]
    PlainHttp,
    #[error("the request does not name its host: nothing was paid; use an absolute https address")]
    NoHost,
    #[error(
        "an earlier answer of this host came with a charge that cannot be true: nothing was paid; contact the seller, or restart this process to buy there again"
    )]
    Mischarged,
    #[error("the payment was not approved: nothing was paid")]
    NotApproved,
}

impl Denial {
    pub(crate) const fn rule(&self) -> BudgetDenial {
        match self {
            Self::PerPayment { .. } => BudgetDenial::PerPayment,
            Self::MaxPrice { .. } => BudgetDenial::MaxPrice,
            Self::PerHost { .. } => BudgetDenial::PerHost,
            Self::PerDay { .. } => BudgetDenial::PerDay,
            Self::PerDeposit { .. } => BudgetDenial::PerDeposit,
            Self::WithdrawDelay { .. } => BudgetDenial::WithdrawDelay,
            Self::GasPerPayment { .. } => BudgetDenial::GasPerPayment,
            Self::GasPerDay { .. } => BudgetDenial::GasPerDay,
            Self::Recipient(_) => BudgetDenial::Recipient,
            Self::NoSeller(_) => BudgetDenial::NoSeller,
            Self::Network(_) => BudgetDenial::Network,
            Self::Asset => BudgetDenial::Asset,
            Self::Zero => BudgetDenial::Zero,
            Self::IntentReused => BudgetDenial::IntentReused,
            Self::Expired => BudgetDenial::Expired,
            Self::ExpiresSoon { .. } => BudgetDenial::ExpiresSoon,
            Self::PlainHttp => BudgetDenial::PlainHttp,
            Self::NoHost => BudgetDenial::NoHost,
            Self::Mischarged => BudgetDenial::Mischarged,
            Self::NotApproved => BudgetDenial::NotApproved,
        }
    }
}
