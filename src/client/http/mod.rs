//! What travels: requests that can be sent again, bodies, and whom they are for.

pub(in crate::client) mod beginning;
pub(in crate::client) mod body;
pub(in crate::client) mod exclusive;
pub(in crate::client) mod host;
pub(in crate::client) mod kept;
pub(in crate::client) mod replay_request;
#[cfg(feature = "reqwest")]
pub(in crate::client) mod reqwest_client;
pub(in crate::client) mod response_body;
