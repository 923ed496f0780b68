//! MPP, the `Payment` scheme of HTTP authentication: method `evm`, intent `charge`.
//!
//! The demand is the header `WWW-Authenticate: Payment`, the payment `Authorization: Payment`, the outcome
//! `Payment-Receipt` ([mpp-specs](https://github.com/tempoxyz/mpp-specs)). The signed payment itself is the one of
//! [version 2](super::v2) of x402; its nonce is the [hash of the challenge](challenge_hashes).

mod accept;
#[cfg(feature = "client")]
mod auth_params;
mod auth_schemes;
mod challenge;
mod credential;
#[cfg(feature = "client")]
mod demand;
mod nonce;
mod problem;
mod receipt;

pub(crate) use accept::accepts_charge;
pub(crate) use challenge::{Asked, Challenge, CredentialType};
pub(crate) use credential::token;
pub use credential::{Credential, CredentialPayload, EchoedChallenge};
#[cfg(feature = "client")]
pub(crate) use demand::{Demand, Shown};
pub use nonce::challenge_hashes;
pub(crate) use problem::problem_type;
pub(crate) use receipt::receipt;
#[cfg(feature = "mcp")]
pub(crate) use receipt::receipt_json;
