//! Signs an authorization, and records it before a seller is shown it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    client::{
        AuthorizationRequest, Denial, Failure, JournalPayment, PayerError, PreparedAuthorization, PurchaseEvent,
        dialect::AuthorizationTerms,
        flow::{Progress, PurchaseGuard},
        inner::ClientInner,
        way::transfer::in_time,
    },
    protocol::{IntentId, PaymentTag, TokenDomain, v2::Authorization},
};

/// The context of signing an authorization.
pub(crate) struct Authorizing<'a> {
    pub(crate) inner: &'a ClientInner,
    pub(crate) progress: &'a Progress,
    /// The deadline of the signature.
    pub(crate) deadline: Instant,
    /// How long it should be valid.
    pub(crate) valid_for: Duration,
}

impl Authorizing<'_> {
    /// Signs for a purchase with reserved money, and records it. If another purchase of the same request was left
    /// meanwhile, returns that one instead.
    pub(crate) async fn sign(
        &self,
        mut guard: PurchaseGuard,
        terms: &AuthorizationTerms,
        domain: TokenDomain,
    ) -> Result<PurchaseGuard, Failure> {
        // Use a new secret, because others, such as facilitators, see the seller's intent. A challenge determines the
        // nonce.
        let (secret, nonce) = match terms.challenge() {
            Some((id, nonce)) => (id.to_owned(), PaymentTag::new(nonce)),
            None => {
                let secret = IntentId::random();
                (secret.as_str().to_owned(), PaymentTag::of(secret.as_str()))
            }
        };
        let (now, not_after) = (self.inner.now(), terms.not_after());
        // A human's approval may have taken long.
        if not_after.is_some_and(|end| end <= now) {
            return Err(Denial::Expired.into());
        }
        if terms.challenge().is_some_and(|(_, nonce)| !guard.take_challenge(nonce)) {
            return Err(Denial::IntentReused.into());
        }
        let request = AuthorizationRequest {
            purchase: guard.entry().id,
            network: terms.quote.network,
            domain,
            recipient: terms.quote.recipient,
            amount: terms.quote.amount,
            nonce,
            now,
            valid_for: self.valid_for,
            not_after,
        };
        let signing = in_time(self.deadline, "signing the payment", self.inner.authorizer()?.authorize(&request));
        let signed = signing.await?.map_err(Failure::Payer)?;
        let authorization = &signed.authorization;
        if !request.is_met_by(authorization) {
            return Err(PayerError::Refused("the payer signed something else than it was asked to").into());
        }
        let Authorization { from: payer, to: recipient, value: amount, valid_before, .. } = *authorization;
        if payer == request.recipient {
            return Err(Denial::NoSeller(payer).into());
        }
        // A human's signature may take long. An authorization that no seller was shown is dropped.
        if let Some(left) = self.inner.registry.left(&guard.entry().fingerprint)? {
            return Ok(left);
        }
        let message = terms.message(&signed, request.purchase);
        let authorized = PreparedAuthorization::new(request.network, request.domain.token, signed, message);
        let record = guard.record(|entry| {
            entry.payment = JournalPayment::Authorization { authorized, cancellations: Vec::new() };
            entry.secret = Some(secret);
            entry.expiry = valid_before;
        });
        if let Err(error) = record.await {
            guard.discard();
            return Err(Failure::Journal(error));
        }
        self.progress.report(PurchaseEvent::Authorized {
            payer,
            recipient,
            amount,
            decimals: terms.quote.decimals,
            valid_before,
        });
        Ok(guard)
    }
}
