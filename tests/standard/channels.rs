//! Payment channels: the official client opens one at the example, buys by it, forgets it, finds it again, and has the rest back.

use std::{path::Path, time::Duration};

use clap::Parser as _;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tower_x402::protocol::channel::BATCH_SETTLEMENT;

use super::{
    PATIENT, SELLER, Token, World,
    programs::{lines, script},
};
use crate::{
    metered_example::{args::Args, channels::list, merchant::merchant, run},
    served::shop::client,
    support::{servers::free_port, tools::write_secret},
};

/// Of an answer of six words, in base units.
const SIX: u128 = 6_000;

/// The example, which sells by channels on a chain.
struct Seller {
    world: World,
    folder: tempfile::TempDir,
    port: u16,
    server: JoinHandle<()>,
}

impl Drop for Seller {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Seller {
    async fn open() -> Option<Self> {
        let world = World::with(Token::Ours).await?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        write_secret(folder.path().join("gas.key"), world.settler().private_key());
        write_secret(folder.path().join("claims.key"), world.chain.accounts()[3].private_key());
        let args = args(&world, folder.path(), port, "serve");
        let server = tokio::spawn(async move { run(&args).await.map_err(|error| error.to_string()).unwrap() });
        let seller = Self { world, folder, port, server };
        let listens = async {
            while client().get(seller.url()).send().await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENT, listens).await.unwrap();
        Some(seller)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/words", self.port)
    }

    /// `metered` with the server's flags, while the server runs.
    fn args(&self, task: &str) -> Args {
        args(&self.world, self.folder.path(), self.port, task)
    }

    /// `metered claim`. Blocks come quickly meanwhile.
    async fn claim(&self) {
        let blocks = async {
            loop {
                sleep(Duration::from_millis(100)).await;
                self.world.chain.mine(1).await.unwrap();
            }
        };
        let args = self.args("claim");
        tokio::select! {
            done = run(&args) => done.unwrap(),
            () = blocks => {}
        }
    }

    /// The fields of the lines of `metered channels` below the first.
    async fn listed(&self) -> Vec<Vec<String>> {
        let text = list(&merchant(&self.args("channels")).await.unwrap()).await.unwrap();
        text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// How many transactions the seller sent.
    async fn sent(&self) -> u64 {
        let account = json!([self.world.settler().address().to_string(), "latest"]);
        let count = self.world.chain.rpc("eth_getTransactionCount", account).await.unwrap();
        u64::from_str_radix(count.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    }

    /// Runs the official client, which knows nothing of its channel at its start.
    async fn client(&self, steps: &[&str]) -> Vec<Value> {
        let mut command = script("channel.mjs").await;
        command.args([&*self.url(), self.world.buyer().private_key(), self.world.chain.rpc_url()]).args(steps);
        lines(&mut command).await
    }
}

fn args(world: &World, folder: &Path, port: u16, task: &str) -> Args {
    let file = |name: &str| folder.join(name).display().to_string();
    Args::parse_from([
        "metered",
        task,
        "--channels",
        &format!("--listen=127.0.0.1:{port}"),
        &format!("--recipient={SELLER}"),
        &format!("--sealing-key={}", "07".repeat(32)),
        &format!("--rpc-url={}", world.chain.rpc_url()),
        &format!("--ledger=sqlite:{}", file("ledger.db")),
        &format!("--settle-key-file={}", file("gas.key")),
        &format!("--receiver-authorizer-key-file={}", file("claims.key")),
    ])
}

/// What was charged for an answer of six words, and in all since the channel was opened.
#[track_caller]
fn sold(bought: &Value, statuses: &[u64]) -> u128 {
    assert_eq!((bought["status"].as_u64(), &bought["statuses"]), (Some(200), &json!(statuses)), "{bought}");
    assert_eq!((&bought["words"], &bought["settled"]["extra"]["chargedAmount"]), (&json!(6), &json!(SIX.to_string())));
    let total = &bought["settled"]["extra"]["channelState"]["chargedCumulativeAmount"];
    total.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_buys_fifty_answers_by_one_deposit_and_has_the_rest_back() {
    let Some(seller) = Seller::open().await else { return };
    let payer = seller.world.buyer().address();
    let purse = seller.world.balance(payer).await;

    // At most ten words are asked for, and six are made.
    let bought = seller.client(&["buy:one two three:10:26", "forget", "buy:one two three:10:25"]).await;
    assert_eq!(bought.len(), 51);
    for (sale, bought) in bought.iter().enumerate() {
        // It knows of no sale, begins at what is claimed, and is corrected.
        let statuses: &[u64] = if sale == 26 { &[402, 200] } else { &[200] };
        assert_eq!(sold(bought, statuses), SIX * (sale as u128 + 1));
        assert_eq!(bought["settled"]["transaction"] == "", sale > 0, "{bought}");
    }
    assert_eq!(seller.sent().await, 1, "the deposit");
    let deposit: u128 = bought[0]["settled"]["amount"].as_str().unwrap().parse().unwrap();
    assert_eq!(seller.world.balance(payer).await, purse - deposit);

    seller.claim().await;
    assert_eq!((seller.world.balance(SELLER).await, seller.sent().await), (51 * SIX, 3));
    seller.claim().await;
    assert_eq!(seller.sent().await, 3, "nothing is left to claim");

    // A further process begins at what the chain says is claimed.
    let last = seller.client(&["buy:one two three:10:1", "close"]).await;
    assert_eq!(sold(&last[0], &[200]), 52 * SIX);
    assert_eq!(last[1]["settled"]["amount"], (deposit - 52 * SIX).to_string());
    assert_eq!(seller.world.balance(payer).await, purse - 52 * SIX);
    let listed = async || {
        let channels = seller.listed().await;
        assert_eq!(channels.len(), 1, "{channels:?}");
        channels[0][1..].to_vec()
    };
    // The refund has claimed the last one, in a block that may go.
    assert_eq!(listed().await, [&*payer.to_string(), "0.312", "0.306", "0.006", "none"]);
    seller.claim().await;
    assert_eq!(listed().await, [&*payer.to_string(), "0.312", "0.312", "0", "none"]);
    assert_eq!((seller.world.balance(SELLER).await, seller.world.balance(BATCH_SETTLEMENT).await), (52 * SIX, 0));
    assert_eq!(seller.sent().await, 5, "the refund, and a sweep");
}
