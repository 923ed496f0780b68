//! By authorization: the payer signs, and the merchant's settler sends the transaction.

mod mpp;
mod reserved;
mod shown;
mod version_1;

use reserved::ReservedAuthorization;
use shown::{Authorized, exact, unless_sold};

use crate::{
    paywall::{
        dialect::{
            client_submitted::is_submitted,
            purchase::{Named, named_in_headers, named_in_payload},
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
            channel::is_of_channel,
            signed::{
                reserve::{Paying, reserve_signed},
                timeout,
                unmatched::Unmatched,
            },
            way_to_pay::WayToPay,
        },
    },
    protocol::{
        ChainTime, ProblemCode, Proof, SignedTransfer, Way,
        mpp::CredentialPayload,
        v2::{PaymentPayload, Reason, SchemePayload},
    },
};

/// Payments by a signed authorization.
pub(crate) struct ByAuthorization;

impl WayToPay for ByAuthorization {
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, tariff: Tariff) -> Vec<Way> {
        let Some(standard) = chain.standard.as_ref().filter(|_| tariff.offers_fixed()) else { return Vec::new() };
        let Some(tokens) = standard.tokens() else {
            standard.learn_later();
            return Vec::new();
        };
        let timeout = timeout(merchant);
        tokens.iter().map(|token| Way::authorization(chain.network, token, timeout)).collect()
    }

    fn recognises(&self, proof: &Proof) -> bool {
        match proof {
            Proof::Payment(payment) => !is_submitted(payment) && !is_of_channel(payment),
            Proof::PaymentV1(_) => true,
            Proof::Mpp(credential) => matches!(credential.payload, CredentialPayload::Authorization(_)),
            _ => false,
        }
    }

    async fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> Result<Purchase, Rejection> {
        match proof {
            // Boxed, so that the other ways do not carry its state.
            Proof::Payment(payment) => {
                let purchase = named_in_payload(&request.route, &payment);
                Box::pin(accept(request, payment, purchase, price)).await
            }
            Proof::PaymentV1(payment) => {
                Box::pin(async {
                    let merchant = &request.route.merchant;
                    let payment = version_1::read(merchant, *payment, timeout(merchant)).await?;
                    // Version 1 has no field for the name of a purchase.
                    accept(request, Box::new(payment), Ok(None), price).await
                })
                .await
            }
            Proof::Mpp(credential) => {
                Box::pin(async {
                    let CredentialPayload::Authorization(signed) = &credential.payload else {
                        return Err(ProblemCode::InvalidRedemption.into());
                    };
                    let payment = mpp::read(request, &credential, signed, timeout(&request.route.merchant)).await?;
                    let purchase = named_in_headers(&request.route, &request.parts.headers);
                    accept(request, Box::new(payment), purchase, price).await
                })
                .await
            }
            _ => Err(ProblemCode::InvalidRedemption.into()),
        }
    }
}

/// Reserves a signed payment, and checks that it can be settled.
async fn accept(
    request: &PricedRequest,
    // Boxed: futures that hold it are moved.
    payload: Box<PaymentPayload>,
    purchase: Named,
    price: Result<Cost, Rejection>,
) -> Result<Purchase, Rejection> {
    let purchase = match purchase {
        Ok(purchase) => purchase,
        Err(problem) => return Err(Box::pin(unless_sold(request, &payload, problem.into())).await),
    };
    let merchant = &request.route.merchant;
    let named = exact(&payload).ok().and_then(|(accepted, _)| merchant.on(accepted.network));
    // A payment that is on another network, or cannot be read, is refused on behalf of any chain that takes signed payments.
    let takes_signed = || merchant.chains.iter().find(|chain| chain.standard.is_some());
    let chain = named.or_else(takes_signed).unwrap_or(merchant.first());
    let Some(standard) = &chain.standard else { return Err(Problem::takes_transfers_only().into()) };
    if let Err(error) = chain.ready_for(standard).await {
        return Err(Box::pin(unless_sold(request, &payload, Problem::from(error).into())).await);
    }
    let authorized = Authorized::read(request, chain, &payload, price.as_ref().ok().copied());
    let (authorized, now) = match (authorized, price) {
        (Ok(authorized), Ok(now)) => (authorized, now),
        (Ok(authorized), Err(unpriced)) => {
            let shown = authorized.shown();
            return Err(Box::pin(authorized.opened.unless_consumed(shown, unpriced)).await);
        }
        (Err(_), Err(unpriced)) => return Err(unpriced),
        (Err(reason), Ok(now)) => return Err(Box::pin(unmatched(request, &payload, now, reason)).await),
    };
    let (shown, payable) = (authorized.shown(), authorized.is_payable());
    let payment = match authorized.payment(request, *payload) {
        Ok(payment) => payment,
        Err(reason) => return Err(request.requote(now).refuse(reason, chain.network, None)),
    };
    let Authorized { opened, quote, .. } = authorized;
    let reserved = |opened: &Opened<'_>, request, head| {
        ReservedAuthorization::new(chain, standard, opened, (payment, quote), request, head)
    };
    reserve_signed(request, chain, Paying { opened, shown, payable, purchase, reserved }, now).await
}

/// Returns the reply to a payment that matches no offer: a new quote, unless it was used.
async fn unmatched(request: &PricedRequest, payload: &PaymentPayload, now: Cost, reason: Reason) -> Rejection {
    let merchant = &request.route.merchant;
    let payer = match &payload.payload {
        SchemePayload::Authorization(signed) => Some(signed.authorization.from),
        _ => None,
    };
    let named = exact(payload);
    let network = named.as_ref().map_or(merchant.first().network, |(accepted, _)| accepted.network);
    let refused = |reason| request.requote(now).refuse(reason, network, payer);
    let Ok((accepted, signed)) = named else { return refused(reason) };
    let Some(chain) = merchant.on(network).filter(|chain| chain.accepts(accepted.asset)) else {
        return refused(reason);
    };
    let authorization = &signed.authorization;
    let since = ChainTime::from_unix(merchant.clock.unix().saturating_sub(merchant.quote_ttl.as_secs()));
    let signatures = chain.reader().and_then(|reader| reader.signatures());
    let state = signatures
        .map(|signatures| signatures.nonce_state(accepted.asset, authorization.from, &authorization.nonce, since));
    let (payer, until) = (authorization.from, authorization.valid_before);
    let unmatched = Unmatched { chain, payer, pay_to: accepted.pay_to, until, reason };
    let shown = |now| SignedTransfer::of(network, accepted.asset, authorization, now).into();
    unmatched.refuse(request, now, state, shown).await
}
