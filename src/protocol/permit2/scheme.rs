//! `PermitScheme`: the standard's two schemes for permits.

use super::{EXACT_PROXY, UPTO_PROXY};
use crate::protocol::Address;

/// A scheme of the standard that permits pay.
///
/// ```
/// use tower_x402::protocol::permit2::{PermitScheme, UPTO_PROXY};
/// assert_eq!((PermitScheme::UpTo.name(), PermitScheme::UpTo.proxy()), ("upto", UPTO_PROXY));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermitScheme {
    /// Exactly the signed amount is paid.
    Exact,
    /// The signed amount is a maximum; the facilitator in the witness charges up to it.
    UpTo,
}

impl PermitScheme {
    /// Returns the scheme's name in the standard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::UpTo => "upto",
        }
    }

    /// Returns the contract that must be the spender of its permits.
    #[must_use]
    pub const fn proxy(self) -> Address {
        match self {
            Self::Exact => EXACT_PROXY,
            Self::UpTo => UPTO_PROXY,
        }
    }
}
