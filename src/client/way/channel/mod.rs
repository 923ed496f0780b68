//! Pays by a channel: the payer deposits once, and signs a voucher for each answer.
//!
//! [`plan`] decides whether a channel pays, and what must be deposited; [`sign`] signs and records; [`counting`] counts
//! the charge of an answer; [`correction`] decides whether to believe a seller's other count; [`close`] gets back what
//! is left; [`adopt`] adds a channel that the journal has lost.

pub(crate) mod adopt;
pub(crate) mod close;
pub(crate) mod correction;
pub(crate) mod counting;
mod deposit;
pub(crate) mod plan;
pub(crate) mod sign;
