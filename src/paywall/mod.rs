//! The paywall: the tower middleware.
//!
//! A request travels through the rooms in one direction: a `door` reads it, a `dialect` parses its proof, a `way`
//! relates the proof to the chain, a `sale` reserves the payment, runs the handler and records the sale, and the door
//! writes the answer. `seller` holds the merchant and its routes, which all of them read.

mod body;
mod checkout;
mod dialect;
mod door;
mod error;
mod future;
mod inner_service;
mod layer;
mod merchant;
mod priced_request;
mod refusal;
mod sale;
mod seller;
mod service;
mod way;

pub use body::{RequestBody, ResponseBody};
#[cfg(feature = "mcp")]
pub use door::mcp::{Mcp, McpBody, McpLayer};
pub use error::{BuildError, HealthError};
pub use future::ResponseFuture;
pub use layer::X402Layer;
pub use merchant::{
    Merchant,
    builder::MerchantBuilder,
    chain::Chain,
    claimed::Claimed,
    claimer::Claimer,
    open_channels::OpenChannel,
    pass::{Pass, PassIssuer},
    restored::{LoggedSale, RestoredSales},
    unredeemed::{Unredeemed, UnredeemedReason},
};
pub use sale::charge::Charge;
pub use seller::{
    channels::policy::ChannelPolicy,
    consumption::Consumption,
    json_rpc::json_rpc_succeeded,
    mpp::Mpp,
    payment_identifier::PaymentIdentifier,
    pricing::{Price, PriceTag, Pricing, Refusal},
    quote_page::{FurtherNetwork, Offer, OfferedPass, QuotePage},
    redelivery::Redelivery,
};
pub use service::X402;
