//! Signed payments that are settled before the handler runs.

use std::convert::Infallible;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tower_x402::{
    Receipt, RequestBody, X402Layer,
    protocol::{Network, ProvedBy, headers::PAYMENT_RESPONSE, redemption_message, v2::Reason},
    testing::{ScriptedSettler, Settling, scripted_signature},
};

use super::{Stall, by_hash, intent, offered, paid, pays, settled, unquoted::unquoted};
use crate::support::{
    Counter, Handler, Shop, answering, ask, assert_problem,
    faults::{Fault, Op},
    layered, payer, read,
};

fn first(shop: &Shop) -> X402Layer {
    shop.layer().settle_first()
}

/// A top-up: it credits what it is paid, but fails in its first `failures` runs.
fn credits(counter: Counter, failures: usize) -> impl Handler {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        let run = counter.run();
        async move {
            let receipt = request.extensions().get::<Receipt>().unwrap();
            assert!(receipt.transaction().is_some(), "credited before the money came");
            let mut response = Response::new(Body::from(receipt.payment_id().to_string()));
            if run <= failures {
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            Ok::<_, Infallible>(response)
        }
    })
}

/// Without the setting the handler runs first, and a payer who empties the wallet meanwhile keeps what it did.
#[tokio::test]
async fn a_payment_that_fails_late_has_run_the_handler_unless_it_is_settled_first() {
    let empty = || Settling::Refused(Reason::INSUFFICIENT_FUNDS);
    for (settles_first, runs) in [(false, 1), (true, 0)] {
        let stall = Stall::open().await;
        let counter = Counter::default();
        let layer = if settles_first { first(&stall.shop) } else { stall.shop.layer() };
        let service = layered(&layer, crate::support::echo(counter.clone()));
        stall.settler.script([empty()]);
        let answer = ask(&service, paid(&pays(&offered(&service).await))).await;
        let told = settled(&answer);
        assert_problem(answer, 402, "authorization_refused").await;
        assert_eq!((told.success, told.transaction, counter.runs()), (false, None, runs));
        assert_eq!(stall.shop.ledger.counts().unwrap().held, 0);
    }
}

#[tokio::test]
async fn the_handler_sees_the_transaction_that_is_sold() {
    let stall = Stall::open().await;
    let settler: ScriptedSettler = stall.settler.clone();
    let service = layered(
        &first(&stall.shop),
        tower::service_fn(move |request: Request<RequestBody<Body>>| {
            let settlements = settler.settlements();
            async move {
                let receipt = request.extensions().get::<Receipt>().unwrap();
                assert_eq!((settlements, receipt.payer(), receipt.proved_by()), (1, payer(), ProvedBy::Authorization));
                Ok::<_, Infallible>(Response::new(Body::from(receipt.transaction().unwrap().to_string())))
            }
        }),
    );
    let payment = pays(&offered(&service).await);
    let answer = ask(&service, paid(&payment)).await;
    let told = settled(&answer);
    assert_eq!((told.success, answer.status()), (true, StatusCode::OK));
    assert_eq!(read(answer).await.1, told.transaction.unwrap().to_string());
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_eq!(stall.settler.settlements(), 1);
}

/// The same header goes on at once, and settles nothing again.
#[tokio::test(start_paused = true)]
async fn a_failed_handler_leaves_a_payment_that_the_same_header_spends() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&first(&stall.shop), credits(counter.clone(), 2));
    let payment = pays(&offered(&service).await);
    let failed = ask(&service, paid(&payment)).await;
    let told = settled(&failed);
    assert_eq!((failed.status().as_u16(), told.success), (500, false));
    assert_eq!(told.error_reason, Some(Reason::SETTLEMENT_PENDING));
    assert!(told.transaction.is_some());
    assert!(failed.headers()["access-control-expose-headers"].to_str().unwrap().contains("PAYMENT-RESPONSE"));
    for status in [500, 200] {
        let answer = ask(&service, paid(&payment)).await;
        assert_eq!(answer.status().as_u16(), status);
        if status == 200 {
            assert_eq!((settled(&answer).success, settled(&answer).transaction), (true, told.transaction));
        }
    }
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (3, 1));
    assert_eq!(stall.shop.faults.committed().len(), 1);
}

/// Its payer, who alone knows the intent, can also show that with the transaction.
#[tokio::test(start_paused = true)]
async fn a_failed_handler_leaves_a_payment_that_its_intent_and_hash_spend() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&first(&stall.shop), credits(counter.clone(), 2));
    let offer = offered(&service).await;
    let transaction = settled(&ask(&service, paid(&pays(&offer))).await).transaction.unwrap();
    let other = intent(&offered(&service).await);
    let stranger = || ask(&service, by_hash(&other, transaction));
    assert_problem(stranger().await, 403, "payment_bound").await;
    for status in [500, 200] {
        assert_eq!(ask(&service, by_hash(&intent(&offer), transaction)).await.status().as_u16(), status);
    }
    assert_problem(stranger().await, 403, "payment_bound").await;
    for again in [by_hash(&intent(&offer), transaction), paid(&pays(&offer))] {
        assert_problem(ask(&service, again).await, 409, "already_consumed").await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (3, 1));
    assert_eq!(stall.shop.faults.committed().len(), 1);
}

/// Unless the ledger says that it was settled for this intent, none opens it.
#[tokio::test(start_paused = true)]
async fn an_intent_opens_nothing_while_the_ledger_does_not_answer() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&first(&stall.shop), credits(counter.clone(), 1));
    let offer = offered(&service).await;
    let transaction = settled(&ask(&service, paid(&pays(&offer))).await).transaction.unwrap();
    for fault in [Fault::Fail, Fault::AnswerLost, Fault::Hang] {
        stall.shop.faults.next(Op::Begun, [fault]);
        assert_problem(ask(&service, by_hash(&intent(&offer), transaction)).await, 503, "ledger_unavailable").await;
    }
    assert_eq!(counter.runs(), 1);
    assert_eq!(ask(&service, by_hash(&intent(&offer), transaction)).await.status(), 200);
}

/// Its payer can also show the transaction, with a signature; and without a quote in no other way.
#[tokio::test(start_paused = true)]
async fn a_failed_handler_leaves_a_payment_that_its_payers_signature_spends() {
    for names_quote in [true, false] {
        let stall = Stall::open().await;
        let counter = Counter::default();
        let service = layered(&first(&stall.shop), credits(counter.clone(), 1));
        let offer = offered(&service).await;
        let payment = pays(&if names_quote { offer.clone() } else { unquoted(&offer) });
        let failed = ask(&service, paid(&payment)).await;
        let transaction = settled(&failed).transaction.unwrap();
        if !names_quote {
            assert_problem(ask(&service, paid(&payment)).await, 403, "payment_bound").await;
        }
        let stranger = by_hash(&intent(&offered(&service).await), transaction);
        assert_problem(ask(&service, stranger).await, 403, "payment_bound").await;
        let message = redemption_message(Network::BASE, transaction, &offer.intent().unwrap().unwrap());
        let signature = scripted_signature(payer(), &message);
        let mut request = by_hash(&intent(&offer), transaction);
        let proof =
            format!(r#"{{"intentId":"{}","txHash":"{transaction}","paymentSignature":"{signature}"}}"#, intent(&offer));
        request.headers_mut().insert("x402-payment", proof.parse().unwrap());
        assert_eq!(ask(&service, request).await.status(), 200, "{names_quote}");
        assert_eq!((counter.runs(), stall.settler.settlements()), (2, 1));
    }
}

/// Whether it is settled is not known: no handler runs before it is.
#[tokio::test(start_paused = true)]
async fn what_may_be_settled_runs_no_handler_before_it_is() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&first(&stall.shop), credits(counter.clone(), 0));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    assert_eq!(counter.runs(), 0);
    let _ = stall.settler.release();
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

/// Never sold without it, whatever the handler answers: neither a bill nor silence about what was paid.
#[tokio::test]
async fn what_was_paid_is_told_whatever_the_handler_answers() {
    for status in [402, 404, 503] {
        let stall = Stall::open().await;
        let service = layered(&first(&stall.shop), crate::support::status(status));
        let payment = pays(&offered(&service).await);
        // And told again, when it is shown again.
        for _ in 0..2 {
            let answer = ask(&service, paid(&payment)).await;
            assert_ne!(answer.status(), 402);
            assert!(answer.headers().contains_key(PAYMENT_RESPONSE));
            assert!(!settled(&answer).success && settled(&answer).transaction.is_some());
            assert!(!read(answer).await.1.to_string().contains("othing was taken"), "{status}");
        }
    }
    // What takes too long to come, or is too much to judge.
    let stall = Stall::open().await;
    let layer = first(&stall.shop).consume_when_body(|_, _, _| true).answer_limit(4).unwrap();
    let service = layered(&layer, answering(Counter::default(), |_| Response::new(Body::from("an answer"))));
    let answer = ask(&service, paid(&pays(&offered(&service).await))).await;
    assert!(settled(&answer).transaction.is_some());
    let problem = assert_problem(answer, 502, "answer_too_large").await;
    assert!(problem["detail"].as_str().unwrap().contains("Do not pay again"), "{problem}");
}
