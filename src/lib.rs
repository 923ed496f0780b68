//! Sell HTTP answers one request at a time.

#[cfg(feature = "axum")]
pub mod axum;
pub mod clock;
mod error;
pub mod ledger;
mod paywall;
pub mod protocol;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod verify;

pub use error::ConfigError;
pub use paywall::{
    Consumption, Merchant, MerchantBuilder, Price, PriceTag, Pricing, Refusal, RequestBody, ResponseBody,
    ResponseFuture, X402, X402Layer,
};
pub use protocol::Receipt;
