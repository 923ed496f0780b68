//! The `datasets` program as its operators start it: with a key that settles, or the address of a facilitator.

use std::fs;

use super::{
    PRICE, Payer, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
};
use crate::served::app::App;

async fn sells_to_both_clients(world: &World, flags: &[&str]) {
    let flags = [&["--ledger", "memory"], flags].concat();
    let app = App::start(world.chain.rpc_url(), &flags).await;
    let (url, mut sold) = (app.insights(), 0);
    for client in [Client::Fetch, Client::Httpx] {
        for payer in [Payer::Plain, Payer::Contract] {
            let order = Order::post(&url, question()).by(payer);
            let Some(purchase) = client.buy(world, order).await else { return };
            let reply = &purchase.sold(world, payer)["reply"];
            assert!(reply.as_str().unwrap().starts_with("# "), "{reply}");
            sold += PRICE;
        }
    }
    assert_eq!(world.balance(SELLER).await, sold);
}

#[tokio::test]
async fn with_a_key_of_its_own() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settle.key");
    fs::write(&file, format!("{}\n", world.settler().private_key())).unwrap();
    sells_to_both_clients(&world, &["--settle-key", file.to_str().unwrap()]).await;
}

#[tokio::test]
async fn with_a_facilitator() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let facilitator = Facilitator::start(&world).await;
    sells_to_both_clients(&world, &["--facilitator", facilitator.url()]).await;
}
