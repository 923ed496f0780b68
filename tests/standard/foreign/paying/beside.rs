//! One payer and one journal, at this crate's sellers and at others.

use http::{Request, header::CONTENT_TYPE};
use serde_json::json;
use tower_x402::client::{Body, PaymentMethod, PurchaseState};

use super::{
    super::{CHEAP, ForeignSeller, Make, WEATHER},
    Buyer, buy, get,
};
use crate::{
    served::shop::{self, Shop},
    {
        Token, World,
        seller::{By, merchant, settling},
    },
};

fn question(url: &str) -> Request<Body> {
    let request = Request::post(url).header(CONTENT_TYPE, "application/json");
    request.body(Body::from(json!({ "query": "why" }).to_string())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_payer_buys_from_all_of_them() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let (settles, _facilitator) = settling(&world, By::Wallet).await;
    let (by_authorization, by_transfer) = (Shop::open(settles).await, Shop::open(merchant(&world).await).await);
    let buyer = Buyer::of(&world).await;
    // An ordinary transfer costs gas.
    let ether = json!([world.buyer().address().to_string(), "0x56bc75e2d63100000"]);
    world.chain.rpc("anvil_setBalance", ether).await.unwrap();
    let layer = buyer.layer().await;

    let mut paid_by = Vec::new();
    for shop in [&by_authorization, &by_transfer] {
        let got = buy(&layer, question(&shop.url(shop::CHEAP))).await.unwrap();
        assert_eq!((got.status, shop.runs()), (200, 1));
        paid_by.push(got.purchase.unwrap().paid_by);
    }
    for make in Make::ALL {
        let Some(seller) = ForeignSeller::open(make, &world).await else { continue };
        let got = buy(&layer, get(&seller.url(WEATHER))).await.unwrap();
        let purchase = got.purchase.unwrap();
        assert_eq!((got.status, purchase.state), (200, PurchaseState::Answered), "{make:?}");
        paid_by.push(purchase.paid_by);
    }
    let bought = paid_by.len() as u128;
    assert_eq!(paid_by[..2], [PaymentMethod::Authorization, PaymentMethod::Transfer]);
    assert!(paid_by[2..].iter().all(|paid_by| *paid_by == PaymentMethod::Authorization));
    assert_eq!(world.balance(crate::SELLER).await, bought * CHEAP);
    assert!(layer.unfinished().is_empty());
    drop(layer);
    let nonces: std::collections::BTreeSet<_> = buyer
        .entries()
        .await
        .iter()
        .filter_map(|entry| entry.authorization().map(|signed| signed.authorization.nonce))
        .collect();
    assert_eq!(nonces.len() as u128, bought - 1, "each authorization has a nonce of its own");
}
