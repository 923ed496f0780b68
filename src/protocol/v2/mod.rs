//! The messages of the [x402 standard](https://github.com/x402-foundation/x402), version 2: read from and written to JSON and headers.
//!
//! They are values: nothing here verifies a signature, asks a chain, or reads a clock.
//!
//! | Message | Where it travels |
//! |---|---|
//! | [`PaymentRequired`] | [`PAYMENT-REQUIRED`](super::headers::PAYMENT_REQUIRED), on a 402 |
//! | [`PaymentPayload`] | [`PAYMENT-SIGNATURE`](super::headers::PAYMENT_SIGNATURE), on a request |
//! | [`SettleResponse`] | [`PAYMENT-RESPONSE`](super::headers::PAYMENT_RESPONSE), on an answer; from a facilitator's `/settle` |
//!
//! **Reading** is strict about money: amounts and times are strings of decimal digits, addresses `0x` and 40
//! hexadecimal digits, nonces and hashes `0x` and 64; networks are CAIP-2 names; no member that is read is given
//! twice. It is lenient where the standard leaves room: hexadecimal digits in any case, `null` or `""` for an absent
//! member, unknown members, base64 of either alphabet, padded or not. An unknown scheme, chain or payload is kept
//! apart, as [`PaymentOption::Other`] and [`SchemePayload::Other`]. A header is read up to
//! [`HEADER_MAX`](super::HEADER_MAX) bytes, unless documented otherwise.
//!
//! **Writing** has one form: compact JSON in ASCII, padded base64 of the standard alphabet, addresses with EIP-55 checksums.
//!
//! A seller demands, a payer pays, and the seller reads the payment:
//!
//! ```
//! use http::HeaderMap;
//! use tower_x402::protocol::{
//!     Amount, Asset, ChainTime, headers::{PAYMENT_REQUIRED, PAYMENT_SIGNATURE},
//!     v2::{Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SchemePayload, SignedAuthorization},
//! };
//!
//! // The seller.
//! let offered = PaymentRequirements::new(
//!     &Asset::USDC_BASE,
//!     Amount::from_cents(49, 6),
//!     "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse()?,
//!     60,
//! );
//! let mut answer = HeaderMap::new();
//! answer.insert(PAYMENT_REQUIRED, PaymentRequired::new(offered.clone()).to_header());
//!
//! // The payer.
//! let required = PaymentRequired::from_headers(&answer)?.ok_or("no quote of the standard")?;
//! let accepted = required.accepts[0].exact().ok_or("no way to pay that is known")?;
//! let authorization = Authorization::new("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?, [0x42; 32])
//!     .paying(accepted.pay_to, accepted.amount)
//!     .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_795_280_060));
//! # let signature = format!("0x{}", "00".repeat(65)).parse()?;
//! let payment = PaymentPayload::new(accepted.clone(), SignedAuthorization::new(authorization, signature));
//! let mut request = HeaderMap::new();
//! request.insert(PAYMENT_SIGNATURE, payment.to_header());
//!
//! // The seller again.
//! let payment = PaymentPayload::from_headers(&request)?.ok_or("no payment")?;
//! assert!(payment.accepted.exact().is_some_and(|accepted| accepted.echoes(&offered)));
//! let SchemePayload::Authorization(signed) = payment.payload else { return Err("another kind".into()) };
//! assert_eq!(signed.authorization.value, offered.amount);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(in crate::protocol) mod ascii;
mod authorization;
mod channel_requirements;
mod error;
mod extensions;
mod facilitator;
mod flow;
mod gas_sponsoring;
mod json_object;
pub(in crate::protocol) mod message;
pub(in crate::protocol) mod object;
mod payload;
mod payment_identifier;
mod payment_option;
mod payment_proof;
mod reason;
mod required;
mod requirements;
mod resource;
mod settle_response;
#[cfg(test)]
mod tests;
mod upto_requirements;
pub(in crate::protocol) mod values;
mod verify_response;

pub use authorization::{Authorization, SignedAuthorization};
pub use channel_requirements::ChannelRequirements;
pub use error::InvalidMessage;
#[cfg(test)]
pub(crate) use error::InvalidMessageKind;
pub use extensions::Extensions;
#[doc(hidden)]
pub use facilitator::{FacilitatorRequest, Supported, SupportedKind};
pub use flow::{PaymentFlow, TransferMethod};
pub use gas_sponsoring::Eip2612Permit;
pub(crate) use gas_sponsoring::eip2612_declarations;
#[doc(hidden)]
pub use json_object::JsonObject;
pub use payload::{PaymentPayload, SchemePayload};
pub(crate) use payment_identifier::declarations;
#[doc(hidden)]
pub use payment_option::OtherRequirements;
pub use payment_option::PaymentOption;
pub use payment_proof::PaymentProof;
pub use reason::Reason;
pub use required::PaymentRequired;
pub use requirements::PaymentRequirements;
pub use resource::ResourceInfo;
pub use settle_response::SettleResponse;
pub use upto_requirements::UpToRequirements;
#[doc(hidden)]
pub use verify_response::VerifyResponse;
