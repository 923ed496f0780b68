//! `datasets ledger raise-mark`: what a restored backup does not know is not sold again.

use std::{fs, path::Path};

use tower_x402::{
    clock::{Clock as _, SystemClock},
    protocol::{Network, PaymentId, PaymentTag, TxHash},
};

use super::{
    app::ended_in,
    market::{Market, PRICE, SELLER, usdc},
    operating::app,
    replicas::{Database, KEY},
};
use crate::support::authorization::authorization;

/// A payment in a block that is later than now: what a mark of now does not refuse.
async fn pay_later(market: &Market) -> TxHash {
    let payment = market.send(market.buyer(0), PRICE).await;
    market.block_at(SystemClock.unix().max(market.now().await) + 3).await;
    payment
}

pub fn copy_ledger(from: &Path, to: &Path) {
    for file in ["x402-ledger.db", "x402-ledger.db-wal", "x402-ledger.db-shm"] {
        let _ = fs::remove_file(to.join(file));
        if from.join(file).exists() {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    }
}

#[tokio::test]
async fn after_a_backup_was_restored_nothing_is_sold_again() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let backup = folder.path().join("backup");
    let start = || app(folder.path(), &market, &[]);
    let before = start().await;
    let _ = before.redeem(&before.intent().await, market.pay(PRICE).await).await.taken();
    before.kill();
    fs::create_dir(&backup).unwrap();
    copy_ledger(folder.path(), &backup);

    let app = start().await;
    let (intents, payment) = ([app.intent().await, app.intent().await], market.pay(PRICE).await);
    let _ = app.redeem(&intents[0], payment).await.taken();
    app.kill();

    // What the backup does not know would be sold again.
    copy_ledger(&backup, folder.path());
    let careless = start().await;
    let _ = careless.redeem(&intents[1], payment).await.taken();
    careless.kill();

    copy_ledger(&backup, folder.path());
    let raise = ["ledger", "raise-mark", "--rpc-url", market.chain.rpc_url()];
    let (code, said) = ended_in(folder.path(), &raise, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("sqlite:x402-ledger.db") && said.contains("payment_too_old"), "{said}");
    let careful = start().await;
    for intent in &intents {
        careful.redeem(intent, payment).await.refused("payment_too_old");
    }
    let _ = careful.redeem(&careful.intent().await, pay_later(&market).await).await.taken();
}

/// Sold, backed up, sold more, restored, replayed: nothing is sold twice, and only what was lost for good is owed.
#[tokio::test]
async fn what_the_log_has_is_sold_again_to_nobody_and_given_back_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let market = Market::new().await;
    let backup = folder.join("backup");
    // As text for the first server, as JSON for the second.
    let first = app(folder, &market, &["--redeliver", "0s"]).await;
    let kept = (first.intent().await, market.pay(PRICE).await);
    let _ = first.redeem(&kept.0, kept.1).await.taken();
    let _ = first.says("sold payment=").await;
    let mut log = first.said();
    first.kill();
    fs::create_dir(&backup).unwrap();
    copy_ledger(folder, &backup);

    let second = app(folder, &market, &["--redeliver", "0s", "--log", "json"]).await;
    let lost = (second.intent().await, market.pay(PRICE).await);
    let _ = second.redeem(&lost.0, lost.1).await.taken();
    let _ = second.says("\"message\":\"sold\"").await;
    log += &second.said();
    second.kill();
    let third = app(folder, &market, &["--redeliver", "0s"]).await;
    let signer = market.chain.accounts()[3].private_key().parse().unwrap();
    let call = authorization(&market.chain, &signer, SELLER, usdc(PRICE), *PaymentTag::of("unused").as_bytes());
    let never_shown = market.call(market.buyer(9), market.chain.usdc(), &call).await;
    let by_text = (third.intent().await, market.pay(PRICE).await);
    let _ = third.redeem(&by_text.0, by_text.1).await.taken();
    let unredeemed = market.pay(PRICE).await;
    let _ = third.says("sold payment=").await;
    log += &third.said();
    third.kill();
    assert_eq!(log.matches("eip155:8453/0x").count(), 3, "{log}");
    assert!([&kept, &lost, &by_text].iter().all(|(intent, _)| !log.contains(intent)), "{log}");
    fs::write(folder.join("shop.log"), format!("{log}not a sale\n")).unwrap();

    copy_ledger(&backup, folder);
    let (seller, since) = (SELLER.to_string(), "2026-01-01");
    let chain = ["--recipient", &seller, "--rpc-url", market.chain.rpc_url()];
    let run = async |flags: &[&str]| ended_in(folder, &[flags, &chain].concat(), &[]).await;
    let replay = ["ledger", "replay", "--since", since, "shop.log"];
    for said in ["2 sales are recorded now, and 1 were on record", "0 sales are recorded now, and 3 were on record"] {
        let (code, told) = run(&replay).await;
        assert!(code == Some(0) && told.contains(said), "{told}");
    }
    let (code, said) = run(&["ledger", "raise-mark"]).await;
    assert_eq!(code, Some(0), "{said}");

    let id = |paid| PaymentId::of_transfer(Network::BASE, paid, 0).to_string();
    let (_, owed) = run(&["unredeemed", "--since", since, "--csv"]).await;
    assert_eq!(owed.matches("below mark").count(), 2, "{owed}");
    assert!(owed.contains(&never_shown.to_string()) && owed.contains(&id(unredeemed)), "{owed}");
    assert!([kept.1, lost.1, by_text.1].iter().all(|sold| !owed.contains(&id(*sold))), "{owed}");

    // Only who looked into the log notes a refund of what is below the mark.
    let (by, unredeemed_id) = (format!("0x{}", "ab".repeat(32)), id(unredeemed));
    let refund = ["refund", "--payment", &unredeemed_id, "--transaction", &by];
    let (code, said) = run(&refund).await;
    assert!(code == Some(1) && said.contains("below the ledger's mark") && said.contains("--not-sold"), "{said}");
    let (code, said) = run(&[&refund[..], &["--not-sold"]].concat()).await;
    assert!(code == Some(0) && said.contains("is noted as given back"), "{said}");

    let careful = app(folder, &market, &["--redeliver", "0s"]).await;
    for (intent, payment) in [&kept, &lost, &by_text] {
        careful.redeem(intent, *payment).await.refused("already_consumed");
        careful.redeem(&careful.intent().await, *payment).await.refused("tx_already_used");
    }
    careful.redeem(&careful.intent().await, unredeemed).await.refused("payment_too_old");
    let _ = careful.redeem(&careful.intent().await, pay_later(&market).await).await.taken();
}

#[tokio::test]
async fn a_log_that_cannot_be_replayed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let market = Market::new().await;
    let server = app(folder, &market, &[]).await;
    server.kill();
    let sold = format!("INFO sold payment=eip155:8453/0x{}/0 resource=\"demand-insights\"\n", "ab".repeat(32));
    fs::write(folder.join("foreign.log"), sold).unwrap();
    fs::write(folder.join("empty.log"), "INFO selling\n").unwrap();
    let seller = SELLER.to_string();
    let chain = ["--recipient", &seller, "--rpc-url", market.chain.rpc_url()];
    for (log, chain, code, said) in [
        ("nowhere.log", &chain[..], 2, "cannot read the log"),
        ("empty.log", &chain, 1, "the log has no sale"),
        ("foreign.log", &chain, 1, "not on the chain since that day"),
        ("foreign.log", &chain[..2], 2, "--rpc-url"),
    ] {
        let flags = [&["ledger", "replay", "--since", "2026-01-01", log], chain].concat();
        let (ended, told) = ended_in(folder, &flags, &[]).await;
        assert!(ended == Some(code) && told.contains(said), "{log}: {told}");
    }
}

#[tokio::test]
async fn a_mark_is_raised_where_a_ledger_is_and_never_into_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemClock.unix();
    let [past, milliseconds] = [now - 10, now * 1000].map(|time| time.to_string());
    for (ledger, to, said) in [
        ("sqlite:typo.db", &past, "there is no ledger"),
        ("memory", &past, "--ledger"),
        ("sqlite:typo.db", &milliseconds, "has come"),
    ] {
        let flags = ["ledger", "raise-mark", "--ledger", ledger, "--to", to];
        let (code, told) = ended_in(folder.path(), &flags, &[]).await;
        assert!(code == Some(2) && told.contains(said), "{told}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let (code, told) = ended_in(folder.path(), &["ledger", "raise-mark"], &[]).await;
    assert!(code == Some(2) && told.contains("--rpc-url"), "{told}");
}

#[tokio::test]
async fn in_a_database_too() {
    let Some(database) = Database::new().await else { return };
    let (folder, market) = (tempfile::tempdir().unwrap(), Market::new().await);
    let url = database.url();
    let raise = ["ledger", "raise-mark", "--rpc-url", market.chain.rpc_url(), "--ledger", &url];
    // Where there is no ledger, none is made.
    let (code, said) = ended_in(folder.path(), &raise, &[]).await;
    assert!(code == Some(1) && said.contains("migrate"), "{said}");

    let flags = ["--ledger", &url, "--sealing-key", KEY];
    let before = app(folder.path(), &market, &flags).await;
    let (intent, payment) = (before.intent().await, market.pay(PRICE).await);
    before.kill();
    let (code, said) = ended_in(folder.path(), &raise, &[]).await;
    assert!(code == Some(0) && said.contains("postgres://") && !said.contains("postgres@"), "{said}");
    let after = app(folder.path(), &market, &flags).await;
    after.redeem(&intent, payment).await.refused("payment_too_old");
    let _ = after.redeem(&intent, pay_later(&market).await).await.taken();
    database.remove().await;
}
