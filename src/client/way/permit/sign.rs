//! Signs a permit, and records it before a seller is shown it.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    client::{
        Denial, Failure, JournalPayment, PayerError, PermitRequest, PreparedPermit, PurchaseEvent,
        dialect::PermitTerms,
        flow::{Progress, PurchaseGuard},
        inner::ClientInner,
        way::transfer::in_time,
    },
    protocol::permit2::Permit,
};

/// The context of signing a permit.
pub(crate) struct Permitting<'a> {
    pub(crate) inner: &'a ClientInner,
    pub(crate) progress: &'a Progress,
    /// The deadline of the signature.
    pub(crate) deadline: Instant,
    /// How long it should be valid.
    pub(crate) valid_for: Duration,
}

impl Permitting<'_> {
    /// Signs for a purchase with reserved money, and records it. If another purchase of the same request was left
    /// meanwhile, returns that one instead.
    pub(crate) async fn sign(&self, mut guard: PurchaseGuard, terms: &PermitTerms) -> Result<PurchaseGuard, Failure> {
        let request = self.request(&guard, terms)?;
        let signing = in_time(self.deadline, "signing the payment", self.inner.permit_signer()?.permit(&request));
        let signed = signing.await?.map_err(Failure::Payer)?;
        if !request.is_met_by(&signed.permit) {
            return Err(PayerError::Refused("the payer signed something else than it was asked to").into());
        }
        let Permit { from: payer, to: recipient, amount, .. } = signed.permit;
        if payer == recipient {
            return Err(Denial::NoSeller(payer).into());
        }
        // A human's signature may take long. A permit that no seller was shown is dropped.
        if let Some(left) = self.inner.registry.left(&guard.entry().fingerprint)? {
            return Ok(left);
        }
        let message = terms.message(&signed, request.purchase);
        let permitted = PreparedPermit::new(request.network, signed, message);
        let valid_before = permitted.valid_before();
        let record = guard.record(|entry| {
            entry.payment = JournalPayment::Permit(permitted);
            entry.expiry = valid_before;
        });
        if let Err(error) = record.await {
            guard.discard();
            return Err(Failure::Journal(error));
        }
        let decimals = terms.quote.decimals;
        self.progress.report(PurchaseEvent::Authorized { payer, recipient, amount, decimals, valid_before });
        Ok(guard)
    }

    fn request(&self, guard: &PurchaseGuard, terms: &PermitTerms) -> Result<PermitRequest, Failure> {
        let (quote, now) = (&terms.quote, self.inner.now());
        let token = *quote.contracts.first().ok_or(Denial::Asset)?;
        let request = PermitRequest::new(guard.entry().id, quote.network, token, quote.recipient, quote.amount, now);
        let request = PermitRequest { valid_for: self.valid_for, ..request };
        Ok(terms.facilitator().into_iter().fold(request, PermitRequest::up_to))
    }
}
