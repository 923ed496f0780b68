//! `Holder`: what pays for an answer while its handler runs: a payment or a part of a pass.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use tokio::sync::Notify;

use crate::paywall::sale::{draw::DrawGuard, reservation::LeaseGuard, upkeep::HoldOutcome};

/// What is held while the handler runs.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    Payment(&'a LeaseGuard),
    Pass(&'a DrawGuard),
}

impl Holder<'_> {
    /// Runs `work`, and renews the lease meanwhile.
    pub(crate) async fn keep<T>(
        self,
        max_hold: Duration,
        late: Option<&Notify>,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> HoldOutcome<T> {
        match self {
            Self::Payment(guard) => guard.keep(max_hold, late, work).await,
            Self::Pass(guard) => guard.keep(max_hold, late, work).await,
        }
    }

    /// Counts this attempt from here on. A pass has no attempts: its holder may spend it on any result of the handler.
    pub(crate) fn handler_started(self) {
        if let Self::Payment(guard) = self {
            guard.handler_started();
        }
    }

    /// Uncounts this attempt: the service failed before it reached the handler.
    pub(crate) fn handler_not_reached(self) {
        if let Self::Payment(guard) = self {
            guard.handler_not_reached();
        }
    }

    /// Whether the answer may be kept for its payer.
    pub(crate) const fn is_payment(self) -> bool {
        matches!(self, Self::Payment(_))
    }
}

/// The name in logs.
impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payment(guard) => write!(f, "{}", guard.payment().id()),
            Self::Pass(guard) => write!(f, "account {}", guard.account()),
        }
    }
}
