//! From the quote to the answer.

use tower::Layer as _;
use tower_x402::client::PurchaseState;

use super::{Market, buy, question};

#[tokio::test(start_paused = true)]
async fn an_answer_is_paid_for_and_comes() {
    let market = Market::open().await;
    let client = market.layer().await.layer(market.seller());

    let (answer, purchase) = buy(&client, question(r#"{"query":"why"}"#)).await.unwrap();

    assert_eq!(answer, "the answer");
    let purchase = purchase.unwrap();
    assert_eq!((purchase.state, purchase.confirmed, purchase.attempts), (PurchaseState::Answered, true, 1));
    assert_eq!(purchase.amount.to_decimal(purchase.decimals), "0.49");
    assert_eq!((market.wallet.transfers(), market.runs.runs()), (1, 1));
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Answered);
}

#[tokio::test(start_paused = true)]
async fn the_same_question_later_is_another_purchase() {
    let market = Market::open().await;
    let client = market.layer().await.layer(market.seller());
    for sold in 1..=3 {
        buy(&client, question("{}")).await.unwrap();
        assert_eq!((market.wallet.transfers(), market.runs.runs()), (sold, sold));
    }
}
