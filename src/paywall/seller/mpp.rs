//! `Mpp`: how a merchant speaks MPP.

use http::{HeaderName, header};

use crate::{
    paywall::error::BuildError,
    protocol::{
        Address, Network,
        headers::PAYMENT_AUTHORIZATION,
        mpp::{Challenge, CredentialType},
    },
};

/// The longest realm, in bytes: the headers of a quote have room for so much.
const REALM_MAX: usize = 64;

/// Settings for [`MerchantBuilder::mpp`](crate::MerchantBuilder::mpp): the realm of the challenges, and the header of the payments.
///
/// ```
/// use tower_x402::Mpp;
/// // A service with API keys of its own in `Authorization`.
/// let mpp = Mpp::new("api.example.com").own_header();
/// # let _ = mpp;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpp {
    realm: String,
    own_header: bool,
}

impl Mpp {
    /// Returns settings with this realm, such as the public host: 1 to 64 printable ASCII characters without quotes and backslashes. It
    /// must be the same on all replicas, and while a payment may be shown.
    ///
    /// All headers of a quote have at most 2,900 bytes. If a long label (a character that is not ASCII takes six bytes), many tokens and
    /// the realm leave no room for a challenge, a quote has none, and a warning is logged.
    #[must_use]
    pub fn new(realm: impl Into<String>) -> Self {
        Self { realm: realm.into(), own_header: false }
    }

    /// Asks for payments in the header `Payment-Authorization`, and reads only that. Otherwise `mppx` overwrites a caller's
    /// `Authorization`.
    ///
    /// Like the realm, this must be the same on all replicas, and while a payment may be shown: a payment in the other header is not read,
    /// and its payer gets a new bill.
    #[must_use]
    pub const fn own_header(mut self) -> Self {
        self.own_header = true;
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let fits = !self.realm.trim().is_empty() && self.realm.len() <= REALM_MAX && self.realm.bytes().all(plain);
        fits.then_some(()).ok_or(BuildError::InvalidText { what: "a realm of MPP", max: REALM_MAX })
    }

    pub(crate) fn realm(&self) -> &str {
        &self.realm
    }

    /// Returns the header that payments come in.
    pub(crate) const fn header(&self) -> HeaderName {
        if self.own_header { PAYMENT_AUTHORIZATION } else { header::AUTHORIZATION }
    }

    /// Returns the challenge for one token.
    pub(crate) fn challenge(
        &self,
        token: (Network, Address, u8),
        recipient: Address,
        types: &[CredentialType],
    ) -> Challenge {
        Challenge::new(&self.realm, self.own_header, token, recipient, types)
    }
}

impl From<&str> for Mpp {
    fn from(realm: &str) -> Self {
        Self::new(realm)
    }
}

impl From<String> for Mpp {
    fn from(realm: String) -> Self {
        Self::new(realm)
    }
}
