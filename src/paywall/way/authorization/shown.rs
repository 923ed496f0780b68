//! `Authorized`: a signed payment of the standard that matches an offer of this route.

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::Rejection,
        sale::{kept_answer::Shown, opened::Opened},
        seller::{chain::SellingChain, inner::MerchantInner, pricing::Cost},
        way::signed::{
            Untimely,
            showing::{ShownQuote, shown_by},
            timely,
        },
    },
    protocol::{
        IntentId, IntentTerms, PaymentId, TokenDomain,
        v2::{
            Authorization, PaymentOption, PaymentPayload, PaymentRequirements, Reason, ResourceInfo, SchemePayload,
            SignedAuthorization,
        },
    },
    settle::SignedPayment,
};

/// A payment that matches its offer. Its signature is unverified.
pub(crate) struct Authorized<'a> {
    pub(crate) opened: Opened<'a>,
    domain: &'a TokenDomain,
    id: PaymentId,
    pub(crate) quote: ShownQuote,
    /// Whether clock and window allow settling it now. It may have been settled before.
    pub(crate) timely: Result<(), Reason>,
}

impl<'a> Authorized<'a> {
    /// Compares a payment with the offer. `now` is the present price, if known.
    ///
    /// # Errors
    /// The standard's reason for what differs. No payment that this route ever settled is refused here, unless its quote was sealed with
    /// keys or for a recipient that the merchant no longer has.
    pub(crate) fn read(
        request: &'a PricedRequest,
        chain: &'a SellingChain,
        payload: &PaymentPayload,
        now: Option<Cost>,
    ) -> Result<Self, Reason> {
        let merchant = &*request.route.merchant;
        let (accepted, signed) = exact(payload)?;
        if accepted.network != chain.network {
            return Err(Reason::INVALID_NETWORK);
        }
        let domain = chain.standard.as_ref().and_then(|standard| standard.token(accepted.asset));
        let domain = domain.ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let id = signed.authorization.payment_id(chain.network, domain.token);
        let shown = accepted.intent().map_err(|_| Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let opened = match &shown {
            Some(intent) => Opened::open(&request.route, intent),
            None => unquoted(request, accepted, &id),
        };
        let opened =
            opened.filter(|opened| echoes(accepted, opened, domain)).ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        pays(&signed.authorization, &opened, merchant)?;
        let quoted = shown.is_some();
        // It pays the whole price, so the quote must offer that.
        let honoured = now.filter(|now| now.tariff.offers_fixed()).is_some_and(|now| match quoted {
            true => opened.honours(request, now.amount),
            // A former recipient may be paid under an open quote only.
            false => now.amount == opened.terms.amount && opened.recipient == merchant.recipient(),
        });
        let timely = may_be_settled(merchant, &opened, &signed.authorization);
        // Sealed at the present price: the signed amount may be lower.
        let fresh =
            now.filter(|_| !quoted).map(|now| request.new_intent(request.route.seals.of(opened.recipient), now.amount));
        let fresh = fresh.and_then(|intent| IntentId::new(intent).ok());
        let intent = shown.or_else(|| IntentId::new(id.to_string()).ok()).ok_or(Reason::INVALID_PAYLOAD)?;
        Ok(Self { opened, domain, id, quote: ShownQuote { intent, fresh, quoted, honoured }, timely })
    }

    /// Checks that it may be settled now, for this request.
    pub(crate) fn is_payable(&self) -> Result<(), Reason> {
        match self.quote.honoured {
            true => self.timely.clone(),
            false => Err(Reason::INVALID_PAYMENT_REQUIREMENTS),
        }
    }

    /// Returns the proof with which a client asks for a sold answer again.
    pub(crate) fn shown(&self) -> Shown {
        shown_by(self.id, self.quote.quoted)
    }

    /// Returns the payment for the settler, without anything that its payer added to the offer.
    ///
    /// # Errors
    /// The standard's reason if the payload is of another kind than the one that was [read](Self::read).
    pub(crate) fn payment(
        &self,
        request: &PricedRequest,
        payload: PaymentPayload,
    ) -> Result<Box<SignedPayment>, Reason> {
        let (PaymentOption::Exact(accepted), SchemePayload::Authorization(signed)) =
            (payload.accepted, payload.payload)
        else {
            return Err(Reason::INVALID_PAYLOAD);
        };
        let payment = SignedPayment::new(signed, accepted.into_offered(), self.domain.clone())
            .with_resource(ResourceInfo::new(request.url().text()))
            .with_extensions(request.route.bazaar(&request.parts.method));
        // Boxed: it is large, and moved with every future that holds it.
        Ok(Box::new(payment))
    }
}

/// Returns the signed authorization, and the offer that its payer accepted.
pub(crate) fn exact(payload: &PaymentPayload) -> Result<(&PaymentRequirements, &SignedAuthorization), Reason> {
    match (&payload.accepted, &payload.payload) {
        (PaymentOption::Exact(accepted), SchemePayload::Authorization(signed)) => Ok((accepted, signed)),
        (PaymentOption::Exact(_), _) => Err(Reason::INVALID_PAYLOAD),
        (PaymentOption::Other(other), _) if other.scheme() == "exact" => Err(Reason::INVALID_NETWORK),
        (PaymentOption::UpTo(_) | PaymentOption::Channel(_) | PaymentOption::Other(_), _) => {
            Err(Reason::UNSUPPORTED_SCHEME)
        }
    }
}

/// Returns the terms of a payment without a quote: those that it claims to have accepted. A new payment must match the [present
/// price](timely). A payment that was taken before is recognised at any price.
fn unquoted<'a>(request: &'a PricedRequest, accepted: &PaymentRequirements, id: &PaymentId) -> Option<Opened<'a>> {
    let (route, recipient) = (&request.route, accepted.pay_to);
    let known = route.merchant.recipients.contains(&recipient);
    let terms = IntentTerms { digest: None, ..request.intent_terms(route.seals.of(recipient), accepted.amount) };
    known.then(|| Opened::unquoted(route, terms, recipient, id))
}

/// Returns whether the accepted offer is the one for these terms. Its network and intent are already known to match.
fn echoes(accepted: &PaymentRequirements, opened: &Opened<'_>, domain: &TokenDomain) -> bool {
    (accepted.asset, accepted.amount, accepted.pay_to) == (domain.token, opened.terms.amount, opened.recipient)
        && accepted.names_domain(domain)
}

/// Checks that the authorization pays exactly these terms, and that its payer is not the seller.
fn pays(authorization: &Authorization, opened: &Opened<'_>, merchant: &MerchantInner) -> Result<(), Reason> {
    if authorization.to != opened.recipient {
        return Err(Reason::INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH);
    }
    if authorization.value != opened.terms.amount {
        return Err(Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH);
    }
    if authorization.from == crate::protocol::Address::ZERO || merchant.recipients.contains(&authorization.from) {
        return Err(Reason::INVALID_PAYLOAD);
    }
    Ok(())
}

/// Checks that the quote's time and the authorization's window allow settling it now.
fn may_be_settled(merchant: &MerchantInner, opened: &Opened<'_>, authorization: &Authorization) -> Result<(), Reason> {
    if merchant.clock.unix() > opened.pay_until().unix() {
        return Err(Reason::INVALID_PAYMENT_REQUIREMENTS);
    }
    timely(merchant, authorization.valid_after, authorization.valid_before).map_err(|untimely| match untimely {
        Untimely::Early => Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_AFTER,
        Untimely::Late => Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE,
    })
}

/// Returns the reply to a signed payment that is refused before any check. An answer that the payment bought takes precedence.
pub(super) async fn unless_sold(request: &PricedRequest, payload: &PaymentPayload, rejection: Rejection) -> Rejection {
    let Ok((accepted, signed)) = exact(payload) else { return rejection };
    let Ok(Some(intent)) = accepted.intent() else { return rejection };
    let Some(opened) = Opened::open(&request.route, &intent) else { return rejection };
    let shown = Shown::Authorization(signed.authorization.payment_id(accepted.network, accepted.asset));
    opened.unless_consumed(shown, rejection).await
}
