//! `Discovery` as a tower service.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tower_service::Service;

use super::document::Discovery;
use crate::protocol::{Origin, ResourceUrl};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl<B> Service<Request<B>> for Discovery {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

impl Discovery {
    fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        let write: fn(&Self, &str) -> (&'static str, String) = match request.uri().path() {
            "/openapi.json" => |this, url| (JSON, this.openapi(url).to_string()),
            "/.well-known/x402" => |this, url| (JSON, this.well_known(url).to_string()),
            "/" | "/llms.txt" => |this, url| (TEXT, this.text(url)),
            _ => return bare(StatusCode::NOT_FOUND),
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = bare(StatusCode::METHOD_NOT_ALLOWED);
            refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let (kind, text) = write(self, &self.url(request));
        let length = HeaderValue::from(text.len());
        let mut answer = Response::new(if request.method() == Method::HEAD { String::new() } else { text });
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CONTENT_LENGTH, length);
        // Prices may change with the next deployment.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        answer
    }

    /// Returns the URL at which this service is reached.
    fn url<B>(&self, request: &Request<B>) -> String {
        let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(http::uri::Authority::as_str).or(named);
        // A malformed host stays out of the documents.
        let host =
            host.filter(|host| host.parse::<http::uri::Authority>().is_ok_and(|host| !host.as_str().contains('@')));
        let origin = match self.public_url() {
            Some(url) => return url.to_owned(),
            None => host.map_or(Origin::Unknown, Origin::Host),
        };
        ResourceUrl { origin, path: "" }.to_string()
    }
}

fn bare(status: StatusCode) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    response
}
