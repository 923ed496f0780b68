//! By script: a way to pay for tests only. It shows what a new way takes: this folder, and a line in the list.
//!
//! A payment is `{"script": "settle", "id": 7}`; the script names the result of the payment.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    ledger::Settling,
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection, Requote},
        sale::{
            deliver::Purchase,
            kept_answer::Shown,
            opened::Opened,
            reservation::Records,
            settle::{Outcome, Settled, Unsettled},
        },
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            inner::MerchantInner,
            pricing::{Cost, Tariff},
        },
        way::way_to_pay::WayToPay,
    },
    protocol::{
        Address, Amount, ChainTime, ProblemCode, Proof, Receipt, SignedTransfer, TxHash, Way,
        v2::{PaymentPayload, Reason, SchemePayload, SettleResponse},
    },
};

#[cfg(test)]
mod tests;

const PAYER: Address = Address::new([0x77; 20]);

/// Payments by a script.
pub(super) struct ByScript;

impl WayToPay for ByScript {
    fn offers(&self, merchant: &MerchantInner, chain: &SellingChain, _: Tariff) -> Vec<Way> {
        let takes = merchant.contact.as_deref() == Some("takes scripts");
        let token = chain.assets.first().filter(|_| takes);
        token.map(|token| Way::by_method(chain.network, token.contract(), 60, "script")).into_iter().collect()
    }

    fn recognises(&self, proof: &Proof) -> bool {
        matches!(proof, Proof::Payment(payment) if script(payment).is_some())
    }

    async fn reserve(
        &self,
        request: &PricedRequest,
        proof: Proof,
        price: Result<Cost, Rejection>,
    ) -> Result<Purchase, Rejection> {
        let Proof::Payment(payment) = proof else { return Err(ProblemCode::InvalidRedemption.into()) };
        reserve(request, &payment, price?).await
    }
}

/// Returns a payment's script, and its number.
fn script(payment: &PaymentPayload) -> Option<(String, u8)> {
    let SchemePayload::Other(json) = &payment.payload else { return None };
    let id = json.get("id")?.as_u64()?;
    Some((json.text("script")?.to_owned(), u8::try_from(id).ok()?))
}

async fn reserve(request: &PricedRequest, payment: &PaymentPayload, price: Cost) -> Result<Purchase, Rejection> {
    let invalid = || Rejection::from(ProblemCode::InvalidRedemption);
    let (script, id) = script(payment).ok_or_else(invalid)?;
    let accepted = payment.accepted.exact().ok_or_else(invalid)?;
    let intent = accepted.intent().ok().flatten().ok_or_else(invalid)?;
    let opened = Opened::open(&request.route, &intent).filter(|opened| opened.honours(request, price.amount));
    let opened = opened.ok_or_else(invalid)?;
    let chain = request.route.merchant.on(accepted.network).ok_or_else(invalid)?;
    let head = chain.view.head().await.map_err(|_| invalid())?;
    let payment = SignedTransfer::new(accepted.network, accepted.asset, PAYER, [id; 32])
        .with_recipient(opened.recipient)
        .with_amount(accepted.amount)
        .with_shown(ChainTime::from_unix(head.unix() + 1));
    let shown = Shown::Authorization(payment.payment_id());
    let guard = match opened.grant(opened.claim(head).payments([payment.clone()]), |_| Claimed::ByPayer).await {
        Ok(guard) => guard,
        Err(problem) => return Err(opened.refused(shown, problem).await),
    };
    let receipt = Receipt::of(Arc::clone(&request.route.resource), intent, Arc::clone(guard.shared_payment()));
    let record = Settling::new(opened.digest(request), head);
    let scripted = Scripted { script, payment, shown, record, requote: request.requote(price) };
    Ok(Purchase { guard, receipt, unsettled: Some(Box::new(scripted)), cost: price, made: None })
}

/// A reserved payment by script.
struct Scripted {
    script: String,
    payment: SignedTransfer,
    shown: Shown,
    record: Settling,
    requote: Requote,
}

impl Unsettled for Scripted {
    fn record(&self) -> Settling {
        self.record
    }

    fn is_metered(&self) -> bool {
        false
    }

    fn settle<'a>(&'a self, _: Amount, _: &'a Records) -> Pin<Box<dyn Future<Output = Settled> + Send + 'a>> {
        Box::pin(async {
            match self.script.as_str() {
                "settle" => Settled::Done(self.payment.clone().with_transaction(TxHash::new([0xcd; 32])).into()),
                "refuse" => Settled::Refused(Reason::INSUFFICIENT_FUNDS),
                _ => Settled::Unknown(None),
            }
        })
    }

    fn conclude(&self, settled: Settled, _begun: Option<&Settling>) -> Outcome {
        match settled {
            Settled::Done(paid) | Settled::Named(paid) => Outcome::Sell(paid),
            Settled::Refused(reason) => {
                Outcome::Refuse(self.requote.clone().refuse(reason, self.payment.network, Some(PAYER)))
            }
            Settled::Spent | Settled::Unknown(_) => Outcome::Unknown(self.outcome_unknown(None)),
        }
    }

    fn outcome_unknown(&self, _: Option<TxHash>) -> Problem {
        Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
    }

    fn made(&self, transaction: TxHash) -> SettleResponse {
        SettleResponse::pending(Some(transaction), self.payment.network)
    }

    fn shown(&self) -> Shown {
        self.shown
    }
}
