//! `FacilitatorSettler`: a facilitator of the x402 standard checks and settles payments, over HTTP.

mod answers;
mod builder;
mod call;
#[cfg(feature = "wallet")]
mod channels;
mod domains;
mod endpoint;
#[cfg(feature = "wallet")]
mod keeper;
mod question;
mod recent;
mod settler;
mod supported;
mod transport;

pub use builder::FacilitatorSettlerBuilder;
pub use call::{FacilitatorAction, FacilitatorCall};
#[cfg(feature = "wallet")]
pub use keeper::ChannelSettings;
pub use settler::FacilitatorSettler;
