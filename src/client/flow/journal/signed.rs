//! `Signed`: what a payer signed and a seller is shown, of either kind.

use crate::{
    client::{PreparedAuthorization, PreparedPermit},
    protocol::{Address, ChainTime},
};

/// A payment that the seller settles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signed<'a> {
    Authorization(&'a PreparedAuthorization),
    Permit(&'a PreparedPermit),
}

impl<'a> Signed<'a> {
    /// The moment before which it can be used.
    pub(crate) const fn valid_before(self) -> ChainTime {
        match self {
            Self::Authorization(authorized) => authorized.signed.authorization.valid_before,
            Self::Permit(permitted) => permitted.valid_before(),
        }
    }

    /// The account that signed it.
    pub(crate) const fn payer(self) -> Address {
        match self {
            Self::Authorization(authorized) => authorized.signed.authorization.from,
            Self::Permit(permitted) => permitted.signed.permit.from,
        }
    }

    pub(crate) const fn token(self) -> Address {
        match self {
            Self::Authorization(authorized) => authorized.token,
            Self::Permit(permitted) => permitted.signed.permit.token,
        }
    }

    /// The message that the seller is shown, as JSON.
    pub(crate) fn message(self) -> &'a str {
        match self {
            Self::Authorization(authorized) => &authorized.message,
            Self::Permit(permitted) => &permitted.message,
        }
    }
}
