//! The door: the tower middleware.

mod body;
mod checkout;
mod extract;
mod future;
mod gate;
mod layer;
mod lease;
mod merchant;
mod order;
mod pricing;
mod redeem;
mod respond;
mod sale;
mod service;

pub use body::{RequestBody, ResponseBody};
pub use future::ResponseFuture;
pub use layer::X402Layer;
pub use merchant::{Merchant, MerchantBuilder};
pub use pricing::{Price, PriceTag, Pricing, Refusal};
pub use sale::Consumption;
pub use service::X402;
