//! `Seller`: the selling service, and the request that is sent with and without a proof of payment.

use std::{future::poll_fn, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, response::Parts};
use http_body::Body;
use tokio::time::timeout;
use tower_service::Service;

use crate::{
    client::{
        Budget, Failure, ReplayBody, ResponseBody,
        box_error::BoxError,
        dialect::{
            Bill, SellerReply,
            reply::{self},
        },
        http::ReplayRequest,
    },
    protocol::ChainTime,
};

/// One request to one service.
pub(crate) struct Seller<S, B> {
    service: S,
    request: ReplayRequest<B>,
}

/// The reply to a request without proof.
pub(crate) enum Offered<R> {
    Answered(Response<ResponseBody<R>>),
    /// A bill, with its response.
    Billed(Box<Bill>, Response<ResponseBody<R>>),
}

/// The reply to a request with a proof.
pub(crate) struct Replied<R> {
    pub(crate) parts: Parts,
    pub(crate) reply: SellerReply,
    pub(crate) body: ResponseBody<R>,
}

impl<S, B> Seller<S, B> {
    /// Creates a seller. `service` was polled ready.
    pub(crate) const fn new(service: S, request: ReplayRequest<B>) -> Self {
        Self { service, request }
    }

    pub(crate) const fn request(&self) -> &ReplayRequest<B> {
        &self.request
    }
}

impl<S: Clone, B> Seller<S, B> {
    /// Replaces the service with a clone, to release its readiness while the chain is asked.
    pub(crate) fn drop_readiness(&mut self) {
        self.service = self.service.clone();
    }
}

impl<S, B, R> Seller<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// Sends the request unchanged, and returns the answer.
    pub(crate) async fn forward(&mut self) -> Result<Response<ResponseBody<R>>, Failure> {
        let request = self.request.take_plain().ok_or(Failure::NotReplayable)?;
        let response = self.send(request).await.map_err(Failure::Forwarded)?;
        Ok(response.map(ResponseBody::untouched))
    }

    /// Sends the request unchanged, unless its first answer is already there, and reads a bill from the answer.
    pub(crate) async fn bill(
        &mut self,
        first: Option<Response<R>>,
        budget: &Budget,
        now: ChainTime,
    ) -> Result<Offered<R>, Failure> {
        let request = self.request.plain();
        let replayable = request.is_some() && self.request.identity.fingerprint.is_some();
        let request = request.or_else(|| self.request.take_plain()).ok_or(Failure::NotReplayable)?;
        let response = match first {
            Some(response) => response,
            None => self.send(request).await.map_err(Failure::Http)?,
        };
        // A HEAD request gets the price, but cannot redeem anything.
        if response.status() != StatusCode::PAYMENT_REQUIRED || self.request.is_head() {
            return Ok(Offered::Answered(response.map(ResponseBody::untouched)));
        }
        match Bill::read(response, budget, now).await? {
            (None, response) => Ok(Offered::Answered(response)),
            (Some(_), _) if !replayable => Err(Failure::NotReplayable),
            (Some(bill), response) => Ok(Offered::Billed(Box::new(bill), response)),
        }
    }

    /// Sends a request with its proof; returns `None` if no answer came.
    pub(crate) async fn present(&mut self, proven: Request<B>, patience: Duration) -> Option<Replied<R>> {
        let exchange = async { reply::read(self.send(proven).await.ok()?).await.ok() };
        let (parts, code, body) = timeout(patience, exchange).await.ok()??;
        let reply = reply::judge(parts.status, &parts.headers, code);
        Some(Replied { parts, reply, body })
    }

    async fn send(&mut self, request: Request<B>) -> Result<Response<R>, BoxError> {
        let service = &mut self.service;
        poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
        service.call(request).await.map_err(Into::into)
    }
}

#[cfg(test)]
mod tests;
