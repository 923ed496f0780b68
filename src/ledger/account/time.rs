//! `AccountTime`: the present moment of a ledger.

/// The current time, by the ledger's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountTime {
    /// For expiry: microseconds since 1970.
    pub wall: u64,
    /// For leases: microseconds since any fixed moment. A database uses one clock for both.
    pub lease: u64,
}

impl AccountTime {
    /// Returns the moment of a ledger with one clock, in microseconds since 1970.
    #[must_use]
    pub const fn at(micros: u64) -> Self {
        Self { wall: micros, lease: micros }
    }
}
