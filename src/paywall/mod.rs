//! The paywall: the tower middleware.
//!
//! A request travels through the rooms in one direction: a `door` reads it, a `dialect` says what it shows, a `way` says what that
//! claims of the chain, a `sale` reserves it, runs the handler and records the sale, and the door writes the answer. `seller` has what
//! all of them read: the merchant and its routes.

mod body;
mod checkout;
mod dialect;
mod door;
mod error;
mod future;
mod inner_service;
mod layer;
mod sale;
mod seller;
mod service;
mod way;

pub use body::{RequestBody, ResponseBody};
pub use door::page::quote_page::{Offer, QuotePage};
pub use error::{BuildError, HealthError};
pub use future::ResponseFuture;
pub use layer::X402Layer;
pub use sale::consumption::Consumption;
pub use sale::json_rpc::json_rpc_succeeded;
pub use sale::redelivery::Redelivery;
pub use seller::builder::MerchantBuilder;
pub(crate) use seller::catalog::Described;
pub(crate) use seller::inner::MerchantInner;
pub use seller::merchant::Merchant;
pub use seller::pricing::{Price, PriceTag, Pricing, Refusal};
pub use seller::unredeemed::{Unredeemed, UnredeemedReason};
pub use service::X402;
