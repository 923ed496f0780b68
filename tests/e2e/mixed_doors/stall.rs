//! A seller whose leases are short and whose answers are all different.

use std::{process::Command, time::Duration};

use axum::{
    Router,
    body::Bytes,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use rand::Rng as _;
use tower_x402::{
    Merchant, Redelivery,
    ledger::PostgresLedger,
    protocol::{Amount, SealingKeys},
    settle::WalletSettler,
    verify::EvmVerifier,
};

use super::{payments::NO_QUESTION, street::REALM};
use crate::{
    app,
    market::{PRICE, SELLER},
    shop::INSIGHTS,
};

const SETTINGS: &str = "X402_TEST_STALL";
/// How long a payment waits for a process that was killed.
const LEASE: Duration = Duration::from_secs(9);

/// The program with its node, its ledger and the file of its key.
pub fn program(settings: [&str; 3]) -> Command {
    app::child("mixed_doors::stall::as_a_child", SETTINGS, &settings)
}

/// Not a test of its own: the program that the tests start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let [rpc, ledger, key] = settings.split('\n').collect::<Vec<_>>().try_into().unwrap();
    // A machine that is busy with other tests is no server that hangs.
    let ledger = PostgresLedger::connect(ledger).await.unwrap().time_limit(Duration::from_secs(60));
    ledger.migrate().await.unwrap();
    let merchant = Merchant::builder(SELLER)
        .verifier(EvmVerifier::connect([rpc]).await.unwrap())
        .settler(WalletSettler::builder().key_file(key).endpoint(rpc).connect().await.unwrap())
        .ledger(ledger)
        .sealing_keys(SealingKeys::new([7; 32]))
        .lease(LEASE)
        .mpp(REALM)
        .build()
        .await
        .unwrap();
    let layer = merchant.charge("insights", Amount::from_base_units(PRICE)).unwrap().redeliver(Redelivery::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("listening on http://{}", listener.local_addr().unwrap());
    axum::serve(listener, Router::new().route(INSIGHTS, post(answer).route_layer(layer))).await.unwrap();
}

/// No two the same, and none at once: there is time to be killed.
async fn answer(body: Bytes) -> Response {
    if body == NO_QUESTION {
        return (StatusCode::BAD_REQUEST, r#"{"error":"invalid_query"}"#).into_response();
    }
    let work = Duration::from_millis(rand::rng().random_range(0..100));
    tokio::time::sleep(work).await;
    rand::rng().random::<u128>().to_string().into_response()
}
