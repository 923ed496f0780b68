//! `datasets ledger raise-mark`: what a restored backup does not know is not sold again.

use std::{fs, path::Path};

use tower_x402::{
    clock::{Clock as _, SystemClock},
    protocol::TxHash,
};

use super::{
    app::ended_in,
    market::{Market, PRICE},
    operating::app,
    replicas::{Database, KEY},
};

/// A payment in a block that is later than now: what a mark of now does not refuse.
async fn pay_later(market: &Market) -> TxHash {
    let payment = market.send(market.buyer(0), PRICE).await;
    market.block_at(SystemClock.unix().max(market.now().await) + 3).await;
    payment
}

fn copy_ledger(from: &Path, to: &Path) {
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

#[tokio::test]
async fn a_mark_is_raised_where_a_ledger_is_and_never_into_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemClock.unix();
    let [past, milliseconds] = [now - 10, now * 1000].map(|time| time.to_string());
    for (ledger, to, said) in [
        ("sqlite:typo.db", &past, "restore it first"),
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
