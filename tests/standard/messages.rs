//! The messages of `protocol::v2`, between official clients and an official facilitator.

use tower_x402::protocol::v2::SchemePayload;

use super::{
    PRICE, Payer, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
    stall::{self, INTENT, requirements},
};

async fn both_payers_buy_with(client: Client) {
    let Some(world) = World::with(Token::Circles).await else { return };
    let facilitator = Facilitator::start(&world).await;
    let url = stall::open(&facilitator).await;
    for payer in [Payer::Plain, Payer::Contract] {
        let order = Order::post(&url, question()).by(payer);
        let Some(purchase) = client.buy(&world, order).await else { return };
        assert_eq!(purchase.sold(&world, payer)["answer"], 42);
        assert_eq!(purchase.offered().accepts[0].exact(), Some(&requirements()));

        let payment = purchase.payment();
        let accepted = payment.accepted.exact().unwrap();
        // All of it, and nothing else.
        assert_eq!(accepted, &requirements());
        assert_eq!(accepted.intent().unwrap().unwrap().as_str(), INTENT);
        let SchemePayload::Authorization(signed) = payment.payload else { panic!("{payment:?}") };
        assert_eq!(signed.authorization.from, world.address_of(payer));
    }
    assert_eq!(world.balance(SELLER).await, 2 * PRICE);
    assert_eq!(facilitator.calls("/settle").await, 2);
}

#[tokio::test]
async fn the_typescript_client_reads_and_echoes_them() {
    both_payers_buy_with(Client::Fetch).await;
}

#[tokio::test]
async fn the_python_client_reads_and_echoes_them() {
    both_payers_buy_with(Client::Httpx).await;
}
