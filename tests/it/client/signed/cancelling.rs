//! An authorization is made void on the chain before its time is over.

use tower_x402::client::{PurchaseId, PurchaseState};

use super::*;

#[tokio::test(start_paused = true)]
async fn once_it_is_cancelled_the_same_request_pays_anew() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    let PayError::Outstanding { purchase, .. } = error else { panic!("{error}") };
    assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    assert_eq!(layer.cancel(purchase).await.unwrap(), None, "it is closed");
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_used_is_not_cancelled() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let payment = seller.asked().iter().find_map(shown).unwrap();
    settle(&market.shop.chain, &payment);
    let open = layer.unfinished().remove(0);
    assert_eq!(layer.cancel(open.id).await.unwrap(), Some(PurchaseState::Redeeming));
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.authorizations(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_cancelled_stays_as_it_is() {
    let market = Market::open().await;
    let layer = market.layer().await;
    assert_eq!(layer.cancel(PurchaseId::new([1; 16])).await.unwrap(), None);
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    market.wallet.outage(true);
    let open = layer.unfinished().remove(0);
    assert!(layer.cancel(open.id).await.is_err());
    assert_eq!(layer.unfinished(), [open]);
}
