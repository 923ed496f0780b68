//! Payment channels: the official client opens one at the example, buys by it, forgets it, finds it again, and has the rest back.

use std::{path::Path, time::Duration};

use clap::Parser as _;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tower_x402::protocol::channel::BATCH_SETTLEMENT;

use super::{
    PATIENT, SELLER, Token, World,
    facilitator::Facilitator,
    programs::{lines, script},
};
use crate::{
    metered_example::{args::Args, channels::list, merchant::merchant, run},
    served::shop::client,
    support::{servers::free_port, tools::write_secret},
};

/// Of an answer of six words, in base units.
pub const SIX: u128 = 6_000;

/// Who sends the transactions, and who signs claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The seller's keys.
    Wallet,
    /// A facilitator, and a key of the seller's.
    FacilitatorAndKey,
    /// A facilitator.
    Facilitator,
}

/// The example, which sells by channels on a chain.
struct Seller {
    world: World,
    _facilitator: Option<Facilitator>,
    /// How its transactions are sent.
    flags: Vec<String>,
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
    async fn open(by: By) -> Option<Self> {
        // With Multicall3, which the official facilitator reads by.
        let world = World::with(if by == By::Wallet { Token::Ours } else { Token::Circles }).await?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let (gas, claims) = (folder.path().join("gas.key"), folder.path().join("claims.key"));
        let authorizer = world.chain.accounts()[3].private_key();
        write_secret(&gas, world.settler().private_key());
        write_secret(&claims, authorizer);
        let own = format!("--receiver-authorizer-key-file={}", claims.display());
        let facilitator = match by {
            By::Wallet => None,
            By::FacilitatorAndKey => Some(Facilitator::start(&world).await),
            By::Facilitator => Some(Facilitator::start_with(&world, &["--authorizer", authorizer]).await),
        };
        let settles = match &facilitator {
            Some(facilitator) => format!("--facilitator={}", facilitator.url()),
            None => format!("--settle-key-file={}", gas.display()),
        };
        let flags = if by == By::Facilitator { vec![settles] } else { vec![settles, own] };
        let args = args(&world, folder.path(), port, "serve", &flags);
        let server = tokio::spawn(async move { run(&args).await.unwrap() });
        let seller = Self { world, _facilitator: facilitator, flags, folder, port, server };
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
        args(&self.world, self.folder.path(), self.port, task, &self.flags)
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

    async fn client(&self, steps: &[&str]) -> Vec<Value> {
        official(&self.world, &self.url(), steps).await
    }
}

/// Runs the official client, which knows nothing of its channel at its start.
pub async fn official(world: &World, url: &str, steps: &[&str]) -> Vec<Value> {
    let mut command = script("channel.mjs").await;
    command.args([url, world.buyer().private_key(), world.chain.rpc_url()]).args(steps);
    lines(&mut command).await
}

fn args(world: &World, folder: &Path, port: u16, task: &str, flags: &[String]) -> Args {
    let common = [
        "metered",
        task,
        "--channels",
        &format!("--listen=127.0.0.1:{port}"),
        &format!("--recipient={SELLER}"),
        &format!("--sealing-key={}", "07".repeat(32)),
        &format!("--rpc-url={}", world.chain.rpc_url()),
        &format!("--ledger=sqlite:{}", folder.join("ledger.db").display()),
    ];
    Args::parse_from(common.into_iter().chain(flags.iter().map(String::as_str)))
}

/// What was charged for an answer of six words, and in all since the channel was opened.
#[track_caller]
pub fn sold(bought: &Value, statuses: &[u64]) -> u128 {
    assert_eq!((bought["status"].as_u64(), &bought["statuses"]), (Some(200), &json!(statuses)), "{bought}");
    assert_eq!((&bought["words"], &bought["settled"]["extra"]["chargedAmount"]), (&json!(6), &json!(SIX.to_string())));
    let total = &bought["settled"]["extra"]["channelState"]["chargedCumulativeAmount"];
    total.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_buys_fifty_answers_by_one_deposit_and_has_the_rest_back() {
    let Some(seller) = Seller::open(By::Wallet).await else { return };
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
    seller.claim().await;
    assert_eq!((seller.world.balance(SELLER).await, seller.world.balance(BATCH_SETTLEMENT).await), (52 * SIX, 0));
    assert_eq!(seller.sent().await, 5, "the refund, and a sweep");
    let channels = seller.listed().await;
    assert_eq!(channels.len(), 1, "{channels:?}");
    assert_eq!(channels[0][1..], [&*payer.to_string(), "0.312", "0.312", "0", "none"]);
}

/// The same at a seller whose transactions an official facilitator sends.
async fn is_kept_through_a_facilitator(by: By) {
    let Some(seller) = Seller::open(by).await else { return };
    let payer = seller.world.buyer().address();
    let purse = seller.world.balance(payer).await;
    let bought = seller.client(&["buy:one two three:10:3", "forget", "buy:one two three:10:2"]).await;
    for (sale, bought) in bought.iter().enumerate() {
        let statuses: &[u64] = if sale == 3 { &[402, 200] } else { &[200] };
        assert_eq!(sold(bought, statuses), SIX * (sale as u128 + 1), "{by:?}");
    }
    seller.claim().await;
    assert_eq!(seller.world.balance(SELLER).await, 5 * SIX, "{by:?}");
    // Of the last sale, the refund claims what is owed.
    let last = seller.client(&["buy:one two three:10:1", "close"]).await;
    assert_eq!(sold(&last[0], &[200]), 6 * SIX, "{by:?}");
    assert_eq!(seller.world.balance(payer).await, purse - 6 * SIX, "{by:?}: {last:?}");
    seller.claim().await;
    assert_eq!(
        (seller.world.balance(SELLER).await, seller.world.balance(BATCH_SETTLEMENT).await),
        (6 * SIX, 0),
        "{by:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_facilitator_keeps_channels_whose_claims_it_signs() {
    is_kept_through_a_facilitator(By::Facilitator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_facilitator_keeps_channels_whose_claims_the_seller_signs() {
    is_kept_through_a_facilitator(By::FacilitatorAndKey).await;
}
