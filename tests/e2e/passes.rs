//! Passes over a real chain and real HTTP: bought with a transfer, used up by three processes at once; and a download that breaks.

use std::{collections::HashMap, process::Command};

use futures_util::StreamExt as _;
use rand::Rng as _;
use serde_json::{Value, json};
use tower_x402::protocol::{Asset, ChainTime, Quote};

use super::{
    app::{App, ended_in},
    examples_served::download,
    market::{Market, PRICE, SELLER},
    replicas::{Database, KEY},
    restored::copy_ledger,
    shop::{CONVERSIONS, GOALS, INSIGHTS, client, serve},
};
use crate::{
    kinds::redis_server::Private,
    support::{NOW, Shop, payer},
};

const PASS_PRICE: u128 = 3_900_000;
const FLAGS: [&str; 4] = ["--pass", "10:3.90", "--sealing-key", KEY];

/// A request as a person makes it: status, headers in lower case, body.
fn curl(arguments: &[&str]) -> (u16, HashMap<String, String>, Value) {
    let output = Command::new("curl").args(["-sS", "-i", "--http1.1"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status, lines.filter_map(header).collect(), serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn bought(market: &Market, app: &App) -> String {
    let url = format!("{}/pass", app.url());
    let (status, head, quote) = curl(&["-X", "POST", &url]);
    assert_eq!((status, &quote["pay"]["amount"]), (402, &Value::from("3900000")));
    let payment = market.pay(PASS_PRICE).await;
    let proof = json!({ "intentId": head["x-price-intent"], "txHash": payment.to_string() }).to_string();
    let redeem = || curl(&["-X", "POST", &url, "-H", &format!("x402-payment: {proof}")]);
    let (mut status, mut head, mut told) = redeem();
    // Its node may not know the newest block yet.
    while told["error"] == "tx_not_confirmed" {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (status, head, told) = redeem();
    }
    assert_eq!(status, 200, "{told}");
    assert!(head.contains_key("payment-response"));
    assert_eq!((&told["calls"], &told["expires"]), (&json!(10), &Value::Null));
    // Lost on its way, and asked for again.
    let (_, _, again) = curl(&["-X", "POST", &url, "-H", &format!("x402-payment: {proof}")]);
    assert_eq!(again, told);
    told["pass"].as_str().unwrap().to_owned()
}

/// One call by pass; the status, the code of a refusal, and what is left.
async fn call(app: &App, path: &str, token: &str, body: &Value) -> (u16, String, Option<String>) {
    let request = client().post(format!("{}{path}", app.url())).json(body).header("x402-pass", token);
    let answer = request.send().await.unwrap();
    let told = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), told("x402-error").unwrap_or_default(), told("x402-pass-remaining"))
}

/// Three processes on this ledger, which answer ten calls between them, whatever fails and whoever is killed.
async fn three_processes_answer_ten_calls(ledger: &str) {
    let market = Market::new().await;
    let folder = tempfile::tempdir().unwrap();
    let flags = [&FLAGS[..], &["--ledger", ledger]].concat();
    let start = || App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &flags);
    let apps = [start().await, start().await, start().await];
    let token = bought(&market, &apps[0]).await;
    let question = json!({ "query": "pricing" });
    let wrong = json!({ "filters": { "country": "Germany", "category": "x" } });
    // What fails costs nothing, at any of them.
    for app in &apps {
        let (status, ..) = call(app, CONVERSIONS, &token, &wrong).await;
        assert_eq!(status, 400);
        assert_eq!(call(app, INSIGHTS, "x402p_none", &question).await.1, "invalid_pass");
    }
    let asked = [(INSIGHTS, question.clone()), (GOALS, question.clone()), (CONVERSIONS, json!({ "filters": {} }))];
    let calls = (0..36).map(|number| {
        let (path, body) = &asked[number / 3 % 3];
        call(&apps[number % 3], path, &token, body)
    });
    let told = futures_util::future::join_all(calls).await;
    let mut answered: Vec<u64> = Vec::new();
    for (status, code, remaining) in &told {
        match status {
            200 => answered.push(remaining.as_deref().unwrap().parse().unwrap()),
            _ => assert!(["pass_busy", "payment_required"].contains(&&**code), "{told:?}"),
        }
    }
    assert_eq!(answered.len(), 10, "{told:?}");
    let [one, two, three] = apps;
    for app in [&one, &two] {
        assert_eq!(call(app, GOALS, &token, &question).await, (402, "payment_required".to_owned(), None));
    }
    // The next pass survives a process that is killed.
    let token = bought(&market, &two).await;
    assert_eq!(call(&three, GOALS, &token, &question).await.2.as_deref(), Some("9"));
    one.kill();
    two.kill();
    three.kill();
    let again = start().await;
    assert_eq!(call(&again, INSIGHTS, &token, &question).await.2.as_deref(), Some("8"));
    assert_eq!(market.takings().await, 2 * PASS_PRICE);
    let quote = client().post(again.insights()).json(&question).send().await.unwrap();
    assert_eq!(Quote::from_headers(quote.headers()).unwrap().amount, super::market::usdc(PRICE));
    let quote: Value = quote.json().await.unwrap();
    assert_eq!(
        quote["passes"],
        json!([{ "name": "answers", "label": "10 answers from three datasets", "price": "3.9", "calls": 10, "seconds": null, "url": "/pass" }])
    );
    assert!(!again.said().contains(&token), "no log has a pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_buys_a_pass_that_three_processes_use_up_on_one_file() {
    three_processes_answer_ten_calls("sqlite:ledger.db").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_buys_a_pass_that_three_processes_use_up_on_one_postgres() {
    let Some(database) = Database::new().await else { return };
    three_processes_answer_ten_calls(&database.url()).await;
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_buys_a_pass_that_three_processes_use_up_on_one_redis() {
    let Some(server) = Private::start(&["--appendonly", "yes"]).await else { return };
    three_processes_answer_ten_calls(&server.url()).await;
}

/// 50 MB, cut at random places until they are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_that_breaks_at_random_places_goes_on_with_its_ticket() {
    let shop = Shop::open().await;
    let url = serve(download::router(&shop.merchant).unwrap()).await + "/film";
    let quote = client().get(&url).send().await.unwrap();
    let quote = Quote::from_headers(quote.headers()).unwrap();
    let (token, now) = (Asset::USDC_BASE.contract(), ChainTime::from_unix(NOW));
    let tx = shop.chain.pay(quote.recipient, token, payer(), quote.amount, now);
    let proof = json!({ "intentId": quote.intent.as_str(), "txHash": tx }).to_string();
    let first = client().get(&url).header("x402-payment", proof).send().await.unwrap();
    assert_eq!((first.status().as_u16(), &first.headers()["accept-ranges"]), (200, &"bytes".parse().unwrap()));
    assert_eq!(first.headers()["content-length"], download::LENGTH.to_string());
    let ticket = first.headers()["x402-ticket"].to_str().unwrap().to_owned();

    let (mut film, mut cuts) = (Vec::with_capacity(download::LENGTH), 0);
    let mut answer = first;
    loop {
        let enough = film.len() + rand::rng().random_range(1..12_000_000);
        let mut body = answer.bytes_stream();
        while let Some(chunk) = body.next().await {
            film.extend_from_slice(&chunk.unwrap());
            if film.len() >= enough {
                break;
            }
        }
        // The rest of what is on its way is lost with the connection.
        drop(body);
        if film.len() >= download::LENGTH {
            break;
        }
        cuts += 1;
        let part = client().get(&url).header("x402-pass", &ticket).header("range", format!("bytes={}-", film.len()));
        answer = part.send().await.unwrap();
        assert_eq!(answer.status(), 206);
        assert_eq!(
            answer.headers()["content-range"],
            format!("bytes {}-{}/{}", film.len(), download::LENGTH - 1, download::LENGTH)
        );
    }
    assert!(cuts >= 3, "{cuts}");
    assert_eq!(film.len(), download::LENGTH);
    assert!(film.iter().enumerate().all(|(place, byte)| *byte == download::byte(place)));
    let without = client().get(&url).header("range", "bytes=5-").send().await.unwrap();
    assert_eq!(without.status(), 402);
    assert_eq!(shop.ledger.counts().unwrap().consumed, 1);
}

/// A backup knows a pass as it was then; a pass that was sold since comes back with its sale, from the server's log.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_backup_was_restored_passes_hold_what_it_knows_and_lost_ones_come_back() {
    let market = Market::new().await;
    let folder = tempfile::tempdir().unwrap();
    let flags = [&FLAGS[..], &["--ledger", "sqlite:x402-ledger.db"]].concat();
    let start = || App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &flags);
    let (backup, question) = (folder.path().join("backup"), json!({ "query": "pricing" }));
    std::fs::create_dir(&backup).unwrap();

    let app = start().await;
    let old = bought(&market, &app).await;
    assert_eq!(call(&app, GOALS, &old, &question).await.2.as_deref(), Some("9"));
    app.kill();
    copy_ledger(folder.path(), &backup);
    let app = start().await;
    for left in ["8", "7"] {
        assert_eq!(call(&app, GOALS, &old, &question).await.2.as_deref(), Some(left));
    }
    let new = bought(&market, &app).await;
    assert_eq!(call(&app, GOALS, &new, &question).await.2.as_deref(), Some("9"));
    let _ = app.says("resource=\"answers\"").await;
    std::fs::write(folder.path().join("shop.log"), app.said()).unwrap();
    app.kill();

    copy_ledger(&backup, folder.path());
    let seller = SELLER.to_string();
    let chain = ["--recipient", &seller, "--rpc-url", market.chain.rpc_url(), "--ledger", "sqlite:x402-ledger.db"];
    let replay =
        [&["--pass", "10:3.90"], &chain[..], &["ledger", "replay", "--since", "2026-01-01", "shop.log"]].concat();
    let (code, said) = ended_in(folder.path(), &replay, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let raise = [&chain[..], &["ledger", "raise-mark"]].concat();
    let (code, said) = ended_in(folder.path(), &raise, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    let app = start().await;
    // Two calls of the one and one of the other are made again: those that the backup does not know.
    assert_eq!(call(&app, GOALS, &old, &question).await.2.as_deref(), Some("8"));
    for left in (0..10).rev() {
        assert_eq!(call(&app, GOALS, &new, &question).await.2, Some(left.to_string()));
    }
    assert_eq!(call(&app, GOALS, &new, &question).await.1, "payment_required");
}
