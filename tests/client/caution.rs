//! The buyer's program and what it must not do: tell its key, read without end, or let a seller steer its terminal.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use super::programs::{AS_A_CHILD, child, ended, json, program, run};
use crate::{
    served::{
        market::{Market, PRICE},
        shop::{Shop, serve},
    },
    support::{
        Counter,
        servers::{installed, missing},
        tools::write_secret,
    },
};

/// The well-known key of a local chain's account.
const KEY: &str = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
/// Sets the window's title, hides what follows, turns the direction of writing; in ASCII and beyond.
const STEERING: &str = "\u{1b}]0;owned\u{7}\u{9b}8m\u{202e}\r\u{7f}";

/// A service that is free, and counts who asks.
async fn free(answer: impl Fn() -> Body + Clone + Send + Sync + 'static) -> (String, Counter) {
    let asked = Counter::default();
    let counter = asked.clone();
    let handler = move || {
        counter.run();
        std::future::ready(answer())
    };
    (serve(Router::new().fallback(post(handler))).await, asked)
}

fn endless() -> Body {
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())))
}

#[tokio::test]
async fn a_key_in_the_wrong_place_reaches_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = free(Body::empty).await;
    let (in_url, in_json) = (format!("{url}/{KEY}"), format!(r#"{{"query":"{KEY}"}}"#));
    for flags in [
        &[&url, KEY][..],
        &[&url, &KEY[2..]],
        &[&url, &KEY.to_uppercase()],
        &[&url, &in_json],
        &[&in_url, "{}"],
        &[&url, "{}", "--key", KEY],
        &[&url, "{}", "--key-file", KEY],
        // Not quite one, or a list of words that stands for one.
        &[&url, &KEY[..65]],
        &[&url, "test test test test test test test test test test test junk"],
    ] {
        let flags = [flags, &["--rpc-url", "http://127.0.0.1:1"]].concat();
        let (code, stdout, said) = ended(child(folder.path(), &flags)).await;
        assert_eq!((code, asked.runs()), (Some(2), 0), "{flags:?}: {said}");
        assert!(said.contains("error: ") && !format!("{stdout}{said}").contains(&KEY[2..10]), "{flags:?}: {said}");
    }
    // The own one is not sent even where one was told not to look.
    let market = Market::new().await;
    let in_json = in_json.replace(KEY, market.chain.accounts()[9].private_key());
    let mut command = program(&market, folder.path(), &url, &["--no-key-check"]);
    let flags = [&url, &in_json, "--no-key-check", "--rpc-url", market.chain.rpc_url()];
    command.env("X402_TEST_BUYER_FLAGS", flags.join("\n"));
    let (code, _, said) = ended(command).await;
    assert_eq!((code, asked.runs()), (Some(1), 0), "{said}");
}

#[tokio::test]
async fn the_key_may_lie_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::on(tower_x402::testing::DevChain::builder()).await;
    let shop = market.shop().await;
    let url = shop.url("/demand-insights");
    let start = |flags: &[&str]| {
        let flags = [&[&url, "{}", "--rpc-url", market.chain.rpc_url(), "--allow-plain-http"], flags].concat();
        ended(child(folder.path(), &flags))
    };
    let (code, _, said) = start(&[]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--key-file") && said.contains("X402_BUYER_KEY"), "{said}");

    let key = folder.path().join("key");
    write_secret(&key, "not a key");
    let (code, _, said) = start(&["--key-file", "key"]).await;
    assert!(code == Some(1) && said.contains("64 hexadecimal digits"), "{said}");

    write_secret(&key, format!("{}\n", market.chain.accounts()[9].private_key()));
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (code, _, said) = start(&["--key-file", "key"]).await;
    assert!(code == Some(1) && said.contains("chmod 600 key") && market.takings().await == 0, "{said}");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mining = async {
        while market.takings().await < PRICE {
            market.block().await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        market.block().await;
        std::future::pending::<()>().await
    };
    let (code, stdout, said) = tokio::select! {
        ended = start(&["--key-file", "key", "--json"]) => ended,
        () = mining => unreachable!(),
    };
    assert_eq!((code, market.takings().await), (Some(0), PRICE), "{said}");
    assert_eq!(json(&stdout)["purchase"]["answered"], true);
}

#[tokio::test]
async fn an_answer_without_end_is_read_under_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let (url, _) = free(endless).await;
    let (code, stdout, said) = run(&market, folder.path(), &url, &["--max-answer", "1M"]).await;
    assert!(code == Some(1) && said.contains("longer than --max-answer"), "{said}");
    assert_eq!(stdout.matches('x').count(), 1 << 20);

    // Also one that was paid for: what was read of it is there, and the exit code says where the money is.
    let merchant = market.merchant().await.build().await.unwrap();
    let layer = merchant.charge("demand-insights", "0.49 USDC").unwrap();
    let app = Router::new().route("/demand-insights", post(async || endless()).route_layer(layer));
    let shop = Shop::serving(merchant, app, Counter::default()).await;
    let paid = market.pay(PRICE).await.to_string();
    let flags = ["--paid", &paid, "--max-answer", "64K", "--json"];
    let (code, stdout, said) = run(&market, folder.path(), &shop.url("/demand-insights"), &flags).await;
    assert!(code == Some(5) && said.contains("counts it as sold"), "{said}");
    let told = json(&stdout);
    assert_eq!((&told["transaction"], &told["resumable"]), (&Value::from(paid), &false.into()));
    assert_eq!(told["answer"].as_str().unwrap().len(), 64 * 1024);
}

/// Runs it with its standard output on a terminal.
async fn on_a_terminal(market: &Market, folder: &Path, url: &str, flags: &[&str]) -> Option<String> {
    let script = installed("script", &[]).or_else(|| missing("script"))?;
    let inner = program(market, folder, url, flags);
    let mut command = Command::new(script);
    let line = format!("'{}' {}", inner.get_program().to_str().unwrap(), AS_A_CHILD.join(" "));
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(ended(command).await.1)
}

#[tokio::test]
async fn a_seller_does_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let (url, _) = free(|| Body::from(format!("first\n\tsecond {STEERING}ünd\n"))).await;
    let shown = r"second \u001b]0;owned\u0007\u009b8m\u202e\u000d\u007fünd";
    for (flags, shown) in
        [(&[][..], shown), (&["--json"], r"first\n\tsecond \u001b]0;owned\u0007\u009b8m\u202e\r\u007fünd")]
    {
        let Some(screen) = on_a_terminal(&market, folder.path(), &url, flags).await else { return };
        assert!(screen.contains(shown), "{screen:?}");
        assert!(!screen.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{7f}']), "{screen:?}");
    }
    // A file gets what was sent.
    let (_, stdout, _) = run(&market, folder.path(), &url, &[]).await;
    assert!(stdout.contains(STEERING));
}

/// A quote's texts come from the seller, too.
#[tokio::test]
async fn nor_by_the_quote() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let quote = r#"{"recipient":"0x000000000000000000000000000000000000dEaD","chainId":8453,"label":"XX","expiry":4000000000,"amount":"490000","decimals":6,"symbol":"YY"}"#;
    let steering: String = STEERING.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let quote = Arc::new(quote.replace("XX", &steering).replace("YY", &steering));
    let handler = move || {
        let token = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".to_owned();
        let headers = [("pay", quote.to_string()), ("x-price-intent", "x".repeat(40)), ("x-payment-contracts", token)];
        std::future::ready((http::StatusCode::PAYMENT_REQUIRED, headers))
    };
    let url = serve(Router::new().fallback(post(handler))).await;
    let (code, stdout, said) = run(&market, folder.path(), &url, &["--max", "1", "--max-per-day", "0.01"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("quoted") && said.contains("owned"), "{said}");
    for text in [stdout, said] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\r', '\u{7f}']), "{text:?}");
    }
}
