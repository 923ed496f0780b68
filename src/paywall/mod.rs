//! The paywall: the tower middleware.

mod arrival;
mod body;
mod body_reader;
mod bypass;
mod checkout;
mod consumption;
mod deliver;
mod error;
mod future;
mod inner_service;
mod layer;
mod media;
mod merchant;
mod nested;
mod priced_request;
mod pricing;
mod problem;
mod quote;
mod redeem;
mod reservation;
mod route;
mod service;
mod text;
mod time_limits;

pub use body::{RequestBody, ResponseBody};
pub use consumption::Consumption;
pub use error::{BuildError, HealthError};
pub use future::ResponseFuture;
pub use layer::X402Layer;
pub use merchant::{Merchant, MerchantBuilder};
pub use pricing::{Price, PriceTag, Pricing, Refusal};
pub use service::X402;
