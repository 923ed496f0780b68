//! Decides by its head whether an answer delivers something.

use http::{HeaderMap, StatusCode};

use super::headers::GRPC_STATUS;

/// Returns whether an answer delivers, by the rule of a route that sets none. The client counts the answers of a pass
/// by the same rule.
pub(crate) fn delivers(status: StatusCode, headers: &HeaderMap) -> bool {
    let by_status = status == StatusCode::SWITCHING_PROTOCOLS
        || status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    by_status && !is_grpc_failure(headers)
}

/// Returns whether an answer is a failure of gRPC, which has HTTP status 200 too.
fn is_grpc_failure(headers: &HeaderMap) -> bool {
    // Compares each name that is present: a lookup would have to hash the name.
    headers.iter().any(|(name, status)| name == GRPC_STATUS && status != "0")
}
