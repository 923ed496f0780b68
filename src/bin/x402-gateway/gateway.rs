//! The gateway as a service: finds the route of a request, and leads it through the paywall to the upstream.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

use http::{Method, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::Either;
use hyper::body::Incoming;
use tower_service::Service as _;
use tower_x402::{ResponseBody, mcp::McpBody};

use super::{
    proxy::{Arrival, Peer, Proxy, ProxyBody, problem},
    ready::Readiness,
    routes::{Found, Routes, Target, path::CleanPath},
};

/// The body of an answer to a client.
pub(crate) type AnswerBody = Either<ProxyBody, Either<ResponseBody<ProxyBody>, McpBody<ProxyBody>>>;

/// Everything that a reload replaces: the routes and the readiness of their merchant.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) routes: Routes,
    pub(crate) ready: Readiness,
}

/// The current generation. A request keeps the one that it started with.
#[derive(Clone, Debug)]
pub(crate) struct Present(Arc<RwLock<Arc<Generation>>>);

impl Present {
    pub(crate) fn new(generation: Generation) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(generation))))
    }

    pub(crate) fn get(&self) -> Arc<Generation> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, generation: Generation) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(generation);
    }
}

/// The service of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) present: Present,
    pub(crate) proxy: Proxy,
    pub(crate) peer: Peer,
}

impl hyper::service::Service<Request<Incoming>> for Gateway {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (mut request, found) = match self.found(request) {
            Ok(found) => found,
            Err(refusal) => return Box::pin(async move { Ok(*refusal) }),
        };
        request.extensions_mut().insert(Arrival {
            peer: self.peer.clone(),
            only: found.only,
            get_has_same_target: found.get_has_same_target,
            is_priced: matches!(found.target, Target::Sell(..)),
        });
        match found.target {
            Target::Free => {
                let answer = self.proxy.clone().call(request);
                Box::pin(async move { Ok(answer.await?.map(Either::Left)) })
            }
            Target::Sell(mut sold) => {
                let answer = sold.service.call(request);
                Box::pin(async move { Ok(answer.await?.map(Either::Left).map(Either::Right)) })
            }
            Target::Tools(mut tools) => {
                // Traffic inside a tunnel would not be priced.
                request.headers_mut().remove(header::UPGRADE);
                let answer = tools.call(request);
                Box::pin(async move { Ok(answer.await?.map(Either::Right).map(Either::Right)) })
            }
            Target::Deny => {
                Box::pin(async { Ok(refused(StatusCode::NOT_FOUND, "not_found", "There is nothing here.")) })
            }
        }
    }
}

impl Gateway {
    /// Returns the request with its path normalised, and its target.
    fn found(&self, request: Request<Incoming>) -> Result<(Request<Incoming>, Found), Box<Response<AnswerBody>>> {
        let (mut head, body) = request.into_parts();
        check_method(&head.method)?;
        let path = CleanPath::read(head.uri.path())
            .map_err(|why| Box::new(refused(StatusCode::BAD_REQUEST, "invalid_path", why.detail())))?;
        let found = self.present.get().routes.find(&head.method, &path, &head.headers);
        if path.as_str() != head.uri.path() {
            head.uri = spelled(&head.uri, &path)
                .ok_or_else(|| Box::new(refused(StatusCode::BAD_REQUEST, "invalid_path", "The path is too long.")))?;
        }
        Ok((Request::from_parts(head, body), found))
    }
}

/// Refuses lower-case methods, because some services take `get` for `GET`, and the methods of proxies and diagnosis:
/// `CONNECT` and `TRACE`.
fn check_method(method: &Method) -> Result<(), Box<Response<AnswerBody>>> {
    let detail = match method.as_str() {
        "CONNECT" | "TRACE" => "This address does not take this method.",
        name if name.bytes().any(|byte| byte.is_ascii_lowercase()) => "Write the method in capitals.",
        _ => return Ok(()),
    };
    Err(Box::new(refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)))
}

fn spelled(uri: &Uri, path: &CleanPath) -> Option<Uri> {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{}{query}", path.as_str())).ok()?);
    Uri::from_parts(parts).ok()
}

fn refused(status: StatusCode, error: &str, detail: &str) -> Response<AnswerBody> {
    problem(status, error, detail).map(Either::Right).map(Either::Left)
}
