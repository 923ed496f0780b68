//! `Errand`: one request on its way, with what it is sent by.

use std::{future::poll_fn, pin::pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;
use tower_service::Service;

use super::{limits::Limits, purse::SharedPurse};
use crate::client::{Deadline, box_error::BoxError};

/// The longest answer with a pass, and the longest quote, that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// How long its body may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request on its way.
pub(super) struct Errand<S> {
    pub(super) service: S,
    /// The instance that was polled ready, until it is called.
    pub(super) polled: Option<S>,
    pub(super) passes: SharedPurse,
    pub(super) limits: Limits,
}

impl<S> Errand<S> {
    /// Sends a request by the instance that was polled, or by another one, in what is left of the time.
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

/// All of a short body. One that stalls is none: other requests wait for this one.
pub(super) async fn read<R: Body<Data = Bytes>>(body: R) -> Option<Bytes>
where
    R::Error: Into<BoxError>,
{
    Some(timeout(PATIENCE, Limited::new(pin!(body), LONGEST).collect()).await.ok()?.ok()?.to_bytes())
}
