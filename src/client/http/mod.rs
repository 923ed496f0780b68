//! What travels: requests that can be sent again, bodies, and whom they are for.

pub(in crate::client) mod body;
pub(in crate::client) mod exclusive;
pub(in crate::client) mod host;
pub(in crate::client) mod peek;
pub(in crate::client) mod replay_request;
pub(in crate::client) mod request_copy;
#[cfg(feature = "reqwest")]
pub(in crate::client) mod reqwest_client;
pub(in crate::client) mod response_body;
