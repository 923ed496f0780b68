//! Purchases at sellers that do as they should.

use http::{Request, header::CONTENT_TYPE};
use serde_json::json;
use tower_x402::{
    client::{Body, PaymentMethod, PurchaseState},
    protocol::Amount,
};

use super::{
    super::{BROKEN, CHEAP, CHOICE, DEAR, FREE, Make, REPORT, WEATHER},
    buy, get, open,
};

async fn buys(make: Make) {
    let Some((world, seller, buyer)) = open(make).await else { return };
    let layer = buyer.layer().await;
    let free = buy(&layer, get(&seller.url(FREE))).await.unwrap();
    assert!((free.status, free.purchase.is_none()) == (200, true) && layer.spent().is_zero());

    for bought in 1..=2_u8 {
        let got = buy(&layer, get(&seller.url(WEATHER))).await.unwrap();
        assert_eq!((got.status, got.json()), (200, json!({ "weather": "sunny", "run": bought })), "{make:?}");
        let purchase = got.purchase.unwrap();
        assert_eq!((purchase.paid_by, purchase.state), (PaymentMethod::Authorization, PurchaseState::Answered));
        assert_eq!((purchase.recipient, purchase.amount), (seller.recipient(), Amount::from_base_units(CHEAP)));
        assert_eq!((purchase.confirmed, purchase.attempts, purchase.sent), (true, 1, 1), "{make:?}");
        let receipt = world.chain.receipt(purchase.transaction.unwrap()).await.unwrap().unwrap();
        assert_eq!(receipt["status"], "0x1", "{make:?}");
        assert_ne!(receipt["from"], world.buyer().address().to_string(), "who settles pays the gas");
        assert_eq!(seller.earned(&world).await, u128::from(bought) * CHEAP, "{make:?}");
    }
    assert_eq!((layer.unfinished().len(), layer.spent()), (0, Amount::from_base_units(2 * CHEAP)));
    assert_eq!(seller.facilitator.calls("/settle").await, 2, "{make:?}");
}

#[tokio::test]
async fn at_express() {
    buys(Make::Express).await;
}

#[tokio::test]
async fn at_fastapi() {
    buys(Make::FastApi).await;
}

#[tokio::test]
async fn at_express_of_version_1() {
    buys(Make::ExpressV1).await;
}

#[tokio::test]
async fn a_question_goes_with_the_payment() {
    for make in Make::ALL {
        let Some((world, seller, buyer)) = open(make).await else { continue };
        let question = json!({ "query": "why" });
        let request = Request::post(seller.url(REPORT)).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(question.to_string())).unwrap();
        let got = buy(&buyer.layer().await, request).await.unwrap();
        assert_eq!((got.status, &got.json()["report"]), (200, &question), "{make:?}");
        assert_eq!((seller.runs(REPORT).await, seller.earned(&world).await), (1, 2 * CHEAP), "{make:?}");
    }
}

#[tokio::test]
async fn the_way_that_is_known_is_taken_where_others_stand_before_it() {
    for make in [Make::Express, Make::FastApi] {
        let Some((world, seller, buyer)) = open(make).await else { continue };
        let got = buyer.buy(&seller.url(CHOICE)).await.unwrap();
        assert_eq!((got.status, got.purchase.unwrap().amount), (200, Amount::from_base_units(3 * CHEAP)), "{make:?}");
        assert_eq!(seller.earned(&world).await, 3 * CHEAP, "{make:?}");
    }
}

#[tokio::test]
async fn what_is_above_the_budget_is_not_signed_for() {
    for make in Make::ALL {
        let Some((world, seller, buyer)) = open(make).await else { continue };
        let error = buyer.buy(&seller.url(DEAR)).await.unwrap_err();
        assert!(error.kind() == tower_x402::client::PayErrorKind::Declined, "{make:?}: {error}");
        assert!(error.transaction().is_none() && !error.is_resumable(), "{make:?}");
        assert_eq!((seller.earned(&world).await, buyer.entries().await.len()), (0, 0), "{make:?}");
    }
}

/// The handler fails before anything is settled: the same signature is shown each time, and never used.
#[tokio::test]
async fn what_a_handler_fails_at_is_not_charged() {
    for make in Make::ALL {
        let Some((world, seller, buyer)) = open(make).await else { continue };
        for _ in 0..2 {
            let error = buyer.buy(&seller.url(BROKEN)).await.unwrap_err();
            assert!(error.is_resumable() && error.transaction().is_none(), "{make:?}: {error}");
        }
        let entries = buyer.entries().await;
        assert_eq!(
            (entries.len(), entries[0].authorization().is_some(), seller.earned(&world).await),
            (1, true, 0),
            "{make:?}"
        );
        assert_eq!(seller.facilitator.calls("/settle").await, 0, "{make:?}");
    }
}
