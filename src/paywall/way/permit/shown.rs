//! `Permitted`: a permit that matches an offer of this route.

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::Rejection,
        sale::{kept_answer::Shown, opened::Opened},
        seller::{
            chain::SellingChain,
            inner::MerchantInner,
            permits::{Permits, Token},
            pricing::Cost,
        },
        way::signed::{
            Untimely,
            showing::{ShownQuote, shown_by},
            timely,
        },
    },
    protocol::{
        Address, Amount, Asset, IntentId, IntentTerms, Network, ParseError, PaymentId,
        permit2::{Permit, SignedPermit},
        v2::{
            PaymentOption, PaymentPayload, PaymentRequirements, Reason, ResourceInfo, SchemePayload, TransferMethod,
            UpToRequirements,
        },
    },
    settle::{PermitPayment, PermitRequirements},
};

/// A permit that matches its offer. Its signature is unverified.
pub(super) struct Permitted<'a> {
    pub(super) opened: Opened<'a>,
    pub(super) payment: PermitPayment,
    pub(super) quote: ShownQuote,
    id: PaymentId,
    /// Whether clock and window allow settling it now. It may have been settled before.
    timely: Result<(), Reason>,
}

/// The offer that the payer of a permit accepted.
#[derive(Clone, Copy)]
pub(super) enum Accepted<'p> {
    Exact(&'p PaymentRequirements),
    UpTo(&'p UpToRequirements),
}

impl<'p> Accepted<'p> {
    /// Returns the accepted offer of a payment that shows a permit, or claims to be made by one.
    pub(super) fn of(payload: &'p PaymentPayload) -> Option<Self> {
        match &payload.accepted {
            PaymentOption::UpTo(accepted) => Some(Self::UpTo(accepted)),
            PaymentOption::Exact(accepted) if accepted.transfer_method() == TransferMethod::Permit2 => {
                Some(Self::Exact(accepted))
            }
            _ => None,
        }
    }

    pub(super) const fn network(self) -> Network {
        match self {
            Self::Exact(accepted) => accepted.network,
            Self::UpTo(accepted) => accepted.network,
        }
    }

    const fn asset(self) -> Address {
        match self {
            Self::Exact(accepted) => accepted.asset,
            Self::UpTo(accepted) => accepted.asset,
        }
    }

    const fn amount(self) -> Amount {
        match self {
            Self::Exact(accepted) => accepted.amount,
            Self::UpTo(accepted) => accepted.amount,
        }
    }

    pub(super) const fn pay_to(self) -> Address {
        match self {
            Self::Exact(accepted) => accepted.pay_to,
            Self::UpTo(accepted) => accepted.pay_to,
        }
    }

    fn intent(self) -> Result<Option<IntentId>, ParseError> {
        match self {
            Self::Exact(accepted) => accepted.intent(),
            Self::UpTo(accepted) => accepted.intent(),
        }
    }

    /// Returns the offer that this echoes, of this token for these terms; `None` if it echoes none.
    fn echoed(self, token: &Token, opened: &Opened<'_>, intent: Option<&IntentId>) -> Option<PermitRequirements> {
        // Decimals and symbol are no part of requirements.
        let asset = Asset::new(self.network(), token.contract, 0, "");
        let (amount, pay_to) = (opened.terms.amount, opened.recipient);
        match self {
            Self::Exact(accepted) => {
                let offered = PaymentRequirements::new(&asset, amount, pay_to, accepted.max_timeout_seconds);
                let offered = intent.into_iter().fold(offered.by_permit2(), PaymentRequirements::with_intent);
                accepted.echoes(&offered).then(|| offered.into())
            }
            Self::UpTo(accepted) => {
                // An earlier quote may have named another facilitator: the settler decides.
                let facilitator = accepted.facilitator()?;
                let offered = UpToRequirements::new(&asset, amount, pay_to, accepted.max_timeout_seconds);
                let offered = offered.with_facilitator(facilitator);
                let offered = intent.into_iter().fold(offered, UpToRequirements::with_intent);
                accepted.echoes(&offered).then(|| offered.into())
            }
        }
    }
}

/// Returns the permit of a payment, and the offer that its payer accepted.
pub(super) fn permit(payload: &PaymentPayload) -> Result<(Accepted<'_>, &SignedPermit), Reason> {
    match (Accepted::of(payload), &payload.payload) {
        (Some(accepted), SchemePayload::Permit(signed)) => Ok((accepted, signed)),
        _ => Err(Reason::INVALID_PAYLOAD),
    }
}

impl<'a> Permitted<'a> {
    /// Compares a permit with the offer. `now` is the present price, if known.
    ///
    /// # Errors
    /// The standard's reason for what differs. No permit that this route ever settled is refused here, unless its quote was sealed with
    /// keys or for a recipient that the merchant no longer has, or its settler no longer settles.
    pub(super) fn read(
        request: &'a PricedRequest,
        chain: &SellingChain,
        permits: &Permits,
        payload: &PaymentPayload,
        now: Option<Cost>,
    ) -> Result<Self, Reason> {
        let merchant = &*request.route.merchant;
        let (accepted, signed) = permit(payload)?;
        if accepted.network() != chain.network {
            return Err(Reason::INVALID_NETWORK);
        }
        let token = permits.token(accepted.asset()).ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let id = signed.permit.payment_id(chain.network);
        let shown = accepted.intent().map_err(|_| Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let opened = match &shown {
            Some(intent) => Opened::open(&request.route, intent),
            None => unquoted(request, accepted, &id),
        };
        let opened = opened.ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let offered = accepted.echoed(token, &opened, shown.as_ref()).ok_or(Reason::INVALID_PAYMENT_REQUIREMENTS)?;
        let payment = PermitPayment::new(signed.clone(), offered);
        pays(&payment, merchant)?;
        let quoted = shown.is_some();
        let is_asked_for = |now: &Cost| match accepted {
            Accepted::UpTo(_) => now.tariff.is_metered(),
            Accepted::Exact(_) => now.tariff.offers_fixed(),
        };
        let honoured = now.filter(is_asked_for).is_some_and(|now| match quoted {
            true => opened.honours(request, now.amount),
            // A former recipient may be paid under an open quote only.
            false => now.amount == opened.terms.amount && opened.recipient == merchant.recipient(),
        });
        let timely = may_be_settled(merchant, &opened, &signed.permit);
        let sent = merchant.gas_sponsoring.then(|| payload.extensions.eip2612_permit());
        let allowance = sent.transpose().map_err(|_| Reason::INVALID_EIP2612_EXTENSION_FORMAT)?.flatten();
        let payment = payment
            .with_resource(ResourceInfo::new(request.url().text()))
            .with_extensions(request.route.bazaar(&request.parts.method))
            .with_allowance(allowance);
        // Sealed at the present price: the signed amount may be lower.
        let fresh =
            now.filter(|_| !quoted).map(|now| request.new_intent(request.route.seals.of(opened.recipient), now.amount));
        let fresh = fresh.and_then(|intent| IntentId::new(intent).ok());
        let intent = shown.or_else(|| IntentId::new(id.to_string()).ok()).ok_or(Reason::INVALID_PAYLOAD)?;
        Ok(Self { opened, payment, quote: ShownQuote { intent, fresh, quoted, honoured }, id, timely })
    }

    /// Checks that it may be settled now, for this request.
    pub(super) fn is_payable(&self) -> Result<(), Reason> {
        match self.quote.honoured {
            true => self.timely.clone(),
            false => Err(Reason::INVALID_PAYMENT_REQUIREMENTS),
        }
    }

    /// Returns the proof with which a client asks for a sold answer again.
    pub(super) const fn shown(&self) -> Shown {
        shown_by(self.id, self.quote.quoted)
    }
}

/// Returns the terms of a payment without a quote: those that it claims to have accepted. A new payment must match the present price. A
/// payment that was taken before is recognised at any price.
fn unquoted<'a>(request: &'a PricedRequest, accepted: Accepted<'_>, id: &PaymentId) -> Option<Opened<'a>> {
    let (route, recipient) = (&request.route, accepted.pay_to());
    let known = route.merchant.recipients.contains(&recipient);
    let terms = IntentTerms { digest: None, ..request.intent_terms(route.seals.of(recipient), accepted.amount()) };
    known.then(|| Opened::unquoted(route, terms, recipient, id))
}

/// Checks that the permit pays exactly the offer, and that its payer is not the seller. The settler decides who may send it.
fn pays(payment: &PermitPayment, merchant: &MerchantInner) -> Result<(), Reason> {
    let payer = payment.permit.permit.from;
    match payment.mismatch() {
        Some(reason) => Err(reason),
        None if payer == Address::ZERO || merchant.recipients.contains(&payer) => Err(Reason::INVALID_PAYLOAD),
        None => Ok(()),
    }
}

/// Checks that the quote's time and the permit's window allow settling it now.
fn may_be_settled(merchant: &MerchantInner, opened: &Opened<'_>, permit: &Permit) -> Result<(), Reason> {
    if merchant.clock.unix() > opened.pay_until().unix() {
        return Err(Reason::INVALID_PAYMENT_REQUIREMENTS);
    }
    timely(merchant, permit.valid_after, permit.deadline).map_err(|untimely| match untimely {
        Untimely::Early => Reason::PERMIT2_NOT_YET_VALID,
        Untimely::Late => Reason::PERMIT2_DEADLINE_EXPIRED,
    })
}

/// Returns the reply to a permit that is refused before any check. An answer that the permit bought takes precedence.
pub(super) async fn unless_sold(request: &PricedRequest, payload: &PaymentPayload, rejection: Rejection) -> Rejection {
    let Ok((accepted, signed)) = permit(payload) else { return rejection };
    let Ok(Some(intent)) = accepted.intent() else { return rejection };
    let Some(opened) = Opened::open(&request.route, &intent) else { return rejection };
    let shown = Shown::Authorization(signed.permit.payment_id(accepted.network()));
    opened.unless_consumed(shown, rejection).await
}
