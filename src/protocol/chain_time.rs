//! `ChainTime`: a moment as the chain dates it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in chain time: a block's timestamp, in Unix seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChainTime(u64);

impl ChainTime {
    /// Returns the moment of these Unix seconds.
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the moment in Unix seconds.
    #[must_use]
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// Returns the moment `span` later. Fractions of a second are dropped.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_secs()))
    }
}
