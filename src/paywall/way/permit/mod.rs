//! By permit: the payer signs for Permit2, and the merchant's settler sends the transaction through the standard's proxies. By `upto`, the
//! handler sets the charge. By `exact`, tokens without EIP-3009 are paid.

mod reserved;
mod shown;

use std::sync::Arc;

use reserved::ReservedPermit;
use shown::{Accepted, Permitted, permit, unless_sold};

use crate::{
    paywall::{
        dialect::{
            client_submitted::is_submitted,
            purchase::{Named, named_in_payload},
        },
        priced_request::PricedRequest,
        refusal::{Problem, Rejection},
        sale::{deliver::Purchase, opened::Opened},
        seller::{
            chain::SellingChain,
            inner::MerchantInner,
            pricing::{Cost, Tariff},
        },
        way::{
            signed::{
                reserve::{Paying, reserve_signed},
                timeout,
                unmatched::Unmatched,
            },
            way_to_pay::WayToPay,
        },
    },
    protocol::{
        ChainTime, Payment, ProblemCode, Proof, SignedTransfer, Way,
        v2::{PaymentPayload, Reason, SchemePayload},
    },
};

/// Payments by a signed permit.
pub(crate) struct ByPermit;

impl WayToPay for ByPermit {
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, tariff: Tariff) -> Vec<Way> {
        let Some(permits) = &chain.permits else { return Vec::new() };
        let Some(tokens) = permits.tokens() else {
            permits.learn_later();
            return Vec::new();
        };
        let timeout = timeout(merchant);
        let mut ways = Vec::new();
        for token in tokens {
            let domain = token.domain.as_ref().map(|(name, version)| (&**name, &**version));
            if let (true, Some(facilitator)) = (tariff.is_metered(), token.facilitator) {
                ways.push(Way::up_to(chain.network, token.contract, timeout, facilitator, domain));
            }
            // A token with authorizations is paid by those: more clients support them.
            let is_authorized =
                chain.standard.as_ref().is_some_and(|standard| standard.has_or_may_have(token.contract));
            if tariff.offers_fixed() && token.exact && !is_authorized {
                ways.push(Way::permit(chain.network, token.contract, timeout, domain));
            }
        }
        ways
    }

    fn recognises(&self, proof: &Proof) -> bool {
        let Proof::Payment(payment) = proof else { return false };
        !is_submitted(payment)
            && (matches!(payment.payload, SchemePayload::Permit(_)) || Accepted::of(payment).is_some())
    }

    async fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> Result<Purchase, Rejection> {
        let Proof::Payment(payment) = proof else { return Err(ProblemCode::InvalidRedemption.into()) };
        let purchase = named_in_payload(&request.route, &payment);
        // Boxed, so that the other ways do not carry its state.
        Box::pin(accept(request, &payment, purchase, price)).await
    }
}

/// Reserves a permit, and checks that it can be settled.
async fn accept(
    request: &PricedRequest,
    payload: &PaymentPayload,
    purchase: Named,
    price: Result<Cost, Rejection>,
) -> Result<Purchase, Rejection> {
    let purchase = match purchase {
        Ok(purchase) => purchase,
        Err(problem) => return Err(unless_sold(request, payload, problem.into()).await),
    };
    let merchant = &request.route.merchant;
    let named = permit(payload).ok().and_then(|(accepted, _)| merchant.on(accepted.network()));
    // A payment that is on another network, or cannot be read, is refused on behalf of any chain that takes permits.
    let takes_permits = || merchant.chains.iter().find(|chain| chain.permits.is_some());
    let chain: &Arc<SellingChain> = named.or_else(takes_permits).unwrap_or(merchant.first());
    let Some(permits) = &chain.permits else { return Err(Problem::takes_no_permits().into()) };
    if let Err(error) = chain.ready_for_permits(permits).await {
        return Err(unless_sold(request, payload, Problem::from(error).into()).await);
    }
    let permitted = Permitted::read(request, chain, permits, payload, price.as_ref().ok().copied());
    let (permitted, now) = match (permitted, price) {
        (Ok(permitted), Ok(now)) => (permitted, now),
        (Ok(permitted), Err(unpriced)) => {
            let shown = permitted.shown();
            return Err(permitted.opened.unless_consumed(shown, unpriced).await);
        }
        (Err(_), Err(unpriced)) => return Err(unpriced),
        (Err(reason), Ok(now)) => return Err(unmatched(request, payload, now, reason).await),
    };
    let (shown, payable) = (permitted.shown(), permitted.is_payable());
    let Permitted { opened, payment, quote, .. } = permitted;
    let reserved = |opened: &Opened<'_>, request, head| {
        ReservedPermit::new(chain, permits, opened, (payment, quote), request, head)
    };
    reserve_signed(request, chain, Paying { opened, shown, payable, purchase, reserved }, now).await
}

/// Returns the reply to a permit that matches no offer: a new quote, unless it is used.
async fn unmatched(request: &PricedRequest, payload: &PaymentPayload, now: Cost, reason: Reason) -> Rejection {
    let merchant = &request.route.merchant;
    let Ok((accepted, signed)) = permit(payload) else {
        return request.requote(now).refuse(reason, merchant.first().network, None);
    };
    let (network, payer) = (accepted.network(), signed.permit.from);
    let Some(chain) = merchant.on(network) else {
        return request.requote(now).refuse(reason, network, Some(payer));
    };
    let since = ChainTime::from_unix(merchant.clock.unix().saturating_sub(merchant.quote_ttl.as_secs()));
    let signatures = chain.reader().and_then(|reader| reader.signatures());
    let state = signatures.map(|signatures| signatures.permit_state(&signed.permit, since));
    let until = ChainTime::from_unix(signed.permit.deadline.unix().saturating_add(1));
    let unmatched = Unmatched { chain, payer, pay_to: accepted.pay_to(), until, reason };
    let shown = |now| Payment::Permit(SignedTransfer::of_permit(network, &signed.permit, now));
    unmatched.refuse(request, now, state, shown).await
}
