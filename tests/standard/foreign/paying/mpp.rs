//! Purchases at mppx, the official seller of MPP, and by MPP at a shop of this crate.

use axum::{Json, routing::post};
use http::{Request, header::CONTENT_TYPE};
use serde_json::json;
use tower_x402::{
    PaymentIdentifier,
    client::{Body, PayErrorKind, PayLayerBuilder, PurchaseState, Standard},
    protocol::{Amount, headers::IDEMPOTENCY_KEY},
};

use super::{
    super::{CHEAP, DEAR, FREE, Make, WEATHER},
    Buyer, buy, get, open,
};
use crate::{
    PRICE, SELLER, Token, World,
    seller::{By, settling},
    served::shop::{INSIGHTS, Shop},
    support::Counter,
};

#[tokio::test]
async fn at_mppx() {
    let Some((world, seller, buyer)) = open(Make::Mppx).await else { return };
    // It speaks x402 as well, which would go first.
    let layer = buyer.layer_with(|builder| builder.standards([Standard::Mpp])).await;
    let free = buy(&layer, get(&seller.url(FREE))).await.unwrap();
    assert!((free.status, free.purchase.is_none()) == (200, true) && layer.spent().is_zero());
    for bought in 1..=2_u8 {
        let got = buy(&layer, get(&seller.url(WEATHER))).await.unwrap();
        assert_eq!((got.status, got.json()), (200, json!({ "weather": "sunny", "run": bought })));
        let purchase = got.purchase.unwrap();
        assert_eq!((purchase.standard, purchase.state), (Some(Standard::Mpp), PurchaseState::Answered));
        assert_eq!((purchase.confirmed, purchase.attempts), (true, 1));
        let receipt = world.chain.receipt(purchase.transaction.unwrap()).await.unwrap().unwrap();
        assert_eq!(receipt["status"], "0x1");
        assert_ne!(receipt["from"], world.buyer().address().to_string(), "who settles pays the gas");
        assert_eq!(seller.earned(&world).await, u128::from(bought) * CHEAP);
    }
    assert_eq!((layer.unfinished().len(), layer.spent()), (0, Amount::from_base_units(2 * CHEAP)));
    drop(layer);
    let error = buyer.buy(&seller.url(DEAR)).await.unwrap_err();
    assert_eq!((error.kind(), seller.earned(&world).await), (PayErrorKind::Declined, 2 * CHEAP), "{error}");
}

/// The shop settles, and says 402 with a fresh challenge: mppx's own client signs three times then.
#[tokio::test]
async fn mppx_that_settles_and_says_402_charges_once() {
    for fault in ["settles-and-says-refused", "settles-and-errs"] {
        let Some((world, seller, buyer)) = open(Make::Mppx).await else { return };
        seller.fault(fault).await;
        for call in 1..=3 {
            let error = buyer.buy(&seller.url(WEATHER)).await.unwrap_err();
            assert!(error.transaction().is_some() && error.is_resumable(), "{fault}, call {call}: {error}");
            assert_eq!((seller.earned(&world).await, buyer.entries().await.len()), (CHEAP, 1), "{fault}, call {call}");
            seller.fault("").await;
        }
    }
}

/// What the shop does not settle stays the only signature, and buys the answer later.
#[tokio::test]
async fn what_mppx_does_not_settle_is_shown_again() {
    let Some((world, seller, buyer)) = open(Make::Mppx).await else { return };
    seller.fault("says-refused").await;
    let error = buyer.buy(&seller.url(WEATHER)).await.unwrap_err();
    assert_eq!((error.kind(), seller.earned(&world).await), (PayErrorKind::Outstanding, 0), "{error}");
    seller.fault("").await;
    let got = buyer.buy(&seller.url(WEATHER)).await.unwrap();
    assert_eq!((got.status, seller.earned(&world).await, buyer.entries().await.len()), (200, CHEAP, 1));
}

#[tokio::test]
async fn by_mpp_at_a_shop_of_this_crate() {
    for by in [By::Wallet, By::Facilitator] {
        let Some(world) = World::with(Token::Circles).await else { return };
        let (merchant, _facilitator) = settling(&world, by).await;
        let merchant = merchant.mpp("api.example.com").build().await.unwrap();
        let paid = merchant.charge("fixed", Amount::from_base_units(PRICE)).unwrap();
        let app = axum::Router::new().route("/fixed", post(async || Json(json!({ "reply": 42 }))).route_layer(paid));
        let shop = Shop::serving(merchant, app, Counter::default()).await;
        let buyer = Buyer::of(&world).await;
        for (bought, standard) in [(1, Standard::Mpp), (2, Standard::X402)] {
            let layer = buyer.layer_with(|builder| builder.standards([standard])).await;
            let request = Request::post(shop.url("/fixed")).header(CONTENT_TYPE, "application/json");
            let got = buy(&layer, request.body(Body::from("{}")).unwrap()).await.unwrap();
            let purchase = got.purchase.clone().unwrap();
            assert_eq!((got.status, purchase.standard, purchase.confirmed), (200, Some(standard), true), "{got:?}");
            assert_eq!(world.balance(SELLER).await, bought * PRICE);
        }
    }
}

/// Where the shop reads names, the purchase has its own at every try; a caller's name is charged once, whoever signs under it.
#[tokio::test]
async fn by_mpp_a_purchase_is_named_and_charged_once() {
    for setting in [PaymentIdentifier::Optional, PaymentIdentifier::Required] {
        let Some(world) = World::with(Token::Ours).await else { return };
        let (merchant, _facilitator) = settling(&world, By::Wallet).await;
        let shop = Shop::open(merchant.mpp("api.example.com").payment_identifier(setting)).await;
        let ask = |name: Option<&str>| {
            let request = Request::post(shop.url(INSIGHTS)).header(CONTENT_TYPE, "application/json");
            let request = name.into_iter().fold(request, |request, name| request.header(IDEMPOTENCY_KEY, name));
            request.body(Body::from("{}")).unwrap()
        };
        let by_mpp = |builder: PayLayerBuilder| builder.standards([Standard::Mpp]);
        let (buyer, other) = (Buyer::of(&world).await, Buyer::of(&world).await);
        let (layer, forgetful) = (buyer.layer_with(by_mpp).await, other.layer_with(by_mpp).await);
        for bought in 1..=2_u8 {
            let got = buy(&layer, ask(None)).await.unwrap();
            let purchase = got.purchase.clone().unwrap();
            assert_eq!((got.status, purchase.standard), (200, Some(Standard::Mpp)), "{setting:?}: {got:?}");
            assert_eq!(world.balance(SELLER).await, u128::from(bought) * PRICE, "{setting:?}");
        }
        // The second one knows nothing of the first one's journal.
        let name = Some("order_7d5d747be160e280");
        assert_eq!(buy(&layer, ask(name)).await.unwrap().status, 200, "{setting:?}");
        let error = buy(&forgetful, ask(name)).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Outstanding, "{setting:?}: {error}");
        assert!(error.to_string().contains("payment_id_conflict"), "{setting:?}: {error}");
        assert_eq!((world.balance(SELLER).await, shop.runs()), (3 * PRICE, 3), "{setting:?}");
    }
}
