//! By a channel: the payer deposits once, and signs a voucher for each answer.
//!
//! [`plan`] decides whether a channel pays, and what has to be deposited; [`sign`] signs and records; [`counting`] counts what an answer was
//! charged; [`correction`] decides whether a seller is believed that counts otherwise; [`close`] gets back what is left;
//! [`adopt`] takes up a channel that the journal has lost.

pub(crate) mod adopt;
pub(crate) mod close;
pub(crate) mod correction;
pub(crate) mod counting;
mod deposit;
pub(crate) mod plan;
pub(crate) mod sign;
