//! A permit against its offer, and a permit for which a transaction was sent before: charged for what was offered, never for another permit,
//! and never twice.

use std::sync::{Arc, Mutex};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use axum::body::Body;
use http::{Request, Response};
use tower_x402::{
    Charge, RequestBody, X402,
    protocol::{
        Address, Amount, Binding, ByPermit, ChainTime, Network, PaymentSignature, Transfer, TxHash,
        headers::PAYMENT_SIGNATURE,
        permit2::{PERMIT2, Permit, PermitScheme, SignedPermit},
        v2::{PaymentOption, PaymentPayload, Reason, UpToRequirements},
    },
    settle::{
        FacilitatorSettler, PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, TransactionRecorder,
        Validity,
    },
    testing::{ScriptedSettler, Settling},
    verify::Verdict,
};

use super::{NONCE, Stall, required, settled, units};
use crate::support::{
    Answer, Counter, Handler, NOW, Shop, answering, ask, assert_problem, echo, layered, post, recipient,
};

const MAXIMUM: u128 = 100_000;
/// How long a permit must be valid still.
const LAST_MOMENT: u64 = 6;
/// How long it may be valid at most.
const DAY: u64 = 24 * 60 * 60;
/// What was sent for a permit before.
const EARLIER: TxHash = TxHash::new([0xee; 32]);

fn key() -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap()
}

fn buyer() -> Address {
    Address::new(key().address().into_array())
}

/// A scripted settler that takes what its payer's key signed for its own account, and records [`EARLIER`] before it settles, where it is told to.
#[derive(Clone)]
struct Strict {
    scripted: ScriptedSettler,
    keys: FacilitatorSettler,
    records: Arc<Mutex<bool>>,
}

impl PermitSettler for Strict {
    async fn permit_terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        self.scripted.permit_terms(network, token, scheme).await
    }

    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        let terms = self.permit_terms(Network::BASE, PERMIT2, PermitScheme::UpTo).await?.unwrap();
        let refused = |reason| Ok(Validity::Refused(reason));
        match payment.permit.permit.facilitator {
            Some(facilitator) if !terms.facilitators().contains(&facilitator) => {
                refused(Reason::UPTO_FACILITATOR_MISMATCH)
            }
            _ if !self.is_permit_signed_by_key(payment) => refused(Reason::INVALID_PERMIT2_SIGNATURE),
            _ => self.scripted.verify_permit(payment).await,
        }
    }

    fn is_permit_signed_by_key(&self, payment: &PermitPayment) -> bool {
        self.keys.is_permit_signed_by_key(payment)
    }

    async fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        let records = *self.records.lock().unwrap();
        assert!(!records || recorder.record(EARLIER).await, "it is recorded");
        self.scripted.settle_permit(payment, charge, recorder).await
    }
}

/// A seller with such a settler, whose handler says of its charge what the test says.
struct Metered<S> {
    stall: Stall,
    settler: Strict,
    service: X402<S>,
    runs: Counter,
    says: Arc<Mutex<Option<u128>>>,
}

async fn open() -> Metered<impl Handler> {
    let mut settler = None;
    let shop = Shop::open_on(|builder, chain| {
        let strict = Strict {
            scripted: ScriptedSettler::new(chain.clone()),
            keys: FacilitatorSettler::builder().url("http://127.0.0.1:9").build().unwrap(),
            records: Arc::default(),
        };
        settler = Some(strict.clone());
        builder.permit_settler(strict)
    });
    let (shop, settler) = (shop.await, settler.unwrap());
    let (runs, says) = (Counter::default(), Arc::new(Mutex::new(Some(5))));
    let said = Arc::clone(&says);
    let handler = answering(runs.clone(), move |_: &Request<RequestBody<Body>>| {
        let mut answer = Response::new(Body::from("an answer"));
        if let Some(charge) = *said.lock().unwrap() {
            answer.extensions_mut().insert(Charge(units(charge)));
        }
        answer
    });
    let service = layered(&shop.merchant.charge_up_to("words", "0.10 USDC").unwrap(), handler);
    let stall = Stall { shop, settler: settler.scripted.clone() };
    Metered { stall, settler, service, runs, says }
}

impl<S: Handler> Metered<S> {
    async fn offered(&self) -> UpToRequirements {
        match &required(&ask(&self.service, post(r#"{"query":"why"}"#)).await).accepts[0] {
            PaymentOption::UpTo(offer) => offer.clone(),
            other => panic!("{other:?}"),
        }
    }

    async fn show(&self, offer: &UpToRequirements, signed: &SignedPermit) -> Answer {
        let mut request = post(r#"{"query":"why"}"#);
        let payment = PaymentPayload::new(offer.clone(), signed.clone());
        request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
        ask(&self.service, request).await
    }

    fn says(&self, charge: Option<u128>) {
        *self.says.lock().unwrap() = charge;
    }
}

/// What an honest client signs.
fn permit(offer: &UpToRequirements) -> Permit {
    Permit::new(PermitScheme::UpTo, buyer(), NONCE)
        .paying(offer.pay_to, offer.asset, offer.amount)
        .by_facilitator(offer.facilitator().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300))
}

fn sign(permit: Permit) -> SignedPermit {
    let signature = key().sign_hash_sync(&B256::new(permit.digest(Network::BASE))).unwrap();
    SignedPermit::new(permit, PaymentSignature::new(signature.as_bytes()).unwrap())
}

/// One that differs from this by one.
fn next(address: Address) -> Address {
    let mut bytes = *address.as_bytes();
    bytes[19] ^= 1;
    Address::new(bytes)
}

/// The payer signs for something else than it was offered: each field by one.
#[tokio::test(start_paused = true)]
async fn a_permit_for_anything_but_its_offer_is_refused_and_charges_nothing() {
    type Change = fn(&mut Permit);
    let table: [(&str, Change, &str); 14] = [
        ("spender", |permit| permit.spender = next(permit.spender), "invalid_permit2_spender"),
        ("the other proxy", |permit| permit.spender = PermitScheme::Exact.proxy(), "invalid_permit2_spender"),
        ("recipient", |permit| permit.to = next(permit.to), "invalid_permit2_recipient_mismatch"),
        ("facilitator", |permit| permit.facilitator = permit.facilitator.map(next), "upto_facilitator_mismatch"),
        ("less", |permit| permit.amount = units(MAXIMUM - 1), "permit2_amount_mismatch"),
        ("more", |permit| permit.amount = units(MAXIMUM + 1), "permit2_amount_mismatch"),
        ("token", |permit| permit.token = next(permit.token), "permit2_token_mismatch"),
        (
            "too late",
            |permit| permit.deadline = ChainTime::from_unix(NOW + LAST_MOMENT - 1),
            "permit2_deadline_expired",
        ),
        ("for too long", |permit| permit.deadline = ChainTime::from_unix(NOW + DAY + 1), "permit2_deadline_expired"),
        ("too early", |permit| permit.valid_after = ChainTime::from_unix(NOW + 1), "permit2_not_yet_valid"),
        ("by no account", |permit| permit.from = Address::ZERO, "invalid_payload"),
        ("by the seller", |permit| permit.from = recipient(), "invalid_payload"),
        ("by another", |permit| permit.from = next(permit.from), "invalid_permit2_signature"),
        ("nothing", |permit| permit.amount = Amount::ZERO, "permit2_amount_mismatch"),
    ];
    let metered = open().await;
    let offer = metered.offered().await;
    for (what, change, reason) in table {
        let mut changed = permit(&offer);
        change(&mut changed);
        let refused = metered.show(&offer, &sign(changed)).await;
        assert_eq!(assert_problem(refused, 402, "authorization_refused").await["reason"], reason, "{what}");
    }
    assert_eq!((metered.runs.runs(), metered.stall.settler.settlements()), (0, 0));
    // What is just in time sells.
    for (nonce, deadline) in [(1, NOW + LAST_MOMENT), (2, NOW + DAY)] {
        let mut timely = permit(&offer);
        (timely.nonce, timely.deadline) = ([nonce; 32], ChainTime::from_unix(deadline));
        let offer = metered.offered().await;
        assert_eq!(metered.show(&offer, &sign(timely)).await.status(), 200, "{deadline}");
    }
}

/// A stranger alters what the payer signed: each field by one.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_altered_after_it_was_signed_is_refused_and_stays_good() {
    type Change = fn(&mut Permit);
    let table: [(&str, Change); 4] = [
        ("nonce", |permit| permit.nonce[31] ^= 1),
        ("deadline", |permit| permit.deadline = ChainTime::from_unix(NOW + 301)),
        ("valid after", |permit| permit.valid_after = ChainTime::from_unix(1)),
        ("payer", |permit| permit.from = next(permit.from)),
    ];
    let metered = open().await;
    let offer = metered.offered().await;
    let signed = sign(permit(&offer));
    for (what, change) in table {
        let mut altered = signed.clone();
        change(&mut altered.permit);
        let refused = metered.show(&offer, &altered).await;
        let problem = assert_problem(refused, 402, "authorization_refused").await;
        assert_eq!(problem["reason"], "invalid_permit2_signature", "{what}");
    }
    assert_eq!((metered.runs.runs(), metered.stall.settler.settlements()), (0, 0));
    let sold = metered.show(&offer, &signed).await;
    assert_eq!((sold.status().as_u16(), settled(&sold).amount), (200, Some(units(5))));
}

/// The seller stopped between charge and sale. Whatever the handler says the second time, its answer is paid for.
#[tokio::test(start_paused = true)]
async fn what_was_charged_before_a_crash_buys_the_answer_whatever_it_would_cost_now() {
    for says in [Some(MAXIMUM + 1), Some(MAXIMUM), Some(0), None] {
        let metered = open().await;
        let offer = metered.offered().await;
        let signed = sign(permit(&offer));
        metered.settler.scripted.script([Settling::SettledHanging]);
        let leaving = tokio::time::timeout(std::time::Duration::from_secs(1), metered.show(&offer, &signed));
        assert!(leaving.await.is_err());
        metered.stall.lease_runs_out();
        metered.says(says);
        let sold = metered.show(&offer, &signed).await;
        assert_eq!((sold.status().as_u16(), settled(&sold).amount), (200, Some(units(5))), "{says:?}");
        assert_eq!((metered.runs.runs(), metered.stall.settler.settlements()), (2, 1), "{says:?}");
        assert_problem(metered.show(&offer, &signed).await, 409, "already_consumed").await;
    }
}

/// Permit2 takes a permit at its deadline: in that second, nothing has its payer sign another.
#[tokio::test(start_paused = true)]
async fn a_permit_is_over_after_its_deadline_and_not_at_it() {
    let metered = open().await;
    let (stall, offer) = (&metered.stall, metered.offered().await);
    let signed = sign(permit(&offer));
    stall.settler.script([Settling::Unknown]);
    assert_problem(metered.show(&offer, &signed).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    for (time, status, code) in [(300, 503, "outcome_unknown"), (301, 402, "authorization_refused")] {
        stall.shop.clock.set_unix(NOW + time);
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + time));
        assert_problem(metered.show(&offer, &signed).await, status, code).await;
    }
    assert_eq!((metered.runs.runs(), stall.settler.settlements()), (1, 1));
}

/// The transfer of a permit of this nonce.
fn charged(offer: &UpToRequirements, nonce: [u8; 32]) -> Transfer {
    Transfer::new(offer.network, EARLIER, 0)
        .with_token(offer.asset)
        .with_payer(buyer())
        .with_recipient(offer.pay_to)
        .with_amount(units(5))
        .with_block(1, ChainTime::from_unix(NOW))
        .with_binding(Binding::none().with_permit(ByPermit::Nonce(nonce)))
}

/// A transaction was sent, and its seller stopped. While that may still be mined, nothing is sold for less, and nothing is signed anew; once it
/// is, it buys the answer.
#[tokio::test(start_paused = true)]
async fn while_an_earlier_transaction_may_be_mined_no_smaller_charge_and_no_refusal_counts() {
    let poor = Reason::INSUFFICIENT_FUNDS;
    let pending = Verdict::NotConfirmed { retry_after: std::time::Duration::from_secs(2) };
    for (says, settling, settlements) in
        [(0, None, 1), (5, Some(Settling::Refused(poor)), 2), (5, Some(Settling::Unknown), 2)]
    {
        let metered = open().await;
        let (stall, offer) = (&metered.stall, metered.offered().await);
        let signed = sign(permit(&offer));
        *metered.settler.records.lock().unwrap() = true;
        stall.shop.chain.answer(EARLIER, pending.clone());
        stall.settler.script([Settling::Unknown]);
        assert_problem(metered.show(&offer, &signed).await, 503, "outcome_unknown").await;
        *metered.settler.records.lock().unwrap() = false;
        stall.lease_runs_out();

        stall.settler.script(settling.clone());
        metered.says(Some(says));
        let open = metered.show(&offer, &signed).await;
        assert_eq!(settled(&open).transaction, Some(EARLIER), "{says} {settling:?}");
        assert_problem(open, 503, "outcome_unknown").await;
        assert_eq!(stall.settler.settlements(), settlements, "{says} {settling:?}");
        stall.lease_runs_out();

        stall.shop.chain.mine(EARLIER, [charged(&offer, NONCE)]);
        let sold = metered.show(&offer, &signed).await;
        let told = settled(&sold);
        assert_eq!((sold.status().as_u16(), told.amount, told.transaction), (200, Some(units(5)), Some(EARLIER)));
        assert_eq!(stall.settler.settlements(), settlements, "{says} {settling:?}");
    }
}

/// Its transaction does not tell which permit it charged, and was recorded for this one, which is used: that pays for the answer.
#[tokio::test(start_paused = true)]
async fn a_recorded_transaction_that_does_not_tell_its_permit_buys_the_answer_of_a_used_one() {
    let metered = open().await;
    let (stall, offer) = (&metered.stall, metered.offered().await);
    let signed = sign(permit(&offer));
    *metered.settler.records.lock().unwrap() = true;
    stall.settler.script([Settling::Unknown]);
    assert_problem(metered.show(&offer, &signed).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    let untold = charged(&offer, NONCE).with_binding(Binding::none().with_permit(ByPermit::Untold));
    stall.shop.chain.mine(EARLIER, [untold]);
    stall.shop.chain.cancel(PERMIT2, buyer(), NONCE);
    let sold = metered.show(&offer, &signed).await;
    assert_eq!((sold.status().as_u16(), settled(&sold).transaction), (200, Some(EARLIER)));
    assert_eq!(stall.settler.settlements(), 1);
}

/// It failed: nothing can be mined any more, and a charge of nothing is a sale.
#[tokio::test(start_paused = true)]
async fn after_an_earlier_transaction_that_failed_the_charge_of_now_counts() {
    for (says, settlements) in [(0, 1), (3, 2)] {
        let metered = open().await;
        let (stall, offer) = (&metered.stall, metered.offered().await);
        let signed = sign(permit(&offer));
        *metered.settler.records.lock().unwrap() = true;
        stall.shop.chain.mine(EARLIER, []);
        stall.settler.script([Settling::Unknown]);
        assert_problem(metered.show(&offer, &signed).await, 503, "outcome_unknown").await;
        *metered.settler.records.lock().unwrap() = false;
        stall.lease_runs_out();
        metered.says(Some(says));
        let sold = metered.show(&offer, &signed).await;
        assert_eq!((sold.status().as_u16(), settled(&sold).amount), (200, Some(units(says))));
        assert_eq!(stall.settler.settlements(), settlements, "{says}");
    }
}

/// A settler names a transaction that did not charge this permit.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_did_not_charge_this_permit_pays_nothing() {
    type Change = fn(Transfer) -> Transfer;
    let table: [(&str, Change); 5] = [
        ("another permit's", |by| by.with_binding(Binding::none().with_permit(ByPermit::Nonce([0x43; 32])))),
        ("no permit's", |by| by.with_binding(Binding::none())),
        ("another payer's", |by| by.with_payer(Address::new([0xbb; 20]))),
        ("to another", |by| by.with_recipient(Address::new([0xbb; 20]))),
        ("above the maximum", |by| by.with_amount(units(MAXIMUM + 1))),
    ];
    for (what, change) in table {
        let metered = open().await;
        let (stall, offer) = (&metered.stall, metered.offered().await);
        stall.shop.chain.mine(EARLIER, [change(charged(&offer, NONCE))]);
        // What is mined for this very nonce is not unused.
        stall.settler.answer_verify(Ok(Validity::Valid));
        stall.settler.script([Settling::Claimed(EARLIER)]);
        let answer = metered.show(&offer, &sign(permit(&offer))).await;
        assert_eq!(answer.status(), 503, "{what}");
        assert_eq!(answer.headers()["x402-error"], "outcome_unknown", "{what}");
    }
}

/// A client that is billed for it would sign, and pay, a second time.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_being_settled_is_not_billed_again_under_another_name() {
    let metered = open().await;
    let (settler, shop) = (metered.settler.clone(), &metered.stall.shop);
    let merchant = shop.sibling(|builder| builder.permit_settler(settler)).await;
    let renamed = layered(&merchant.charge_up_to("renamed", "0.10 USDC").unwrap(), echo(metered.runs.clone()));
    let offer = metered.offered().await;
    let signed = sign(permit(&offer));
    let payment = PaymentPayload::new(offer.clone(), signed.clone());
    let show = || {
        let mut request = post(r#"{"query":"why"}"#);
        request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
        ask(&renamed, request)
    };
    metered.stall.settler.script([Settling::Held]);
    assert_problem(metered.show(&offer, &signed).await, 503, "outcome_unknown").await;
    for _ in 0..2 {
        assert_problem(show().await, 409, "redemption_in_progress").await;
        metered.stall.lease_runs_out();
    }
    assert_eq!((metered.runs.runs(), metered.stall.settler.settlements()), (1, 1));
    metered.stall.settler.release();
    assert_problem(show().await, 404, "intent_not_found").await;
}
