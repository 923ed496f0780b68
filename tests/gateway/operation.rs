//! Reloads, endings, readiness, metrics and logs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower_x402::{
    protocol::{Amount, TxHash},
    testing::DevChain,
};

use crate::{
    program::{PATIENT, Running, SELLER, Shop, free, upstream},
    raw::ask,
    support::tools::write_secret,
};

fn routes(price: &str) -> String {
    format!("[[route]]\nmatch = \"GET /reports/{{id}}\"\nprice = \"{price} USDC\"\n[default]\naction = \"free\"")
}

/// Waits until it is quoted, and gives the quote's body.
pub async fn quote(url: &str) -> Value {
    let deadline = Instant::now() + PATIENT;
    loop {
        let answer = reqwest::get(url).await.unwrap();
        if answer.status() == 402 {
            return serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_under_load_loses_no_request_and_old_quotes_stay_good() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", &routes("0.05"));
    let mut gateway = shop.start();
    let priced = format!("{}/reports/1", gateway.url);
    let old = quote(&priced).await;
    let buyer = chain.accounts()[1].address();
    let transaction = chain.transfer(buyer, SELLER, Amount::from_base_units(50_000)).await.unwrap();

    let (ending, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let load = (0..8).map(|number| {
        let (client, ending, asked) = (client.clone(), Arc::clone(&ending), Arc::clone(&asked));
        let url = if number % 2 == 0 { priced.clone() } else { format!("{}/any", gateway.url) };
        tokio::spawn(async move {
            while !ending.load(Ordering::Relaxed) {
                let answer = client.get(&url).send().await.expect("an answer");
                let status = answer.status().as_u16();
                let body: Value = serde_json::from_slice(&answer.bytes().await.expect("all of it")).unwrap();
                if number % 2 == 0 {
                    let amount = body["pay"]["amount"].as_str().unwrap_or_default();
                    assert!(status == 402 && ["50000", "70000"].contains(&amount), "{status} {body}");
                } else {
                    assert_eq!(status, 200, "{body}");
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let load: Vec<_> = load.collect();
    for round in 0..20 {
        shop.write("", "", &routes(if round % 2 == 0 { "0.07" } else { "0.05" }));
        gateway.signal("-HUP");
        sleep(Duration::from_millis(100)).await;
    }
    shop.write("", "", &routes("0.07"));
    gateway.signal("-HUP");
    let deadline = Instant::now() + PATIENT;
    while quote(&priced).await["pay"]["amount"] != "70000" {
        assert!(Instant::now() < deadline, "{}", gateway.said());
    }
    ending.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert!(asked.load(Ordering::Relaxed) > 100, "{asked:?}");

    // A broken file leaves everything as it is, and so does a change that needs a restart.
    shop.write("", "", &routes("0.09").replace("price", "pryce"));
    gateway.signal("-HUP");
    assert!(gateway.says("the old one stays: ").contains("unknown field `pryce`"));
    shop.write("mpp = \"other.example\"", "", &routes("0.09"));
    gateway.signal("-HUP");
    gateway.says("mpp changed; only routes and prices are reloaded");
    assert_eq!(quote(&priced).await["pay"]["amount"], "70000");

    // What was quoted before at less is sold at that.
    redeemed(&priced, &old["intentId"], transaction).await;
}

/// Shows a transfer with the intent until it counts.
async fn redeemed(url: &str, intent: &Value, transaction: TxHash) {
    let proof = json!({ "intentId": intent, "txHash": transaction.to_string() }).to_string();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let deadline = Instant::now() + PATIENT;
    loop {
        let answer = client.get(url).header("x402-payment", &proof).send().await.unwrap();
        let status = answer.status().as_u16();
        if status == 200 {
            break;
        }
        let body = answer.text().await.unwrap();
        assert!(status == 409 && Instant::now() < deadline, "{status} {body}");
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_of_a_fixed_price_stays_good_once_its_route_is_metered() {
    let builder = DevChain::builder().install_with_npm(true).with_permit2();
    let chain = builder.mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    write_secret(shop.folder.path().join("settle.key"), chain.accounts()[3].private_key());
    let settles = "settle_key_file = \"settle.key\"";
    shop.write("", settles, &routes("0.05"));
    let mut gateway = shop.start();
    let priced = format!("{}/reports/1", gateway.url);
    let old = quote(&priced).await;
    let buyer = chain.accounts()[1].address();
    let transaction = chain.transfer(buyer, SELLER, Amount::from_base_units(50_000)).await.unwrap();
    shop.write("", settles, &routes("0.05").replace("\"0.05 USDC\"", "{ up_to = \"0.10 USDC\" }"));
    gateway.signal("-HUP");
    gateway.says("reloaded the configuration");
    redeemed(&priced, &old["intentId"], transaction).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_finishes_what_is_in_flight_and_ends_in_time() {
    let upstream = upstream();
    let (_shop, mut gateway) = free(&upstream);
    // Three seconds of events, and a stream that would never end.
    let mut events = reqwest::get(format!("{}/events", gateway.url)).await.unwrap();
    assert!(events.chunk().await.unwrap().is_some());
    gateway.signal("-TERM");
    gateway.says("finishing what is in flight");
    let mut rest = Vec::new();
    while let Some(event) = timeout(PATIENT, events.chunk()).await.unwrap().unwrap() {
        rest.extend_from_slice(&event);
    }
    assert_eq!(rest, b"data: 1\n\ndata: 2\n\n");
    drop(events);
    let (code, took) = gateway.ended();
    assert_eq!(code, Some(0), "{}", gateway.said());
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_cut_off_within_15_seconds() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // An answer before its request would be none.
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4_096]).await.unwrap();
        assert!(read > 0);
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n.\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        std::future::pending::<()>().await;
    });
    let shop = Shop::new(crate::program::NOWHERE, &url);
    shop.write("", "", "[default]\naction = \"free\"");
    let mut gateway = shop.start();
    let mut endless = reqwest::get(format!("{}/endless", gateway.url)).await.unwrap();
    assert_eq!(endless.status(), 200, "{}", gateway.said());
    assert!(endless.chunk().await.unwrap().is_some());
    gateway.signal("-TERM");
    let (code, took) = gateway.ended();
    assert_eq!(code, Some(0), "{}", gateway.said());
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(16), "{took:?}");
}

fn status_url(gateway: &mut Running) -> String {
    gateway.says("status on ").split(['"', '\n']).next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_and_metrics_have_a_port_of_their_own() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("status = \"127.0.0.1:0\"", "", &routes("0.05"));
    let mut gateway = shop.start();
    let status = status_url(&mut gateway);
    quote(&format!("{}/reports/1", gateway.url)).await;
    let ready = ask(&status, "GET /readyz", "").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    let metrics = ask(&status, "GET /metrics", "").await;
    assert!(metrics.status == 200 && metrics.body.contains("x402_"), "{metrics:?}");
    // Clients do not get there.
    assert!(!ask(&gateway.url, "GET /metrics", "").await.body.contains("x402_"));
    drop(chain);
    let deadline = Instant::now() + PATIENT;
    loop {
        let ready = ask(&status, "GET /readyz", "").await;
        if ready.status == 503 && ready.body.starts_with("not ready: ") {
            break;
        }
        assert!(Instant::now() < deadline, "{ready:?}");
        sleep(Duration::from_millis(500)).await;
    }
    // What is free is served without a chain, and what is not is not given away.
    assert_eq!(ask(&gateway.url, "GET /any", "").await.status, 200);
    assert_ne!(ask(&gateway.url, "GET /reports/1", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_json_lines() {
    let upstream = upstream();
    let shop = Shop::new(crate::program::NOWHERE, &upstream.url);
    shop.write("status = \"127.0.0.1:0\"", "", &routes("0.05"));
    let mut gateway = Running::start(&mut shop.command(&["--log", "json"]));
    ask(&gateway.url, "GET /broken", "").await;
    gateway.says("upstream");
    gateway.signal("-TERM");
    gateway.ended();
    for line in gateway.said().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
}
