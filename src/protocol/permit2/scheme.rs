//! `PermitScheme`: which of the standard's two schemes a permit is of.

use super::{EXACT_PROXY, UPTO_PROXY};
use crate::protocol::Address;

/// A scheme of the standard that is paid by a permit.
///
/// ```
/// use tower_x402::protocol::permit2::{PermitScheme, UPTO_PROXY};
/// assert_eq!((PermitScheme::UpTo.name(), PermitScheme::UpTo.proxy()), ("upto", UPTO_PROXY));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermitScheme {
    /// The signed amount is paid, to the unit.
    Exact,
    /// The signed amount is a maximum, of which the facilitator in the witness charges as much as it says.
    UpTo,
}

impl PermitScheme {
    /// Returns the name that the scheme has in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::UpTo => "upto",
        }
    }

    /// Returns the contract that has to be the spender of its permits.
    #[must_use]
    pub const fn proxy(self) -> Address {
        match self {
            Self::Exact => EXACT_PROXY,
            Self::UpTo => UPTO_PROXY,
        }
    }
}
