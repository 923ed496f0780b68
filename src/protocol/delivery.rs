//! Which answers deliver something, by their head.

use http::{HeaderMap, StatusCode};

use super::headers::GRPC_STATUS;

/// The rule of a route that sets none. Our client counts the answers that a pass bought by the same rule.
pub(crate) fn delivers(status: StatusCode, headers: &HeaderMap) -> bool {
    let by_status = status == StatusCode::SWITCHING_PROTOCOLS
        || status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    by_status && !is_grpc_failure(headers)
}

/// Whether an answer says that it is a failure of gRPC, which is HTTP 200 all the same.
fn is_grpc_failure(headers: &HeaderMap) -> bool {
    // By the names that are there: one that is looked for would have to be hashed.
    headers.iter().any(|(name, status)| name == GRPC_STATUS && status != "0")
}
