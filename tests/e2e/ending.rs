//! Connections to the datasets program that do nothing, or too little; and how it ends with some of them open.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    app::{App, PATIENT},
    market::{Market, PRICE},
    operating::app,
};
use crate::support::servers::free_port;

async fn connect(app: &App, sent: &str) -> TcpStream {
    let mut stream = TcpStream::connect(app.url().trim_start_matches("http://")).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream
}

const HALF_A_HEAD: &str = "POST /demand-insights HTTP/1.1\r\nhost: x\r\n";

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = app(folder.path(), &market, &["--head-timeout", "1s"]).await;
    for sent in
        ["", HALF_A_HEAD, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET "]
    {
        let mut stream = connect(&app, sent).await;
        let mut all = String::new();
        timeout(Duration::from_secs(20), stream.read_to_string(&mut all)).await.expect("it is closed").unwrap();
        assert_eq!(all.contains("200 OK"), sent.starts_with("GET"), "{sent:?}: {all}");
    }
}

#[tokio::test]
async fn the_end_waits_for_answers_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let listen = format!("127.0.0.1:{}", free_port());
    let flags = ["--shutdown-timeout", "3s", "--head-timeout", "10m"];
    let app = App::start_at(&listen, folder.path().to_owned(), market.chain.rpc_url(), &flags).await;
    // Idle ones, and one whose request is under way.
    let _silent = connect(&app, "").await;
    let _kept = connect(&app, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let request = format!("{HALF_A_HEAD}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{");
    let mut under_way = connect(&app, &request).await;
    sleep(Duration::from_millis(300)).await;
    app.ask_to_end();
    app.says("finishing what is in flight").await;
    assert!(TcpStream::connect(&listen).await.is_err(), "it listens no more");
    under_way.write_all(b"}").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENT, under_way.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_query"), "{answer}");
    let (code, took) = app.ended().await;
    assert!(code == Some(0) && took < Duration::from_secs(2), "{took:?}");

    // One half-sent head does not keep it.
    let app = App::start_at(&listen, folder.path().to_owned(), market.chain.rpc_url(), &flags).await;
    let _half = connect(&app, HALF_A_HEAD).await;
    sleep(Duration::from_millis(300)).await;
    app.ask_to_end();
    let (code, took) = app.ended().await;
    assert!(code == Some(0) && took < Duration::from_secs(15), "{took:?}");

    // A second signal is an order.
    let flags = ["--shutdown-timeout", "10m", "--head-timeout", "10m"];
    let app = App::start_at(&listen, folder.path().to_owned(), market.chain.rpc_url(), &flags).await;
    let _half = connect(&app, HALF_A_HEAD).await;
    sleep(Duration::from_millis(300)).await;
    app.ask_to_end();
    app.says("finishing what is in flight").await;
    app.ask_to_end();
    let (code, took) = app.ended().await;
    assert!(code == Some(0) && took < Duration::from_secs(15), "{took:?}");
}

/// Its payment is as good as before.
#[tokio::test]
async fn who_is_cut_off_at_the_end_buys_from_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let flags = ["--shutdown-timeout", "1s"];
    let before = app(folder.path(), &market, &flags).await;
    let (intent, payment) = (before.intent().await, market.pay(PRICE).await);
    let proof = json!({ "intentId": intent, "txHash": payment.to_string() });
    let head = format!("{HALF_A_HEAD}x402-payment: {proof}\r\ncontent-type: application/json\r\n");
    let mut torn = connect(&before, &format!("{head}content-length: 19\r\n\r\n{{\"query\":")).await;
    sleep(Duration::from_millis(300)).await;
    before.ask_to_end();
    before.says("cutting off").await;
    let mut answer = String::new();
    let _ = timeout(PATIENT, torn.read_to_string(&mut answer)).await.unwrap();
    assert_eq!((answer.as_str(), before.ended().await.0), ("", Some(0)));
    let next = app(folder.path(), &market, &flags).await;
    let _ = next.redeem(&intent, payment).await.taken();
}
