//! `Failed`: why the upstream gave no answer that can be passed on.

use std::{error::Error as _, fmt::Write as _};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper_util::client::legacy::Error;

use super::{super::log::TARGET, problem};

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The upstream accepted no connection.
    Unreachable,
    /// The connection broke, or the answer is invalid.
    Broken,
    /// No answer came in time.
    Slow,
    /// The client did not send its body in time.
    ClientSlow,
    /// The upstream asks for a payment of its own. A client that pays must not see that bill.
    Bill,
}

impl Failed {
    pub(super) fn of(error: &Error) -> Self {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(deeper) = source {
            let _ = write!(why, ": {deeper}");
            source = deeper.source();
        }
        tracing::warn!(target: TARGET, why, "the upstream did not answer");
        if error.is_connect() { Self::Unreachable } else { Self::Broken }
    }

    /// Returns the answer to the client. None of these answers is sold.
    pub(super) fn answer(self) -> Response<Full<Bytes>> {
        let (status, error, detail) = match self {
            Self::Unreachable => (
                StatusCode::BAD_GATEWAY,
                "upstream_unreachable",
                "The service behind this address cannot be reached. Nothing was sold; send the same request again later.",
            ),
            Self::Broken => (
                StatusCode::BAD_GATEWAY,
                "upstream_failed",
                "The service behind this address gave no valid answer. Nothing was sold; send the same request again later.",
            ),
            Self::Slow => (
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                "The service behind this address did not answer in time. Nothing was sold; send the same request again later.",
            ),
            Self::ClientSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                "The body of the request did not arrive in time. Nothing was sold; send the request again.",
            ),
            Self::Bill => (
                StatusCode::BAD_GATEWAY,
                "upstream_payment_required",
                "The service behind this address asks for a payment of its own, which this gateway does not pass on. Nothing was sold.",
            ),
        };
        problem(status, error, detail)
    }
}
