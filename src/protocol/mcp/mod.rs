//! The parts of MCP's JSON-RPC messages that a sale needs: the call of a tool, its result, and the list of tools.
//!
//! Parts that are not read are kept byte for byte.

mod canonical;
mod envelope;
mod list;
mod reply;
mod strict;
mod terms;
mod tool_call;

pub(crate) use envelope::{Envelope, Message, Unreadable};
pub(crate) use list::{annotate, announce};
pub(crate) use reply::{Reply, Said, error_message, is_reply_with, listen, result_message, with_meta};
pub(crate) use strict::{folded, has_twins};
pub(crate) use terms::{Refused, bill, challenge, refusal, with_outcome};
pub(crate) use tool_call::{Speaks, ToolCall};

/// The member of `_meta` that has the payment of a call.
pub(crate) const PAYMENT: &str = "x402/payment";
/// The member of `_meta` that has the outcome of a payment.
pub(crate) const PAYMENT_RESPONSE: &str = "x402/payment-response";
/// The member of `_meta` that has a pass. In a result: what is left of the pass, or why it buys nothing.
pub(crate) const PASS: &str = "x402/pass";
/// The member of a bill's `_meta` that names the accepted passes.
pub(crate) const PASSES: &str = "x402/passes";
/// The payment of MPP.
pub(crate) const CREDENTIAL: &str = "org.paymentauth/credential";
/// The outcome of a payment by MPP.
pub(crate) const RECEIPT: &str = "org.paymentauth/receipt";
/// The MCP extension that makes a bill a kind of result.
pub(crate) const EXTENSION: &str = "org.x402/payment";
/// Since this revision, each result names its kind.
pub(crate) const REVISION: &str = "2026-07-28";
