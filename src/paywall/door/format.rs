//! `ReplyFormat`: the format in which the layer's own answer reaches the client.

use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::{
    paywall::{body::ResponseBody, priced_request::PricedRequest},
    protocol::{Media, ProblemCode, RetryRule, headers::GRPC_STATUS},
};

const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The format in which the layer's own answer reaches the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyFormat {
    Whole,
    /// For HEAD: without the body.
    Head,
    /// For gRPC: in the headers alone, under this content type.
    TrailersOnly(&'static str),
}

impl ReplyFormat {
    /// Returns the format of the answer to this request.
    pub(crate) fn of_request(request: &PricedRequest) -> Self {
        Self::of(&request.parts.method, request.media)
    }

    pub(crate) fn of(method: &Method, media: Media) -> Self {
        match media {
            _ if *method == Method::HEAD => Self::Head,
            Media::Grpc(content_type) => Self::TrailersOnly(content_type),
            Media::Json | Media::Form | Media::Other => Self::Whole,
        }
    }

    pub(crate) fn apply<ResB>(self, response: &mut Response<ResponseBody<ResB>>, code: ProblemCode) {
        match self {
            Self::Whole => {}
            Self::Head => *response.body_mut() = ResponseBody::default(),
            Self::TrailersOnly(content_type) => {
                *response.status_mut() = StatusCode::OK;
                *response.body_mut() = ResponseBody::default();
                let headers = response.headers_mut();
                headers.remove(header::CONTENT_LENGTH);
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.insert(GRPC_STATUS, HeaderValue::from_static(grpc_status(code)));
                headers.insert(GRPC_MESSAGE, HeaderValue::from_static(code.as_str()));
            }
        }
    }
}

/// Returns UNAVAILABLE, which clients retry by themselves, if asking again helps; else FAILED_PRECONDITION.
fn grpc_status(code: ProblemCode) -> &'static str {
    if code.retry() == RetryRule::AskAgain { "14" } else { "9" }
}
