//! SECURITY 27: sellers that are killed (`kill -9`) between a sale and the end of its hook. Every sale is announced.
//!
//! A seller is this program again, told by its environment where its ledger is.

use std::{
    collections::HashSet,
    env, fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use tower_x402::{
    ledger::{BookedSale, SalesBook as _, SalesQuery, SqliteLedger},
    protocol::{Asset, ChainTime, PaymentId, Transfer, TxHash},
};

use super::merchant;
use crate::support::{Counter, NOW, PRICE, Shop, ask, echo, layered, payer, quoted, recipient, redemption};

/// How many sellers are killed.
const KILLS: usize = 8;
/// How long a hook takes: several are under way when a seller dies.
const HOOK: Duration = Duration::from_millis(15);
const PATIENCE: Duration = Duration::from_secs(120);

/// What the hooks wrote down. A line without an end was not written.
fn announced(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("announced")).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.map(str::to_owned).collect()
}

/// The hook: it takes a while, and then writes the payment down.
fn hook(
    folder: &Path,
) -> impl Fn(BookedSale) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + use<> {
    let path = folder.join("announced");
    move |sale| {
        let path = path.clone();
        Box::pin(async move {
            tokio::time::sleep(HOOK).await;
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            file.write_all(format!("{}\n", sale.payment).as_bytes()).unwrap();
        })
    }
}

/// A payment that no other seller has.
fn pay(shop: &Shop) -> TxHash {
    let hash = TxHash::new(rand::random());
    let paid = Transfer::new(tower_x402::protocol::Network::BASE, hash, 0)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(tower_x402::protocol::Amount::from_base_units(490_000))
        .with_block(NOW / 2, ChainTime::from_unix(NOW));
    shop.chain.mine(hash, [paid]);
    hash
}

/// A merchant on the ledger in the folder, whose memory begins an hour ago.
async fn seller(folder: &Path) -> (Shop, Arc<SqliteLedger>, tower_x402::Merchant) {
    let ledger = SqliteLedger::open(folder.join("sales.db")).await.unwrap().time_limit(PATIENCE);
    let (shop, ledger) = (Shop::open().await, Arc::new(ledger));
    shop.chain.set_head(ChainTime::from_unix(NOW - 3600));
    let merchant = merchant(&shop, &ledger, recipient()).await;
    shop.chain.set_head(ChainTime::from_unix(NOW));
    (shop, ledger, merchant)
}

/// Not a test of its own: what the test below starts in processes of their own. It sells until it is killed.
#[tokio::test]
async fn as_a_seller() {
    let Some(folder) = env::var_os("SELLER_FOLDER") else { return };
    let (folder, start) = (Path::new(&folder), Instant::now());
    let (shop, _ledger, merchant) = seller(folder).await;
    let service =
        layered(&merchant.charge("answer", PRICE).unwrap().on_sold(hook(folder)).unwrap(), echo(Counter::default()));
    let replayed = merchant.replay_sales().await.unwrap();
    fs::write(folder.join("replayed"), replayed.to_string()).unwrap();
    while start.elapsed() < PATIENCE {
        let (intent, tx) = (quoted(&service).await, pay(&shop));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sale_is_announced_whenever_its_seller_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut replayed) = (folder.path(), 0);
    for kill in 0..KILLS {
        let before = announced(path).len();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "sold_hook::killed::as_a_seller", "--nocapture", "--test-threads=1"]);
        let log = fs::File::create(path.join("log")).unwrap();
        command.env("SELLER_FOLDER", path).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let (mut process, start) = (command.spawn().unwrap(), Instant::now());
        while announced(path).len() < before + 20 + kill * 7 {
            let log = || fs::read_to_string(path.join("log")).unwrap();
            assert!(process.try_wait().unwrap().is_none(), "it ended by itself: {}", log());
            assert!(start.elapsed() < PATIENCE, "nothing moves: {}", log());
            std::thread::sleep(Duration::from_millis(3));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        replayed += fs::read_to_string(path.join("replayed")).unwrap().parse::<usize>().unwrap();
    }
    let (_shop, ledger, merchant) = seller(path).await;
    let _layer = merchant.charge("answer", PRICE).unwrap().on_sold(hook(path)).unwrap();
    replayed += merchant.replay_sales().await.unwrap();
    assert!(replayed > 0, "no seller died between a sale and the end of its hook");
    assert_eq!(merchant.replay_sales().await.unwrap(), 0);

    let (mut sales, mut sold) = (ledger.sales(SalesQuery::since(std::time::UNIX_EPOCH)), HashSet::new());
    while let Some(sale) = sales.next().await {
        sold.insert(sale.unwrap().payment.to_string());
    }
    let announced = announced(path);
    let distinct: HashSet<_> = announced.iter().cloned().collect();
    assert_eq!(distinct, sold, "what was announced, and what was sold");
    // Only what was cut off is announced again.
    assert!(announced.len() - distinct.len() <= replayed, "{} of {}", announced.len(), distinct.len());
    assert!(distinct.iter().all(|payment| payment.parse::<PaymentId>().is_ok()));
    println!("{} sales, {replayed} announced at a start, {} twice", sold.len(), announced.len() - distinct.len());
}
