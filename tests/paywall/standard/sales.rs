//! What a signed payment buys, and how often.

use std::time::Duration;

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, Response};
use tower_x402::{
    Receipt, Redelivery, RequestBody,
    protocol::{Asset, Network, ProvedBy, TxHash, headers::PAYMENT_SIGNATURE, v2::PaymentPayload},
    testing::Settling,
};

use super::{NONCE, Stall, authorization, by_hash, intent, offered, paid, pays, settled, sign};
use crate::support::{Counter, Handler, Shop, ask, assert_problem, echo, layered, payer, post, read, redemption};

#[tokio::test]
async fn a_signed_payment_buys_one_answer() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let answer = ask(&service, paid(&payment)).await;
    let told = settled(&answer);
    assert_eq!(answer.status(), 200);
    assert_eq!((told.success, told.payer, told.network), (true, Some(payer()), Some(Network::BASE)));
    assert_eq!(told.amount.unwrap().to_string(), "490000");
    assert_eq!(answer.headers()["cache-control"], "private, no-store");
    let transaction = told.transaction.unwrap();
    assert_eq!(read(answer).await.1["query"], "why");
    // Not again: not so, not under another intent, not by the transaction, not by the transaction under the same intent.
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    let another = sign(&offered(&service).await, authorization(&offered(&service).await, NONCE));
    assert_problem(ask(&service, paid(&another)).await, 409, "tx_already_used").await;
    let offer = offered(&service).await;
    // It is bound to a nonce of its payer's, who could sign for it.
    assert_problem(ask(&service, by_hash(&intent(&offer), transaction)).await, 403, "payment_bound").await;
    let first = payment.accepted.exact().unwrap();
    assert_problem(ask(&service, by_hash(&intent(first), transaction)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

/// At once; and where the process dies between settling and its commit, when the same header is shown again.
#[tokio::test(start_paused = true)]
async fn a_sale_is_recorded_with_the_transfer_that_settled_it() {
    for settling in [Settling::Settled, Settling::SettledHanging] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let payment = pays(&offered(&service).await);
        stall.settler.script([settling]);
        let mut asked = tokio::time::timeout(Duration::from_secs(20), ask(&service, paid(&payment))).await;
        if asked.is_err() {
            stall.lease_runs_out();
            asked = Ok(ask(&service, paid(&payment)).await);
        }
        let transaction = settled(&asked.unwrap()).transaction;
        let committed = stall.shop.faults.committed();
        let committed: Vec<_> = committed.iter().map(|paid| paid.transaction()).collect();
        assert_eq!((committed, transaction.is_some()), (vec![transaction], true));
    }
}

#[tokio::test]
async fn the_handler_sees_who_pays_and_no_transaction_yet() {
    fn seen() -> impl Handler {
        tower::service_fn(|request: Request<RequestBody<Body>>| async move {
            let receipt = request.extensions().get::<Receipt>().unwrap();
            assert_eq!((receipt.payer(), receipt.transaction()), (payer(), None));
            assert_eq!(receipt.proved_by(), ProvedBy::Authorization);
            assert_eq!(receipt.token(), Asset::USDC_BASE.contract());
            Ok(Response::new(Body::from(receipt.payment_id().to_string())))
        })
    }
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), seen());
    let answer = ask(&service, paid(&pays(&offered(&service).await))).await;
    let (_, body) = read(answer).await;
    assert!(body.as_str().unwrap().contains(&"42".repeat(32)), "{body}");
}

#[tokio::test]
async fn shown_many_times_at_once_it_runs_the_handler_once() {
    for (settling, delay) in [(Settling::Settled, 0), (Settling::Settled, 50), (Settling::SettledUnheard, 20)] {
        let stall = Stall::open().await;
        stall.settler.delay(Duration::from_millis(delay));
        stall.settler.always(settling);
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let payment = pays(&offered(&service).await);
        let answers = join_all((0..20).map(|_| ask(&service, paid(&payment)))).await;
        let sold = answers.iter().filter(|answer| answer.status() == 200).count();
        assert_eq!((sold, counter.runs(), stall.settler.settlements()), (1, 1, 1));
        for answer in answers.iter().filter(|answer| answer.status() != 200) {
            let code = answer.headers()["x402-error"].to_str().unwrap();
            assert!(["redemption_in_progress", "already_consumed"].contains(&code), "{code}");
        }
    }
}

#[tokio::test]
async fn one_authorization_under_two_intents_or_at_two_routes_buys_once() {
    let stall = Stall::open().await;
    stall.settler.delay(Duration::from_millis(20));
    let counter = Counter::default();
    let here = layered(&stall.shop.layer(), echo(counter.clone()));
    let there = layered(&stall.shop.merchant.charge("there", crate::support::PRICE).unwrap(), echo(counter.clone()));
    let offers = [offered(&here).await, offered(&here).await];
    let elsewhere = offered(&there).await;
    let payments = offers.each_ref().map(|offer| sign(offer, authorization(offer, NONCE)));
    let other = sign(&elsewhere, authorization(&elsewhere, NONCE));
    let (a, b, c) =
        tokio::join!(ask(&here, paid(&payments[0])), ask(&here, paid(&payments[1])), ask(&there, paid(&other)));
    assert_eq!([&a, &b, &c].iter().filter(|answer| answer.status() == 200).count(), 1);
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
    // A quote of one route opens at no other.
    let fresh = offered(&here).await;
    let answer = ask(&there, paid(&sign(&fresh, authorization(&fresh, [7; 32])))).await;
    assert_eq!(assert_problem(answer, 402, "authorization_refused").await["reason"], "invalid_payment_requirements");
}

#[tokio::test]
async fn what_is_not_sold_is_not_settled() {
    let stall = Stall::open().await;
    let service = layered(
        &stall.shop.layer(),
        tower::service_fn(|_: Request<RequestBody<Body>>| async {
            let mut failed = Response::new(Body::from("out of order"));
            *failed.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, std::convert::Infallible>(failed)
        }),
    );
    let payment = pays(&offered(&service).await);
    for _ in 0..3 {
        assert_eq!(ask(&service, paid(&payment)).await.status(), 500);
    }
    assert_eq!(stall.settler.settlements(), 0);
}

#[tokio::test]
async fn a_sold_answer_is_delivered_again_to_who_shows_the_same_payment() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let layer = stall.shop.layer().redeliver(Redelivery::lasting(Duration::from_secs(60)));
    let service = layered(&layer, echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let first = ask(&service, paid(&payment)).await;
    let transaction = settled(&first).transaction.unwrap();
    let response = first.headers()["payment-response"].clone();
    let first = read(first).await;
    let again = ask(&service, paid(&payment)).await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.headers()["payment-response"], response);
    assert_eq!(read(again).await, first);
    // By the transaction, too: intent and payment are the same.
    let offer = payment.accepted.exact().unwrap();
    assert_eq!(read(ask(&service, by_hash(&intent(offer), transaction)).await).await, first);
    // Another payment under this intent is not what bought it.
    let other = sign(offer, authorization(offer, [9; 32]));
    assert_problem(ask(&service, paid(&other)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_payment_without_an_intent_buys_at_the_present_price() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let mut offer = offered(&service).await;
    offer.extra = Default::default();
    let offer = offer.with_token_domain("USD Coin", "2");
    let payment = pays(&offer);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_transfer_pays_as_before_and_both_doors_have_one_intent() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let transaction = stall.shop.pay(490_000);
    assert_eq!(ask(&service, redemption(&intent(&offer), transaction)).await.status(), 200);
    // A client that reads both dialects and pays twice: the second payment is not taken.
    assert_problem(ask(&service, paid(&pays(&offer))).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 0));
}

#[tokio::test]
async fn a_seller_without_a_settler_says_that_it_takes_transfers() {
    let (stall, shop) = (Stall::open().await, Shop::open().await);
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    let plain = layered(&shop.layer(), echo(Counter::default()));
    let body = assert_problem(ask(&plain, paid(&payment)).await, 400, "invalid_redemption").await;
    assert!(body["detail"].as_str().unwrap().contains("transfers only"), "{body}");
}

#[tokio::test]
async fn a_header_that_is_no_payment_or_one_of_two_is_invalid() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment: PaymentPayload = pays(&offered(&service).await);
    let mut both = redemption("AUbX-9_k", TxHash::new([1; 32]));
    both.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    let mut beside = by_hash("AUbX-9_k", TxHash::new([1; 32]));
    beside.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    assert_problem(ask(&service, beside).await, 400, "invalid_redemption").await;
    // Members of the body mean nothing beside it.
    assert_eq!(ask(&service, both).await.status(), 200);
    for bad in ["", "e30=", "{}", "%%%", &"A".repeat(9000)] {
        let mut request = post("{}");
        request.headers_mut().insert(PAYMENT_SIGNATURE, bad.parse().unwrap());
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    let mut head = Request::head("/answer").body(Body::empty()).unwrap();
    head.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    assert_eq!(ask(&service, head).await.status(), 400);
}
