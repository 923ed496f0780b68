//! One purchase, from the first question to the answer: what it may cost, what is recorded, and the conversation with the seller.

pub(in crate::client) mod budget;
pub(in crate::client) mod conversation;
pub(in crate::client) mod from_quote;
pub(in crate::client) mod journal;
pub(in crate::client) mod left_over;
pub(in crate::client) mod pacing;
pub(in crate::client) mod progress;
pub(in crate::client) mod purchase;
pub(in crate::client) mod registry;
pub(in crate::client) mod seller;
