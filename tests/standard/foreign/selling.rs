//! Each foreign seller sells, to its own client, once; what its handler fails at is not charged.

use serde_json::json;

use super::{BROKEN, CHEAP, CHOICE, DEAR, FREE, ForeignSeller, Make, REPORT, WEATHER};
use crate::{
    Token, World,
    clients::{Client, Order},
};

async fn open(make: Make) -> Option<(World, ForeignSeller)> {
    let world = World::with(Token::Circles).await?;
    let seller = ForeignSeller::open(make, &world).await?;
    Some((world, seller))
}

async fn sells_once(make: Make) {
    let Some((world, seller)) = open(make).await else { return };
    assert_eq!(seller.ask(WEATHER).await.status, 402);
    assert_eq!((seller.ask(FREE).await.status, seller.runs(FREE).await), (200, 1));
    let url = seller.url(WEATHER);
    let bought = Client::Fetch.buy(&world, Order::get(&url)).await.unwrap();
    assert_eq!((bought.status(), bought.body()), (200, &json!({ "weather": "sunny", "run": 1 })));
    assert_eq!(bought.settled()["success"], true);
    assert_eq!((seller.runs(WEATHER).await, seller.earned(&world).await), (1, CHEAP));

    // Once settled, the same payment is refused, and nothing says that it bought an answer before.
    let again = seller.show(WEATHER, bought.signature()).await;
    assert_eq!((again.status, seller.settled(&again)), (402, None));
    assert_eq!(seller.reason(&again), "invalid_exact_evm_nonce_already_used");
    assert_eq!((seller.runs(WEATHER).await, seller.earned(&world).await), (1, CHEAP));
    assert_eq!(seller.facilitator.calls("/settle").await, 1);
}

#[tokio::test]
async fn express_sells_once() {
    sells_once(Make::Express).await;
}

#[tokio::test]
async fn fastapi_sells_once() {
    sells_once(Make::FastApi).await;
}

#[tokio::test]
async fn express_of_version_1_sells_once() {
    sells_once(Make::ExpressV1).await;
}

#[tokio::test]
async fn a_question_goes_with_the_payment() {
    for make in Make::ALL {
        let Some((world, seller)) = open(make).await else { continue };
        let (url, question) = (seller.url(REPORT), json!({ "query": "why" }));
        let bought = Client::Fetch.buy(&world, Order::post(&url, question.clone())).await.unwrap();
        assert_eq!((bought.status(), &bought.body()["report"]), (200, &question), "{make:?}");
        assert_eq!((seller.runs(REPORT).await, seller.earned(&world).await), (1, 2 * CHEAP), "{make:?}");
    }
}

#[tokio::test]
async fn what_nobody_knows_stands_before_what_is_meant() {
    for make in [Make::Express, Make::FastApi] {
        let Some((world, seller)) = open(make).await else { continue };
        let url = seller.url(CHOICE);
        let order = Order::get(&url).on(tower_x402::protocol::Network::BASE);
        let bought = Client::Fetch.buy(&world, order).await.unwrap();
        let offered = bought.offered().accepts;
        let networks: Vec<_> =
            offered.iter().map(|option| option.exact().map(|exact| exact.network.to_string())).collect();
        let meant = Some("eip155:8453".to_owned());
        assert_eq!(networks, [None, Some("eip155:424242".to_owned()), meant], "{make:?}");
        assert_eq!(bought.payment().accepted, offered[2], "{make:?}");
        assert_eq!((bought.status(), seller.earned(&world).await), (200, 3 * CHEAP), "{make:?}");
    }
}

#[tokio::test]
async fn what_a_handler_fails_at_is_not_charged() {
    for make in Make::ALL {
        let Some((world, seller)) = open(make).await else { continue };
        let url = seller.url(BROKEN);
        let payment = Client::sign(&world, Order::get(&url)).await;
        for runs in 1..=2 {
            let answer = seller.show(BROKEN, &payment).await;
            assert_eq!((answer.status, seller.settled(&answer)), (500, None), "{make:?}");
            assert_eq!((seller.runs(BROKEN).await, seller.earned(&world).await), (runs, 0), "{make:?}");
        }
        assert_eq!(seller.facilitator.calls("/settle").await, 0, "{make:?}");
    }
}

/// The official client has a limit of its own, which the price is above.
#[tokio::test]
async fn what_costs_five_dollars_is_offered_and_not_bought() {
    let Some((world, seller)) = open(Make::Express).await else { return };
    let offered = seller.ask(DEAR).await;
    let bill = super::told(&offered, "payment-required").unwrap();
    assert_eq!((offered.status, &bill["accepts"][0]["amount"]), (402, &json!("5000000")));
    assert_eq!((seller.runs(DEAR).await, seller.earned(&world).await), (0, 0));
}

#[tokio::test]
async fn one_that_was_killed_sells_again_where_it_was() {
    for make in Make::ALL {
        let Some((world, mut seller)) = open(make).await else { continue };
        let url = seller.url(WEATHER);
        let payment = Client::sign(&world, Order::get(&url)).await;
        seller.kill().await;
        assert!(reqwest::Client::builder().no_proxy().build().unwrap().get(&url).send().await.is_err(), "{make:?}");
        seller.restart().await;
        assert_eq!(seller.url(WEATHER), url);
        let answer = seller.show(WEATHER, &payment).await;
        assert_eq!((answer.status, seller.runs(WEATHER).await), (200, 1), "{make:?}: {}", answer.body);
        assert_eq!(seller.earned(&world).await, CHEAP, "{make:?}");
    }
}
