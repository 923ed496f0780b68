//! Once it is settled, an authorization and its signature are public: nobody but its payer gets the answer for it.

use axum::body::Body;
use http::Request;
use tower_x402::{
    X402,
    protocol::{
        Network, TokenDomain, redemption_message,
        v2::{PaymentPayload, Reason},
    },
    settle::{Settlement, Settler as _, SignedPayment, Validity},
    testing::{ScriptedSettler, Settling, scripted_signature},
};

use super::{NONCE, Stall, authorization, by_hash, intent, offered, paid, pays, sign};
use crate::support::{
    Counter, Handler, ask, assert_problem, echo,
    faults::{Fault, Op},
    layered, payer,
};

#[tokio::test(start_paused = true)]
async fn a_thief_with_the_signature_and_an_intent_of_his_own_gets_nothing() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    // He collects quotes beforehand.
    let prepared = offered(&service).await;
    let offer = offered(&service).await;
    let payment = pays(&offer);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    let transaction = stall.settler.release()[0];
    let stolen = sign(&prepared, authorization(&offer, NONCE));
    for _ in 0..3 {
        for theft in [&stolen, &sign(&offered(&service).await, authorization(&offer, NONCE))] {
            assert_problem(ask(&service, paid(theft)).await, 409, "redemption_in_progress").await;
        }
        let mut unquoted = offer.clone();
        unquoted.extra = Default::default();
        let unquoted = sign(&unquoted.with_token_domain("USD Coin", "2"), authorization(&offer, NONCE));
        assert_problem(ask(&service, paid(&unquoted)).await, 409, "redemption_in_progress").await;
        assert_problem(ask(&service, by_hash(&intent(&prepared), transaction)).await, 403, "payment_bound").await;
        stall.lease_runs_out();
    }
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_problem(ask(&service, paid(&stolen)).await, 409, "tx_already_used").await;
}

/// Settled by somebody else, in no reservation of ours: its payer shows that by a signature, at the other door.
#[tokio::test]
async fn what_another_settled_is_its_payers_by_signature() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let payment = pays(&offer);
    let settler = ScriptedSettler::new(stall.shop.chain.clone());
    let signed = SignedPayment::new(
        super::SignedAuthorization::new(authorization(&offer, NONCE), "0x00".parse().unwrap()),
        offer.clone(),
        TokenDomain::usdc_of(Network::BASE).unwrap(),
    );
    let settled = settler.settle(&signed).await;
    let Settlement::Settled(transaction) = settled else { panic!("{settled:?}") };
    let body = assert_problem(ask(&service, paid(&payment)).await, 403, "payment_bound").await;
    let message = redemption_message(Network::BASE, transaction, &offer.intent().unwrap().unwrap());
    assert_eq!(body["message"], message.as_str());
    let mut request = by_hash(&intent(&offer), transaction);
    let proof = format!(
        r#"{{"intentId":"{}","txHash":"{transaction}","paymentSignature":"{}"}}"#,
        intent(&offer),
        scripted_signature(payer(), &message)
    );
    request.headers_mut().insert("x402-payment", proof.parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 0));
}

/// The release of a thief's reservation was lost, with the process or with the ledger: it is no sign that he settled anything.
#[tokio::test(start_paused = true)]
async fn a_thief_whose_reservation_was_left_behind_gets_nothing() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let (stolen, owner) = left_behind(&stall, &service).await;
    for _ in 0..3 {
        stall.lease_runs_out();
        assert_problem(ask(&service, paid(&stolen)).await, 403, "payment_bound").await;
    }
    stall.lease_runs_out();
    assert_eq!(ask(&service, owner).await.status(), 200);
    assert_eq!(counter.runs(), 1);
}

/// The same, where the settler is behind and takes the payment for one that is still to be settled.
#[tokio::test(start_paused = true)]
async fn nor_does_he_by_a_settler_that_is_behind() {
    for settling in [Settling::Settled, Settling::Unknown, Settling::Refused(Reason::INSUFFICIENT_FUNDS)] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let (stolen, owner) = left_behind(&stall, &service).await;
        stall.settler.answer_verify(Ok(Validity::Valid));
        for _ in 0..3 {
            stall.lease_runs_out();
            stall.settler.script([settling.clone()]);
            assert_problem(ask(&service, paid(&stolen)).await, 403, "payment_bound").await;
        }
        stall.lease_runs_out();
        assert_eq!(ask(&service, owner).await.status(), 200);
    }
}

/// A thief's payment, reserved under his intent after somebody else settled it, and not released; and what its payer shows.
async fn left_behind<S: Handler>(stall: &Stall, service: &X402<S>) -> (PaymentPayload, Request<Body>) {
    let (prepared, offer) = (offered(service).await, offered(service).await);
    let settler = ScriptedSettler::new(stall.shop.chain.clone());
    let signed = SignedPayment::new(
        super::SignedAuthorization::new(authorization(&offer, NONCE), "0x00".parse().unwrap()),
        offer.clone(),
        TokenDomain::usdc_of(Network::BASE).unwrap(),
    );
    let settled = settler.settle(&signed).await;
    let Settlement::Settled(transaction) = settled else { panic!("{settled:?}") };
    let stolen = sign(&prepared, authorization(&offer, NONCE));
    stall.shop.faults.always(Op::Release, Fault::Fail);
    assert_problem(ask(service, paid(&stolen)).await, 403, "payment_bound").await;
    stall.shop.faults.heal();
    let intent = offer.intent().unwrap().unwrap();
    let signature = scripted_signature(payer(), &redemption_message(Network::BASE, transaction, &intent));
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{transaction}","paymentSignature":"{signature}"}}"#);
    let mut owner = by_hash(intent.as_str(), transaction);
    owner.headers_mut().insert("x402-payment", proof.parse().unwrap());
    (stolen, owner)
}
