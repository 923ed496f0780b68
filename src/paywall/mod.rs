//! The door: the tower middleware.

mod arrival;
mod body;
mod builder;
mod checkout;
mod error;
mod extract;
mod future;
mod gate;
mod layer;
mod lease;
mod merchant;
mod nested;
mod order;
mod pricing;
mod redeem;
mod respond;
mod sale;
mod service;
mod shared;
mod start;

pub use body::{RequestBody, ResponseBody};
pub use builder::MerchantBuilder;
pub use error::{ConfigError, HealthError};
pub use future::ResponseFuture;
pub use layer::X402Layer;
pub use merchant::Merchant;
pub use pricing::{Price, PriceTag, Pricing, Refusal};
pub use sale::Consumption;
pub use service::X402;
