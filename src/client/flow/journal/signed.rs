//! `Signed`: a signed payment that a seller is shown, of any kind.

use crate::{
    client::{PreparedAuthorization, PreparedPermit, payer::PreparedVoucher},
    protocol::{Address, ChainTime},
};

/// A payment that the seller settles, or charges to a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signed<'a> {
    Authorization(&'a PreparedAuthorization),
    Permit(&'a PreparedPermit),
    Voucher(&'a PreparedVoucher),
}

impl<'a> Signed<'a> {
    /// Returns the time before which it can be used; the Unix epoch for a voucher without a deposit, which has no end.
    pub(crate) const fn valid_before(self) -> ChainTime {
        match self {
            Self::Authorization(authorized) => authorized.signed.authorization.valid_before,
            Self::Permit(permitted) => permitted.valid_before(),
            Self::Voucher(vouched) => vouched.valid_before(),
        }
    }

    /// Returns the account that signed it.
    pub(crate) const fn payer(self) -> Address {
        match self {
            Self::Authorization(authorized) => authorized.signed.authorization.from,
            Self::Permit(permitted) => permitted.signed.permit.from,
            Self::Voucher(vouched) => vouched.config().payer,
        }
    }

    pub(crate) const fn token(self) -> Address {
        match self {
            Self::Authorization(authorized) => authorized.token,
            Self::Permit(permitted) => permitted.signed.permit.token,
            Self::Voucher(vouched) => vouched.config().token,
        }
    }

    /// Returns the message shown to the seller, as JSON.
    pub(crate) fn message(self) -> &'a str {
        match self {
            Self::Authorization(authorized) => &authorized.message,
            Self::Permit(permitted) => &permitted.message,
            Self::Voucher(vouched) => &vouched.message,
        }
    }
}
