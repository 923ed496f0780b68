//! Pages of any origin may buy.

use http::Method;
use tower_http::cors::{Any, CorsLayer};
use tower_x402::protocol::headers;

/// Must be outside the layer, so that preflights are not sold.
pub(crate) fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(headers::ALLOWED)
        .expose_headers(headers::EXPOSED)
}
