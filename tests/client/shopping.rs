//! The buyer's program: in which way it pays, what it says was bought, and how what is open ends.

use std::{path::Path, time::Duration};

use alloy::signers::{k256::elliptic_curve::rand_core::OsRng, local::PrivateKeySigner};
use axum::{Router, body::Bytes as AxumBytes, routing::any};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::{
    examples::Place,
    programs::{Buyer, child, ended, json, program, run},
};
use crate::{
    served::{
        app::App,
        market::{Market, PRICE, SELLER},
        shop::serve,
    },
    support::tools::write_secret,
};

type Ended = (Option<i32>, String, String);

impl Place {
    /// Runs the buyer's program to its end, with the key in the environment.
    async fn buys(&self, flags: &[&str]) -> Ended {
        let mut command = child(self.folder.path(), flags);
        command.env("X402_BUYER_KEY", self.chain.accounts()[9].private_key());
        command.env("X402_RPC_URL", self.chain.rpc_url());
        ended(command).await
    }

    async fn history(&self) -> Vec<Value> {
        let (code, stdout, said) = self.buys(&["history", "--json"]).await;
        assert_eq!(code, Some(0), "{said}");
        let (start, end) = (stdout.find('[').unwrap(), stdout.rfind(']').unwrap());
        serde_json::from_str(&stdout[start..=end]).unwrap()
    }
}

fn requests(folder: &Path) -> std::path::PathBuf {
    folder.join("x402-purchases.jsonl.requests.jsonl")
}

/// A seller of the x402 standard who asks for a signed payment, and for another one when it is shown.
async fn asks_again() -> String {
    let demand = json!({
        "x402Version": 2,
        "resource": { "url": "https://seller.example/answer" },
        "accepts": [{
            "scheme": "exact", "network": "eip155:8453", "amount": "490000", "payTo": SELLER.to_string(),
            "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "maxTimeoutSeconds": 3600,
            "extra": { "name": "USD Coin", "version": "2" },
        }],
    });
    let demand = STANDARD.encode(demand.to_string());
    let handler = move || std::future::ready((StatusCode::PAYMENT_REQUIRED, [("payment-required", demand.clone())]));
    serve(Router::new().fallback(any(handler))).await
}

#[tokio::test]
async fn each_dialect_pays_in_its_way_and_the_history_says_so() {
    let place = Place::open_to_both(&[]).await;
    let (folder, url) = (place.folder.path(), place.app.insights());
    let (code, _, said) = place.buys(&[&url, r#"{"query":"a"}"#, "--dialect", "transfer"]).await;
    assert!(code == Some(0) && said.contains("paying    ") && !said.contains("signed    "), "{said}");

    // From a keystore, and with no other key about.
    let key = place.chain.accounts()[8].private_key().trim_start_matches("0x");
    let key = alloy::primitives::hex::decode(key).unwrap();
    PrivateKeySigner::encrypt_keystore(folder, &mut OsRng, key, "a password", Some("keystore")).unwrap();
    write_secret(folder.join("password"), "a password\n");
    let question = r#"{"query":"b"}"#;
    let flags = [&url, question, "--dialect", "authorization", "--keystore", "keystore", "--json"];
    let with_keystore = |more: &[&str]| {
        let mut command = child(folder, &[&flags[..], more].concat());
        command.env("X402_RPC_URL", place.chain.rpc_url());
        command
    };
    let mut command = with_keystore(&[]);
    command.env("X402_KEYSTORE_PASSWORD", "another one");
    let (code, _, said) = ended(command).await;
    assert!(code == Some(1) && said.contains("does not open"), "{said}");
    let (code, stdout, said) = ended(with_keystore(&["--password-file", "password"])).await;
    assert!(code == Some(0) && said.contains("signed    ") && !said.contains("paying    "), "{said}");
    let bought = json(&stdout);
    assert_eq!(bought["purchase"]["payer"], place.chain.accounts()[8].address().to_string());
    assert_eq!(place.takings().await, 2 * PRICE);

    let history = place.history().await;
    let ways: Vec<_> = history.iter().map(|entry| (&entry["paidBy"], &entry["state"])).collect();
    assert_eq!(ways, [(&json!("transfer"), &json!("answered")), (&json!("authorization"), &json!("answered"))]);
    assert_eq!(history[1]["transaction"], bought["purchase"]["transaction"]);
    let (code, stdout, _) = place.buys(&["history"]).await;
    let table: Vec<&str> = stdout.lines().skip_while(|line| !line.starts_with("WHEN (UTC)")).collect();
    assert_eq!((code, table.len()), (Some(0), 3), "{stdout}");
    assert!(table[2].contains("POST /demand-insights") && table[2].contains("0.49 USDC"), "{stdout}");
    assert!(table[2].ends_with(history[1]["transaction"].as_str().unwrap()), "{stdout}");
    assert!(!requests(folder).exists());
}

#[tokio::test]
async fn a_dialect_that_the_seller_does_not_speak_pays_nothing() {
    let place = Place::open(&[]).await;
    let (code, _, said) = place.buys(&[&place.app.insights(), r#"{"query":"a"}"#, "--dialect", "authorization"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing was paid"), "{said}");
    assert!(said.contains("--dialect authorization and --dialect mpp send no transfer"), "{said}");

    let (code, _, said) = place.buys(&[&asks_again().await, "--dialect", "transfer"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing was paid") && said.contains("--dialect transfer signs no"), "{said}");

    let other = serve(Router::new().fallback(any(async || (StatusCode::PAYMENT_REQUIRED, "cash only")))).await;
    let (code, stdout, said) = place.buys(&[&other, "--method", "GET"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(stdout.contains("cash only") && said.contains("nothing was paid"), "{said}");
    assert!(place.history().await.is_empty() && !requests(place.folder.path()).exists());
    assert_eq!(place.takings().await, 0);
}

#[tokio::test]
async fn flags_that_make_no_request_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, says) in [
        (&["https://seller.example", "{}", "--method", "GET"][..], "no BODY"),
        (&["https://seller.example", "{", "--method", "post"], "no JSON"),
        (&["seller.example", "{}"], "https://"),
        (&["--journal", "x", "history"], "https://"),
        (&["https://seller.example", "--keystore", "a", "--key-file", "b"], "cannot be used with"),
        (&["cancel"], "PURCHASE"),
    ] {
        let (code, _, said) = ended(child(folder.path(), flags)).await;
        assert!(code == Some(2) && said.contains(says), "{flags:?}: {said}");
    }
    for flags in [&["history"][..], &["resume"], &["cancel", &"0f".repeat(16)]] {
        let (code, _, said) = ended(child(folder.path(), flags)).await;
        assert!(code == Some(1) && said.contains("there is no journal"), "{flags:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_get_has_no_body() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let merchant = market.merchant().await.build().await.unwrap();
    let layer = merchant.charge("answer", "0.49 USDC").unwrap();
    let answer = async |method: Method, headers: HeaderMap, body: AxumBytes| {
        format!("{method}, {:?}, {} bytes", headers.get("content-type"), body.len())
    };
    let url = serve(Router::new().route("/answer", any(answer)).route_layer(layer)).await;
    let mining = async {
        while market.takings().await < PRICE {
            market.block().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        market.block().await;
        std::future::pending::<()>().await
    };
    let flags = [&format!("{url}/answer"), "--method", "get", "--rpc-url", market.chain.rpc_url()];
    let mut command = program(&market, folder.path(), "", &[]);
    command.env("X402_TEST_BUYER_FLAGS", flags.join("\n"));
    let (code, stdout, said) = tokio::select! {
        ended = ended(command) => ended,
        () = mining => unreachable!(),
    };
    assert!(code == Some(0) && stdout.contains("GET, None, 0 bytes"), "{stdout}{said}");
    assert_eq!(market.takings().await, PRICE);
}

async fn mempool_has(market: &Market, payments: u64) {
    let wanted = json!(format!("{payments:#x}"));
    for _ in 0..600 {
        if market.chain.rpc("txpool_status", json!([])).await.unwrap()["pending"] == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing was broadcast");
}

#[tokio::test]
async fn resume_finishes_all_that_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]).await;
    let (folder, goals) = (folder.path(), format!("{}/ai-early-adopters-goals", app.url()));
    let resume = || {
        let mut command = child(folder, &["resume", "--rpc-url", market.chain.rpc_url()]);
        command.env("X402_BUYER_KEY", market.chain.accounts()[9].private_key());
        ended(command)
    };
    for (number, url) in [(1, &app.insights()), (2, &goals)] {
        let buyer = Buyer::start(&market, folder, url, &[]).says("paying").await;
        mempool_has(&market, number).await;
        buyer.kill();
    }
    let kept = std::fs::read_to_string(requests(folder)).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(requests(folder)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    market.block().await;
    assert_eq!(market.takings().await, 2 * PRICE);
    let (code, stdout, said) = resume().await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(stdout.matches(r#""resultType":"chat""#).count(), 2, "{stdout}");
    assert_eq!((market.takings().await, requests(folder).exists()), (2 * PRICE, false));
    let (code, _, said) = resume().await;
    assert!(code == Some(0) && said.contains("Nothing is open"), "{said}");

    // One whose request nobody knows any more is named, and is finished by the command that began it.
    let buyer = Buyer::start(&market, folder, &goals, &[]).says("paying").await;
    mempool_has(&market, 1).await;
    buyer.kill();
    std::fs::remove_file(requests(folder)).unwrap();
    market.block().await;
    let (code, _, said) = resume().await;
    assert!(code == Some(4) && said.contains("requests are not kept here"), "{said}");
    assert!(said.contains("POST /ai-early-adopters-goals") && said.contains("--abandon "), "{said}");
    let (code, _, said) = run(&market, folder, &goals, &["--resume"]).await;
    assert_eq!((code, market.takings().await), (Some(0), 3 * PRICE), "{said}");
}

#[tokio::test]
async fn a_signed_payment_that_nobody_used_is_cancelled() {
    let place = Place::open(&[]).await;
    let url = asks_again().await;
    let (code, stdout, said) = place.buys(&[&url, "--method", "GET", "--json"]).await;
    assert_eq!(code, Some(4), "{said}");
    let told = json(&stdout);
    let purchase = told["outstanding"]["purchase"].as_str().unwrap().to_owned();
    assert!(said.contains(&format!("buy cancel {purchase} --yes")) && told["resumable"] == true, "{said}");
    assert!(requests(place.folder.path()).exists());

    // Shown once more, it is not taken either. It is not signed anew.
    let (code, _, said) = place.buys(&["resume"]).await;
    assert!(code == Some(4) && !said.contains("signed    "), "{said}");

    let (code, _, said) = place.buys(&["cancel", &purchase]).await;
    assert!(code == Some(1) && said.contains("add --yes"), "{said}");
    assert_eq!(place.history().await[0]["open"], true);
    let (code, _, said) = place.buys(&["cancel", &purchase, "--yes"]).await;
    assert!(code == Some(0) && said.contains("Cancelled"), "{said}");
    let history = place.history().await;
    assert_eq!((history.len(), &history[0]["state"]), (1, &json!("void")));
    assert!(!requests(place.folder.path()).exists());
    let (code, _, said) = place.buys(&["cancel", &purchase, "--yes"]).await;
    assert!(code == Some(1) && said.contains("no open purchase"), "{said}");
    assert_eq!(place.takings().await, 0);
}
