//! Requests for an authorization (EIP-3009), and its status.

use std::time::Duration;

use crate::{
    client::PurchaseId,
    protocol::{Address, Amount, ChainTime, Network, PaymentTag, TokenDomain, TxHash, v2::Authorization},
};

/// A request to sign one authorization, which the seller turns into a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// The purchase that is paid.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The token, and the domain of its authorizations, as [`Authorizer::authorizes`](super::Authorizer::authorizes)
    /// returned it.
    pub domain: TokenDomain,
    /// The account to pay.
    pub recipient: Address,
    /// The amount, in base units.
    pub amount: Amount,
    /// The nonce: the tag of a secret that only this client knows; in MPP, the hash of the seller's challenge.
    pub nonce: PaymentTag,
    /// The present time, by the layer's clock.
    pub now: ChainTime,
    /// How long the authorization should be valid: at most as long as the seller asks for.
    pub valid_for: Duration,
    /// The latest time at which it must end, if the seller names one.
    pub not_after: Option<ChainTime>,
}

impl AuthorizationRequest {
    /// Creates a request for an authorization that is valid for a minute, for the tests of a payer.
    #[must_use]
    pub fn new(
        purchase: PurchaseId,
        network: Network,
        domain: TokenDomain,
        recipient: Address,
        amount: Amount,
        now: ChainTime,
    ) -> Self {
        let nonce = PaymentTag::of(&purchase.to_string());
        Self {
            purchase,
            network,
            domain,
            recipient,
            amount,
            nonce,
            now,
            valid_for: Duration::from_secs(60),
            not_after: None,
        }
    }

    /// Returns the requested authorization for this payer. It is valid at once, and ends `valid_for` after the later of
    /// `now` and `chain_time`, so that a slow clock does not make it invalid, but never after `not_after`.
    #[must_use]
    pub fn authorization(&self, payer: Address, chain_time: Option<ChainTime>) -> Authorization {
        let now = self.now.max(chain_time.unwrap_or(self.now));
        let end = self.not_after.into_iter().chain([now.after(self.valid_for)]).min();
        Authorization::new(payer, *self.nonce.as_bytes())
            .paying(self.recipient, self.amount)
            .valid_between(ChainTime::from_unix(0), end.unwrap_or(now))
    }

    /// Returns whether an authorization meets the request. Of its times, only an end after `not_after` fails.
    pub(crate) fn is_met_by(&self, signed: &Authorization) -> bool {
        let ends_in_time = self.not_after.is_none_or(|latest| signed.valid_before <= latest);
        ends_in_time && (signed.to, signed.value, &signed.nonce) == (self.recipient, self.amount, self.nonce.as_bytes())
    }
}

/// The status of an authorization on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum AuthorizationStatus {
    /// It is not used, but may still be.
    Unused,
    /// It was used: the recipient has the money.
    Used {
        /// The transaction that used it, if found.
        transaction: Option<TxHash>,
    },
    /// It was not used, and never can be: it expired or was cancelled at a block that will not vanish. Return it only
    /// if that cannot change, because another authorization may be signed then.
    Void,
}
