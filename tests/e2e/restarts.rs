//! The datasets program on its ledgers: what it remembers after the end, and under which flags it does not begin.

use std::{fs, path::Path};

use super::{
    app::{App, ended, ended_in},
    market::{Market, PRICE, SELLER},
};
use crate::support::servers::free_port;

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
/// Stands in every URL here, and must not come out.
const SECRET: &str = "hunter2";

/// By the flags of a newcomer: nothing is said of ledger and key.
#[tokio::test]
async fn a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let start = || App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]);

    let app = start().await;
    let (sold, paid_for) = (app.intent().await, market.pay(PRICE).await);
    let _ = app.redeem(&sold, paid_for).await.taken();
    let (quoted, waiting) = (app.intent().await, market.pay(PRICE).await);
    app.kill();
    assert_kept(folder.path());

    let app = start().await;
    app.redeem(&sold, paid_for).await.refused("already_consumed");
    app.redeem(&app.intent().await, paid_for).await.refused("tx_already_used");
    let _ = app.redeem(&quoted, waiting).await.taken();
    app.kill();

    // A lost key costs quotes, not payments: the same payment buys its answer under a fresh intent.
    let app = start().await;
    let (quoted, waiting) = (app.intent().await, market.pay(PRICE).await);
    app.kill();
    fs::remove_file(folder.path().join("x402-ledger.db.key")).unwrap();
    let app = start().await;
    let fresh = app.redeem(&quoted, waiting).await.refused("intent_not_found").fresh_intent();
    let _ = app.redeem(&fresh, waiting).await.taken();
    app.redeem(&fresh, paid_for).await.refused("already_consumed");
}

/// Ledger and key lie there, for their owner alone.
fn assert_kept(folder: &Path) {
    for name in ["x402-ledger.db", "x402-ledger.db.key"] {
        let file = fs::metadata(folder.join(name)).unwrap();
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777, 0o600, "{name}");
        assert!(file.is_file());
    }
}

/// Two who start at once where nothing is yet.
#[tokio::test]
async fn two_on_one_file_have_one_key_and_one_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let path = format!("sqlite:{}", folder.path().join("sales.db").display());
    let flags = ["--ledger", &path];
    let start = || App::start(market.chain.rpc_url(), &flags);
    let (left, right) = tokio::join!(start(), start());
    let (intent, payment) = (left.intent().await, market.pay(PRICE).await);
    let _ = right.redeem(&intent, payment).await.taken();
    left.redeem(&intent, payment).await.refused("already_consumed");
}

#[tokio::test]
async fn memory_ends_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let start = || App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &["--ledger", "memory"]);
    let app = start().await;
    let (intent, payment) = (app.intent().await, market.pay(PRICE).await);
    let _ = app.redeem(&intent, payment).await.taken();
    app.kill();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // Neither the key nor the sale is known; the payment is refused all the same.
    let app = start().await;
    let fresh = app.redeem(&intent, payment).await.refused("intent_not_found").fresh_intent();
    app.redeem(&fresh, payment).await.refused("payment_too_old");
}

#[tokio::test]
async fn a_server_says_where_it_is_and_how_its_seller_is_reached() {
    let market = Market::new().await;
    let old = market.pay(PRICE).await;
    let flags = ["--ledger", "memory", "--public-url", "https://shop.example/api", "--contact", "pay@shop.example"];
    let app = App::start(market.chain.rpc_url(), &flags).await;
    let described = app.get("/openapi.json").await;
    assert_eq!(described.body["servers"][0]["url"], "https://shop.example/api");
    let refused = app.redeem(&app.intent().await, old).await.refused("payment_too_old");
    assert_eq!(refused.body["contact"], "pay@shop.example");
    let seller = SELLER.to_string();
    let flags = ["--recipient", &seller, "--rpc-url", market.chain.rpc_url(), "--ledger", "memory"];
    let wrong = ended(&[&flags[..], &["--public-url", "shop.example"]].concat()).await;
    assert_ended(wrong, 2, "--public-url");
}

#[tokio::test]
async fn replicas_without_a_key_of_theirs_are_refused_at_once() {
    let seller = SELLER.to_string();
    for url in ["postgres://u:hunter2@host/db", "postgresql://hunter2", "redis://:hunter2@host", "rediss://hunter2"] {
        // No chain is asked for it.
        let flags = ["--recipient", &seller, "--rpc-url", "http://127.0.0.1:1", "--ledger", url];
        assert_ended(ended(&flags).await, 2, "--sealing-key");
        assert_ended(ended(&["--dev", "--ledger", url]).await, 2, "--sealing-key");
        // Nor does it matter how it is said.
        let by_environment = ended_in(&std::env::temp_dir(), &["--dev"], &[("X402_LEDGER", url)]).await;
        assert_ended(by_environment, 2, "--sealing-key");
    }
}

#[tokio::test]
async fn a_ledger_that_is_none_is_refused() {
    for (wrong, said) in [
        ("mysql://u:hunter2@host", "`sqlite:PATH`"),
        ("hunter2", "`sqlite:PATH`"),
        ("sqlite:", "path of a file"),
        ("", "`memory`"),
    ] {
        assert_ended(ended(&["--dev", "--ledger", wrong]).await, 2, said);
    }
    // A URL where the flag was forgotten.
    assert_ended(ended(&["--dev", "postgres://u:hunter2@host"]).await, 2, "unrecognized subcommand");
}

#[tokio::test]
async fn help_names_the_ledgers_and_shows_none() {
    let folder = std::env::temp_dir();
    let variables = [("X402_LEDGER", "redis://u:hunter2@host"), ("X402_KEY", "hunter2")];
    let (code, said) = ended_in(&folder, &["--help"], &variables).await;
    assert_eq!(code, Some(0));
    assert!(said.contains("sqlite:PATH") && said.contains("X402_LEDGER"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test]
async fn a_ledger_that_cannot_be_reached_is_told_without_its_url() {
    let market = Market::new().await;
    let (seller, port, folder) = (SELLER.to_string(), free_port(), tempfile::tempdir().unwrap());
    let no_folder = format!("sqlite:{}", folder.path().join("none/ledger.db").display());
    let no_ledger = folder.path().join("letter.db");
    fs::write(&no_ledger, "Dear reader, ".repeat(1000)).unwrap();
    for (ledger, code, said) in [
        (format!("postgres://u:{SECRET}@127.0.0.1:{port}/{SECRET}?{SECRET}={SECRET}"), 1, "PostgreSQL"),
        (format!("redis://u:{SECRET}@127.0.0.1:{port}"), 1, "Redis"),
        (format!("postgres://u:{SECRET}@127.0.0.1:{SECRET}"), 2, "postgres://user:password@host"),
        (format!("redis://u:{SECRET}@127.0.0.1:{SECRET}"), 2, "redis://user:password@host"),
        (no_folder, 1, "none/ledger.db"),
        (format!("sqlite:{}", no_ledger.display()), 1, "letter.db"),
    ] {
        let flags = ["--listen", "127.0.0.1:0", "--recipient", &seller, "--rpc-url", market.chain.rpc_url()];
        let flags = [&flags[..], &["--sealing-key", KEY, "--ledger", &ledger]].concat();
        let told = ended(&flags).await;
        assert!(!told.1.contains(&port.to_string()), "{}", told.1);
        assert_ended(told, code, said);
    }
}

/// With this code, and one sentence with this in it, as the last word.
#[track_caller]
fn assert_ended((code, all): (Option<i32>, String), expected: i32, part: &str) {
    assert_eq!(code, Some(expected), "{all}");
    let errors: Vec<_> = all.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains(part), "{all}");
    assert_eq!(all.lines().last(), Some(errors[0]));
    assert!(!all.contains(SECRET), "{all}");
}
