//! Official clients name their purchases, with the extensions' own helpers; and buy where they are not asked to.

use tower_x402::PaymentIdentifier;

use super::{
    PRICE, SELLER, Token, World,
    clients::{Client, Order},
    question,
    seller::{By, settling},
};
use crate::served::shop::{INSIGHTS, Shop};

const NAME: &str = "pay_7d5d747be160e280";
const OTHER: &str = "pay_7d5d747be160e281";

async fn is_charged_once(client: Client) {
    for setting in [PaymentIdentifier::Optional, PaymentIdentifier::Required] {
        let Some(world) = World::with(Token::Ours).await else { return };
        let (merchant, _facilitator) = settling(&world, By::Wallet).await;
        let shop = Shop::open(merchant.payment_identifier(setting)).await;
        let url = shop.url(INSIGHTS);
        let unnamed = client.buy(&world, Order::post(&url, question())).await;
        let Some(unnamed) = unnamed else { return };
        let (expected, mut sold) = match setting {
            PaymentIdentifier::Optional => (200, 1),
            PaymentIdentifier::Required => (400, 0),
        };
        assert_eq!(unnamed.status(), expected, "{setting:?}: {unnamed:?}");
        // Each call of the client signs anew.
        for (name, expected) in [(NAME, 200), (NAME, 409), (NAME, 409), (OTHER, 200)] {
            let bought = client.buy(&world, Order::post(&url, question()).named(name)).await.unwrap();
            assert_eq!(bought.status(), expected, "{setting:?}: {bought:?}");
            assert_eq!(bought.payment().extensions.purchase_name().unwrap().unwrap().as_str(), name);
            sold += u128::from(expected == 200);
        }
        assert_eq!(world.balance(SELLER).await, sold * PRICE, "{setting:?}");
    }
}

#[tokio::test]
async fn the_typescript_client_is_charged_once_for_a_name() {
    is_charged_once(Client::Fetch).await;
}

#[tokio::test]
async fn the_python_client_is_charged_once_for_a_name() {
    is_charged_once(Client::Httpx).await;
}
