//! By transfer: the payer sends the tokens and shows the transaction.

mod claimant;
mod shown;

use std::{future::Future, sync::Arc};

use shown::ShownTransfer;

use crate::{
    paywall::{
        dialect::{
            client_submitted::{Presented, is_submitted},
            mpp,
            purchase::{named_in_headers, named_in_payload},
        },
        priced_request::PricedRequest,
        refusal::{Problem, Rejection},
        sale::{deliver::Purchase, kept_answer::Shown, opened::Opened},
        seller::{
            chain::SellingChain,
            inner::MerchantInner,
            pricing::{Cost, Tariff},
        },
        way::{echo, way_to_pay::WayToPay},
    },
    protocol::{Asset, ProblemCode, Proof, Receipt, Redemption, Way},
};

/// Payments by a mined transfer.
pub(crate) struct ByTransfer;

impl WayToPay for ByTransfer {
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, tariff: Tariff) -> Vec<Way> {
        if !merchant.client_submitted || !tariff.offers_fixed() {
            return Vec::new();
        }
        let (life, max_age) = (merchant.quote_ttl.as_secs(), merchant.max_payment_age.as_secs());
        let tokens = chain.assets.iter().map(Asset::contract);
        tokens.map(|token| Way::submitted_transfer(chain.network, token, life, max_age)).collect()
    }

    fn recognises(&self, proof: &Proof) -> bool {
        match proof {
            Proof::Payment(payment) => is_submitted(payment),
            Proof::PaymentV1(_) => false,
            Proof::Mpp(credential) => mpp::redemption(credential).is_some(),
            Proof::Redemption(_) | Proof::IntentOnly(_) | Proof::TransactionOnly(_) => true,
        }
    }

    async fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> Result<Purchase, Rejection> {
        match presented(request, proof)? {
            Shows::Redemption(presented) => redeem(request, presented, price).await,
            Shows::IntentOnly => price.and(Err(ProblemCode::TxRequired.into())),
            Shows::TransactionOnly => Err(without_intent(request, price)),
        }
    }
}

/// What a proof shows about a transfer.
enum Shows {
    Redemption(Presented),
    IntentOnly,
    TransactionOnly,
}

#[expect(clippy::result_large_err, reason = "it is as large as what it is made of, and is moved on at once")]
fn presented(request: &PricedRequest, proof: Proof) -> Result<Shows, Rejection> {
    let redemption = match proof {
        Proof::Redemption(redemption) => Some(redemption.into()),
        Proof::Payment(payment) => {
            let presented = Presented::read(&request.route.merchant, &payment)?;
            let purchase = named_in_payload(&request.route, &payment);
            presented.map(|presented| presented.named(purchase))
        }
        Proof::Mpp(credential) => {
            echo::asked(&request.route, &credential)?;
            let purchase = named_in_headers(&request.route, &request.parts.headers);
            mpp::redemption(&credential).map(|redemption| Presented::from(redemption).named(purchase))
        }
        Proof::PaymentV1(_) => return Err(ProblemCode::InvalidRedemption.into()),
        Proof::TransactionOnly(_) => None,
        Proof::IntentOnly(_) => return Ok(Shows::IntentOnly),
    };
    Ok(redemption.map_or(Shows::TransactionOnly, Shows::Redemption))
}

/// Returns the reply to a transaction that is shown without an intent.
fn without_intent(request: &PricedRequest, price: Result<Cost, Rejection>) -> Rejection {
    let seal = request.route.seals.current();
    match price {
        Ok(cost) => request.with_new_intent(ProblemCode::IntentRequired, seal, cost.amount).into(),
        Err(rejection) => rejection,
    }
}

/// Reserves a payment for this intent, in the transaction that is shown. The amount sent counts in full, even if the handler sets the
/// charge and transfers are not offered: it is paid already.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps each argument twice, and is moved with both")]
fn redeem(
    request: &PricedRequest,
    mut presented: Presented,
    price: Result<Cost, Rejection>,
) -> impl Future<Output = Result<Purchase, Rejection>> {
    async move {
        let purchase = std::mem::replace(&mut presented.purchase, Ok(None));
        let redemption = &presented.redemption;
        let Some(chain) = chain_of(&request.route.merchant, &presented) else {
            // Boxed, like everything that a successful redemption does not need.
            return Err(Box::pin(unless_consumed(request, redemption, Problem::unknown_network().into())).await);
        };
        let Some(verifier) = chain.reader() else { return Err(Problem::takes_signed_only().into()) };
        let Some(opened) = Opened::open(&request.route, &redemption.intent) else {
            let seal = request.route.seals.current();
            return Err(request.with_new_intent(ProblemCode::IntentNotFound, seal, price?.amount).into());
        };
        let shown = Shown::Transaction(redemption.transaction);
        let purchase = match purchase {
            Ok(purchase) => purchase,
            Err(problem) => return Err(Box::pin(opened.unless_consumed(shown, problem.into())).await),
        };
        let transfer = ShownTransfer { opened: &opened, chain, verifier: &**verifier, presented: &presented, purchase };
        let claimable = match price {
            Ok(cost) => transfer.claimable(request, cost.amount).await.map(|claimable| (claimable, cost)),
            Err(rejection) => Err(rejection),
        };
        let ((claimable, head), cost) = match claimable {
            Ok(claimable) => claimable,
            Err(rejection) => return Err(Box::pin(opened.unless_consumed(shown, rejection)).await),
        };
        let (guard, proved_by) = match transfer.reserve(claimable, head).await {
            Ok(reserved) => reserved,
            Err(problem) => return Err(Box::pin(opened.refused(shown, problem)).await),
        };
        let intent = presented.redemption.intent;
        let receipt = Receipt::of(Arc::clone(&request.route.resource), intent, Arc::clone(guard.shared_payment()));
        Ok(Purchase { guard, receipt: receipt.with_proof(proved_by), unsettled: None, cost, made: None })
    }
}

/// Returns the network that a redemption names, or the first one if it names none.
fn chain_of<'m>(merchant: &'m MerchantInner, presented: &Presented) -> Option<&'m SellingChain> {
    let first = &**merchant.first();
    let Some(network) = presented.redemption.network else { return Some(first) };
    // In the standard's header, the accepted offer is later compared with what is offered, and refused because it differs.
    merchant.on(network).map(|chain| &**chain).or_else(|| presented.is_for_bound_only().then_some(first))
}

/// Returns the reply to a redemption that is refused before its intent is opened.
pub(crate) async fn unless_consumed(
    request: &PricedRequest,
    redemption: &Redemption,
    rejection: Rejection,
) -> Rejection {
    match Opened::open(&request.route, &redemption.intent) {
        Some(opened) => opened.unless_consumed(Shown::Transaction(redemption.transaction), rejection).await,
        None => rejection,
    }
}
