//! `UnboundPolicy`: what a merchant decided about transfers that are bound to nothing.

use std::time::Duration;

/// What a merchant decided about transfers that are bound to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnboundPolicy {
    /// How much chain time has to pass over one before it can be claimed without proof.
    pub(crate) hold: Duration,
    /// They can be claimed by their payer's signature only.
    pub(crate) refuse: bool,
}
