//! `Errand`: one request in progress, with what is needed to send it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use super::{limits::Limits, purse::SharedPurse};
use crate::client::{Deadline, box_error::BoxError};

/// The longest pass answer or quote that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// The time limit for reading such a body, for fetching a paid pass, and for the readiness of the inner service before a purchase.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// One request in progress.
pub(super) struct Errand<S> {
    pub(super) service: S,
    /// The instance that was polled ready, until it is called.
    pub(super) polled: Option<S>,
    pub(super) passes: SharedPurse,
    pub(super) limits: Limits,
}

impl<S> Errand<S> {
    /// Sends a request within the remaining time, by the polled instance or by a new clone.
    pub(super) async fn send<B, R>(&mut self, request: Request<B>) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        let service = self.ready().await?;
        self.send_by(service, request).await
    }

    /// Returns the instance that was polled, or a new clone once it is ready.
    pub(super) async fn ready<B>(&mut self) -> Result<S, S::Error>
    where
        S: Service<Request<B>> + Clone,
    {
        match self.polled.take() {
            Some(polled) => Ok(polled),
            None => {
                let mut service = self.service.clone();
                poll_fn(|cx| service.poll_ready(cx)).await?;
                Ok(service)
            }
        }
    }

    /// Sends a request by a ready instance, within the remaining time.
    pub(super) async fn send_by<B, R>(
        &mut self,
        mut service: S,
        mut request: Request<B>,
    ) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
    {
        if let Some(left) = self.limits.left() {
            request.extensions_mut().insert(Deadline(left));
        }
        service.call(request).await
    }
}

/// Waits for `work` until this moment, if there is one; returns `None` if that comes first.
pub(super) async fn within<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => timeout_at(until, work).await.ok(),
        None => Some(work.await),
    }
}

/// Reads a short body to its end. A stalled body is given up, because other requests wait for it.
pub(super) async fn read<R: Body<Data = Bytes>>(body: R) -> Option<Bytes>
where
    R::Error: Into<BoxError>,
{
    Some(timeout(PATIENCE, Limited::new(pin!(body), LONGEST).collect()).await.ok()?.ok()?.to_bytes())
}
