//! HTTP messages: repeatable requests, bodies, and hosts.

pub(crate) mod body;
pub(crate) mod exclusive;
pub(crate) mod host;
mod kept_head;
pub(crate) mod peek;
pub(crate) mod replay_request;
pub(crate) mod request_copy;
#[cfg(feature = "reqwest")]
pub(crate) mod reqwest_client;
pub(crate) mod response_body;

pub(crate) use exclusive::Exclusive;
pub(crate) use peek::Peek;
pub(crate) use replay_request::{CarriedProof, ReplayRequest, RequestIdentity};
pub(crate) use response_body::Rest;
