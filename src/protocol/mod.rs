//! The values on the wire, and their text forms. Nothing here does I/O, reads a clock, or is async.

mod address;
mod amount;
mod asset;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod binding;
mod chain_time;
mod challenge;
pub mod channel;
mod delivery;
mod digest;
mod encoding;
pub mod headers;
mod intent;
mod json_text;
mod keccak;
mod loopback;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
mod media;
pub mod mpp;
mod network;
mod parse_error;
mod payer_proof;
mod payment;
mod payment_id;
pub mod permit2;
mod price_text;
mod problem;
mod purchase_name;
mod quote;
pub(crate) mod receipt;
mod redemption;
mod request_digest;
mod rfc3339;
mod seal;
mod tag;
mod template;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod token_domain;
mod token_seal;
mod transfer;
mod tx_hash;
pub mod v1;
pub mod v2;

pub use address::Address;
pub use amount::Amount;
pub use asset::Asset;
pub use binding::{Binding, ByPermit, ProvedBy};
pub use chain_time::ChainTime;
pub use intent::{INTENT_ID_MAX, IntentId, IntentKey};
pub use network::Network;
pub use payer_proof::{PaymentSecret, PaymentSignature, redemption_message};

pub use headers::HEADER_MAX;
pub use parse_error::ParseError;
pub use payment::{Payment, SignedTransfer};
pub(crate) use payment_id::CompactPaymentId;
pub use payment_id::PaymentId;
pub use problem::{ProblemCode, RetryRule};
pub use purchase_name::{PurchaseKey, PurchaseName};
pub use quote::{Quote, QuoteError};
pub use receipt::PassCall;
pub(crate) use receipt::Receipt;
pub use redemption::{InvalidRedemption, Proof, Redemption};
pub use seal::{SealingKeyError, SealingKeys};
pub use tag::PaymentTag;
pub use terms::{Terms, TermsBuilder};
pub use token_domain::TokenDomain;
pub use transfer::Transfer;
pub use tx_hash::TxHash;

pub(crate) use challenge::{Challenge, Challenged, Origin, ResourceUrl, Way};
pub(crate) use delivery::delivers;
#[cfg(feature = "mcp")]
pub(crate) use digest::digest_call;
pub(crate) use digest::{DigestedHeaders, Members, ProofMembers, digest_request, without_proof_members};
pub(crate) use encoding::{base64_header, decode_base64};
pub(crate) use loopback::is_loopback;
pub(crate) use media::{Media, has_foreign_charset};
pub(crate) use price_text::PriceText;
#[cfg(feature = "client")]
pub(crate) use redemption::is_proof_member;
pub(crate) use redemption::{
    ScanResult, begins_json, form_names_proof, is_json, names_proof, query_names_proof, scan_body, scan_form,
};
pub(crate) use request_digest::{DigestKey, RequestDigest};
pub(crate) use rfc3339::rfc3339;
pub(crate) use seal::{IntentTerms, RouteSeal, Seals};
pub(crate) use template::{QuoteTemplate, RedeemBy, RenderedQuote, with_type};
#[cfg(feature = "client")]
pub(crate) use text::serde_as_text;
pub(crate) use text::{ascii_json, ascii_text};
pub(crate) use token_seal::TokenSeal;
