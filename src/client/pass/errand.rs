//! `Errand`: one request in progress, with what is needed to send it.

use std::{future::poll_fn, pin::pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;
use tower_service::Service;

use super::{limits::Limits, purse::SharedPurse};
use crate::client::{Deadline, box_error::BoxError};

/// The longest pass answer or quote that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// The time limit for its body.
const PATIENCE: Duration = Duration::from_secs(30);

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
    pub(super) async fn send<B, R>(&mut self, mut request: Request<B>) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        if let Some(left) = self.limits.left() {
            request.extensions_mut().insert(Deadline(left));
        }
        let mut service = match self.polled.take() {
            Some(polled) => polled,
            None => {
                let mut service = self.service.clone();
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service
            }
        };
        service.call(request).await
    }
}

/// Reads a short body to its end. A stalled body is given up, because other requests wait for it.
pub(super) async fn read<R: Body<Data = Bytes>>(body: R) -> Option<Bytes>
where
    R::Error: Into<BoxError>,
{
    Some(timeout(PATIENCE, Limited::new(pin!(body), LONGEST).collect()).await.ok()?.ok()?.to_bytes())
}
