//! The datasets program as an operator has it: what it says, how it is changed while quotes are open, and how it begins.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;
use tokio::time::{sleep, timeout};
use tower_x402::{
    clock::{Clock as _, SystemClock},
    protocol::Address,
    testing::contracts,
};

use super::{
    app::{App, PATIENT, ended, ended_in},
    market::{Market, PRICE, SELLER, usdc},
    node::Node,
    support::tools::write_secret,
};

const SUCCESSOR: Address = Address::new([0x5f; 20]);

pub async fn app(folder: &Path, market: &Market, flags: &[&str]) -> App {
    App::start_in(folder.to_owned(), market.chain.rpc_url(), flags).await
}

#[tokio::test]
async fn it_says_whom_it_pays_and_how() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let rpc = format!("{0},{0}", market.chain.rpc_url());
    let flags = ["--finality", "3", "--price", "0.10", "--hold-unbound", "10s", "--redeliver", "2h"];
    let app = App::start_in(folder.path().to_owned(), &rpc, &flags).await;
    let said = app.said();
    for fact in [
        &format!("recipient={SELLER}"),
        "chains=\"eip155:8453\"",
        "sqlite:x402-ledger.db",
        "3 blocks",
        "endpoints=2",
        "0.10",
        "held for 10s",
        "redelivery=\"2h\"",
        &market.chain.usdc().to_string(),
    ] {
        assert!(said.contains(fact), "{fact} in {said}");
    }
    // Not a terminal: no codes for colours. Nor the node's address, which may hold a key.
    assert!(!said.contains('\u{1b}') && !said.contains(market.chain.rpc_url()), "{said}");
}

#[tokio::test]
async fn json_is_all_it_says_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = app(folder.path(), &market, &["--log", "json", "--ledger", "memory"]).await;
    app.ask_to_end();
    let said = app.said();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let line = lines.iter().find(|line| line["message"] == "selling").unwrap();
    assert_eq!((&line["recipient"], &line["endpoints"]), (&SELLER.to_string().into(), &1.into()));
    assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"datasets".into()));
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(lines.iter().any(|line| line["level"] == "WARN"), "{said}");

    // Also the last word of one that fails.
    let (code, said) =
        ended(&["--log", "json", "--recipient", &SELLER.to_string(), "--rpc-url", "http://127.0.0.1:1"]).await;
    let line = said.lines().find(|line| line.starts_with('{')).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((code, &line["level"]), (Some(1), &"ERROR".into()));
}

#[tokio::test]
async fn a_payer_who_paid_before_the_recipient_changed_gets_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let before = app(folder.path(), &market, &[]).await;
    let (intent, payment) = (before.intent().await, market.pay(PRICE).await);
    before.kill();

    let (former, successor) = (SELLER.to_string(), SUCCESSOR.to_string());
    let changed = ["--recipient", &successor, "--former-recipient", &former];
    // Forgotten, it costs the payer the answer; the payment waits for a seller who remembers.
    let forgetful = app(folder.path(), &market, &changed[..2]).await;
    forgetful.redeem(&intent, payment).await.refused("intent_not_found");
    forgetful.kill();
    let after = app(folder.path(), &market, &changed).await;
    let quote = after.ask().await;
    assert_eq!(quote.body["pay"]["recipient"], successor);
    let _ = after.redeem(&intent, payment).await.taken();
    after.redeem(&intent, payment).await.refused("already_consumed");
}

#[tokio::test]
async fn a_payer_who_paid_before_the_token_changed_gets_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let coin = market.deploy_with(contracts::COIN, &[6.into()]).await;
    market.call(market.buyer(0), coin, &contracts::mint(market.buyer(0), usdc(PRICE))).await;
    let (coin_text, usdc_text) = (coin.to_string(), market.chain.usdc().to_string());
    let before = app(folder.path(), &market, &["--token", &coin_text]).await;
    let intent = before.intent().await;
    let payment = market.call(market.buyer(0), coin, &contracts::transfer(SELLER, usdc(PRICE))).await;
    before.kill();
    let after = app(folder.path(), &market, &["--token", &usdc_text, "--former-token", &coin_text]).await;
    assert_eq!(after.ask().await.body["contracts"], serde_json::json!([usdc_text]));
    let _ = after.redeem(&intent, payment).await.taken();
}

#[tokio::test]
async fn a_key_file_is_rotated_while_quotes_are_open() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let file = folder.path().join("keys");
    let (old, new) = ("0a".repeat(32), "0b".repeat(32));
    let start = || app(folder.path(), &market, &["--sealing-key", "keys"]);
    write_secret(&file, format!("{old}\n"));
    let before = start().await;
    let (intent, payment) = (before.intent().await, market.pay(PRICE).await);
    before.kill();

    fs::write(&file, format!("{new}\n{old}\n")).unwrap();
    let rotated = start().await;
    let _ = rotated.redeem(&intent, payment).await.taken();
    let (intent, payment) = (rotated.intent().await, market.pay(PRICE).await);
    rotated.kill();

    // The new key seals: the old one is gone, and nothing is lost.
    fs::write(&file, format!("{new}\n")).unwrap();
    let done = start().await;
    let _ = done.redeem(&intent, payment).await.taken();
    done.kill();

    fs::write(&file, format!("{new}\n{}\n", &old[1..])).unwrap();
    let flags = ["--recipient", &SELLER.to_string(), "--rpc-url", market.chain.rpc_url(), "--sealing-key", "keys"];
    let (code, said) = ended_in(folder.path(), &flags, &[]).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("line 2 is no key") && said.contains("one key a line"), "{said}");
    assert!(!said.contains(&old[..8]), "{said}");

    // Nor is one taken that others can read.
    fs::write(&file, format!("{new}\n")).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let (code, said) = ended_in(folder.path(), &flags, &[]).await;
    assert!(code == Some(2) && said.contains("chmod 600 keys") && !said.contains(&new[..8]), "{said}");
}

#[tokio::test]
async fn a_node_that_is_down_at_the_start_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (market, mut node) = (Market::new().await, Node::down());
    let begin = |flags: &[&str]| App::begin_at("127.0.0.1:0", folder.path().to_owned(), &node.url(), flags, &[]);
    let (code, _) = begin(&[]).ended().await;
    assert_eq!(code, Some(1));
    let app = begin(&["--wait-for-rpc", "5m"]);
    app.says("waiting for the chain").await;
    node.comes_up(&market).await;
    app.listening().await;
}

#[tokio::test]
async fn without_a_node_what_is_free_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (market, mut node) = (Market::new().await, Node::down());
    let before = app(folder.path(), &market, &[]).await;
    let (intent, payment) = (before.intent().await, market.pay(PRICE).await);
    before.kill();

    let app = App::start_in(folder.path().to_owned(), &node.url(), &["--start-without-rpc"]).await;
    for (path, status) in [("/", 200), ("/healthz", 200), ("/developer/analytics-filters", 200), ("/readyz", 503)] {
        assert_eq!(app.get(path).await.status, status, "{path}");
    }
    let unfit = app.ask().await;
    assert_eq!((unfit.status, unfit.code()), (503, "verification_unavailable"));
    app.present(&intent, payment).await.refused("verification_unavailable");

    node.comes_up(&market).await;
    ready(&app).await;
    let _ = app.redeem(&intent, payment).await.taken();
    node.goes_down().await;
    for _ in 0..100 {
        if app.get("/readyz").await.status == 503 {
            break;
        }
        sleep(Duration::from_millis(200)).await;
    }
    let unready = app.get("/readyz").await;
    assert!(unready.status == 503 && unready.body.as_str().unwrap().contains("RPC endpoint"), "{}", unready.body);
    assert!(!unready.body.as_str().unwrap().contains("127.0.0.1"));
    // Nobody restarts it for that, and nobody's payment is lost.
    assert_eq!(app.get("/healthz").await.status, 200);
    node.comes_up(&market).await;
    market.block_at(SystemClock.unix().max(market.now().await + 1)).await;
    ready(&app).await;
}

async fn ready(app: &App) {
    let ready = async {
        while app.get("/readyz").await.status != 200 {
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(PATIENT, ready).await.unwrap();
}
