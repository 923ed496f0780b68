//! `UnboundPolicy`: how a merchant treats transfers that are bound to nothing.

use std::time::Duration;

/// How a merchant treats transfers that are bound to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnboundPolicy {
    /// How much chain time must pass after such a transfer before it can be claimed without proof.
    pub(crate) hold: Duration,
    /// Whether they can be claimed by their payer's signature only.
    pub(crate) refuse: bool,
}
