//! `Binding`: what a transfer is bound to, and so which proof redeems it.

use std::{fmt, sync::Arc};

use super::PaymentTag;

/// What a transfer is bound to, and so which proof redeems it.
///
/// The first request that shows an *unbound* transfer can redeem it. A *bound* one needs its secret, or a signature of
/// its payer.
///
/// ```
/// use tower_x402::protocol::{Binding, PaymentTag};
/// let tag = PaymentTag::of("AAAAAAAAAAAAAAAA");
/// let call_data = [&[0xa9, 0x05, 0x9c, 0xbb][..], &[0; 64], &tag.to_call_data()].concat();
/// let binding = Binding::none().with_call_data(call_data);
/// assert!(binding.is_bound() && binding.has_tag(&tag));
/// assert!(!binding.has_tag(&PaymentTag::of("BBBBBBBBBBBBBBBB")));
/// // A nonce binds whatever it is: it is the tag itself, or no one's.
/// assert!(Binding::none().with_nonce(*tag.as_bytes()).has_nonce(&tag));
/// assert!(!Binding::none().is_bound());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Binding {
    nonce: Option<[u8; 32]>,
    permit: Option<ByPermit>,
    /// Stored only if it may contain a tag. Shared by all transfers of a transaction.
    call_data: Option<Arc<[u8]>>,
}

/// The Permit2 permit that one of the standard's proxies executed to make a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByPermit {
    /// The payer's permit with this nonce: the transaction calls the proxy directly, so its call data names the
    /// permit.
    Nonce([u8; 32]),
    /// An unknown permit: the transaction calls the proxy through another contract.
    Untold,
}

impl Binding {
    /// Returns the binding of an unbound transfer.
    #[must_use]
    pub const fn none() -> Self {
        Self { nonce: None, permit: None, call_data: None }
    }

    /// Binds the transfer to the permit that it was made from: it pays for that permit only.
    #[must_use]
    pub const fn with_permit(mut self, permit: ByPermit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// Returns the permit that the transfer was made from, if it was.
    #[must_use]
    pub const fn permit(&self) -> Option<ByPermit> {
        self.permit
    }

    /// Binds the transfer by the nonce of the EIP-3009 authorization that it was made from.
    #[must_use]
    pub const fn with_nonce(mut self, nonce: [u8; 32]) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Binds the transfer by every tag in its transaction's call data, if there is one.
    ///
    /// Only the payer's own transaction counts: what another account put into the call data, the payer did not sign.
    #[must_use]
    pub fn with_call_data(mut self, call_data: impl Into<Arc<[u8]>>) -> Self {
        self.call_data = Some(call_data.into()).filter(|call_data| call_data.get(4..).is_some_and(PaymentTag::any_in));
        self
    }

    /// Returns the nonce of the authorization that the transfer was made from, if it was.
    #[must_use]
    pub const fn nonce(&self) -> Option<&[u8; 32]> {
        self.nonce.as_ref()
    }

    /// Returns whether the transfer is bound to anything.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.nonce.is_some() || self.permit.is_some() || self.call_data.is_some()
    }

    /// Returns the call data, if it may contain a tag.
    pub(crate) const fn call_data(&self) -> Option<&Arc<[u8]>> {
        self.call_data.as_ref()
    }

    /// Returns whether this tag is in the transfer's call data.
    #[must_use]
    pub fn has_tag(&self, tag: &PaymentTag) -> bool {
        self.call_data.as_deref().is_some_and(|call_data| tag.is_in(call_data))
    }

    /// Returns whether the transfer was made from an authorization with this tag as its nonce.
    #[must_use]
    pub fn has_nonce(&self, tag: &PaymentTag) -> bool {
        self.nonce.as_ref() == Some(tag.as_bytes())
    }
}

/// Omits the nonce, as `Binding` does.
impl fmt::Debug for ByPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nonce(_) => "ByPermit",
            Self::Untold => "ByPermit(untold)",
        })
    }
}

/// Names the kinds of binding, without their content: call data may be long.
impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ways = f.debug_set();
        if self.nonce.is_some() {
            ways.entry(&ProvedBy::Nonce);
        }
        if let Some(permit) = &self.permit {
            ways.entry(permit);
        }
        if self.call_data.is_some() {
            ways.entry(&ProvedBy::Tag);
        }
        ways.finish()
    }
}

/// How a redemption proved that it comes from the payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProvedBy {
    /// No proof: the transfer is unbound, and this redemption came first.
    Nothing,
    /// By the secret of the tag in the call data of the payer's transaction.
    Tag,
    /// By the secret of the tag that is the nonce of the transfer's authorization.
    Nonce,
    /// By a signature of the payer.
    Signature,
    /// By the authorization itself, which only its payer had before it was settled. Once this merchant has settled
    /// it, by its intent.
    Authorization,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_data_without_a_tag_binds_nothing() {
        let tail = PaymentTag::of("an intent").to_call_data();
        let bound = |call_data: &[&[u8]]| Binding::none().with_call_data(call_data.concat()).is_bound();
        assert!(bound(&[&[0; 68], &tail]) && bound(&[&[0; 4], &tail]));
        for behind in [&[][..], b"x402", &tail[..35], &tail[4..]] {
            assert!(!bound(&[&[0; 68], behind]), "{behind:02x?}");
        }
        assert!(!bound(&[&tail]) && !bound(&[&[0; 3]]), "the selector is no place for one");
    }
}
