//! The wire formats: what a 402 asks for, how a payment is shown, and what the seller replies. Everything here is
//! values and text.

pub(crate) mod authorization_terms;
pub(crate) mod bill;
pub(crate) mod channel_terms;
mod echo;
pub(crate) mod permit_terms;
pub(crate) mod reply;
pub(crate) mod signed_proof;
mod signed_quote;
pub(crate) mod signed_terms;
pub(crate) mod transfer_proof;
pub(crate) mod transfer_terms;

pub(crate) use authorization_terms::AuthorizationTerms;
pub(crate) use bill::Bill;
pub(crate) use channel_terms::ChannelTerms;
pub(crate) use permit_terms::PermitTerms;
pub(crate) use reply::SellerReply;
pub(crate) use signed_terms::SignedTerms;
pub(crate) use transfer_proof::TransferProof;
pub(crate) use transfer_terms::TransferTerms;
