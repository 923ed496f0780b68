//! What is said: the values that go over the wire and their text. No I/O, no clock, no async.

mod address;
mod amount;
mod asset;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod bench;
mod digest;
pub mod headers;
mod intent;
mod keccak;
mod network;
mod payment_id;
mod problem;
mod quote;
mod receipt;
mod redemption;
mod request_digest;
mod seal;
mod tag;
mod template;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod transfer;
mod tx_hash;

pub use address::{Address, ParseAddressError};
pub use amount::{Amount, ParseAmountError};
pub use asset::Asset;
pub use intent::{INTENT_ID_MAX, IntentId, IntentKey, ParseIntentIdError};
pub use network::{Network, ParseNetworkError};
pub use payment_id::{ParsePaymentIdError, PaymentId};
pub use problem::{ParseProblemCodeError, ProblemCode, RetryRule};
pub use quote::{Quote, QuoteError};
pub use receipt::Receipt;
pub use redemption::{HEADER_MAX, InvalidRedemption, Proof};
pub use seal::{SealingKeyError, SealingKeys};
pub use tag::PaymentTag;
pub use terms::Terms;
pub use transfer::{ChainTime, Transfer};
pub use tx_hash::{ParseTxHashError, TxHash};

pub(crate) use digest::{DigestedHeaders, ProofMembers, digest_request};
pub(crate) use redemption::{ScanResult, begins_json, form_names_proof, names_proof, query_names_proof, scan_body};
pub(crate) use request_digest::RequestDigest;
pub(crate) use seal::{IntentTerms, RouteSeal, Seals};
pub(crate) use template::{PriceText, QuoteTemplate, RedeemBy};
pub(crate) use text::ascii_json;
#[cfg(feature = "client")]
pub(crate) use text::serde_as_text;
