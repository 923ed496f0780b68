//! The requirements for an inner service, written so that the compiler can name the missing one.
//!
//! Both traits hold for every service that fits. They are not exported: code that is generic over a service asks for `Service` and `Clone`,
//! which imply them.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::paywall::body::RequestBody;

/// A service that answers requests with a [`RequestBody`] around the caller's body.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer an `http::Request<RequestBody<{B}>>`",
    label = "this service is typed on another request body",
    note = "`X402Layer` may read a body before the service sees it, and hands on a `tower_x402::RequestBody<{B}>`: \
            implement `Service<Request<RequestBody<B>>>`, or be generic over the body",
    note = "the service must also be `Send + 'static`, with a future, an error and a response body with `Data = Bytes` that are `Send`"
)]
pub trait InnerService<B>:
    Service<Request<RequestBody<B>>, Response = Response<Self::ResponseBody>, Error: Send, Future: Send> + Send + 'static
{
    /// The body of its responses.
    type ResponseBody: Body<Data = Bytes> + Send + 'static;
}

#[diagnostic::do_not_recommend]
impl<S, B, ResB> InnerService<B> for S
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>, Error: Send, Future: Send> + Send + 'static,
    ResB: Body<Data = Bytes> + Send + 'static,
{
    type ResponseBody = ResB;
}

/// A service that is cloned for each request.
#[diagnostic::on_unimplemented(
    message = "`X402Layer` needs a service that is `Clone`, and `{Self}` is not",
    label = "each request takes a clone of this service",
    note = "put a `tower::buffer::Buffer` around the service: `ServiceBuilder::new().layer(x402).buffer(64).service(…)`"
)]
pub trait CloneService: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> CloneService for S {}
