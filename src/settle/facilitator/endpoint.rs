//! `Endpoint`: one facilitator and its state.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{supported::SupportedCell, transport::Transport};
use crate::{protocol::v2::Supported, settle::SettleError};

/// How long a facilitator that failed is asked last.
const REST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) transport: Transport,
    supported: SupportedCell,
    resting_until: Mutex<Option<Instant>>,
}

impl Endpoint {
    pub(super) fn new(transport: Transport) -> Self {
        Self { transport, supported: SupportedCell::default(), resting_until: Mutex::default() }
    }

    pub(super) async fn supported(&self, age: Duration, limit: Duration) -> Result<Arc<Supported>, SettleError> {
        self.supported.get(&self.transport, age, limit).await
    }

    pub(super) fn is_resting(&self) -> bool {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn rest(&self) {
        self.rests(Some(Instant::now() + REST));
    }

    pub(super) fn wake(&self) {
        self.rests(None);
    }

    fn rests(&self, until: Option<Instant>) {
        *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}
