//! The program `buy` on a real chain: what it says of a channel, how it closes one, and what is left when it is killed at any moment.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use axum::{Router, middleware::from_fn, routing::get};
use serde_json::Value;
use tower_x402::client::{FileJournal, WalletPayer};
use tower_x402::{ChannelPolicy, Merchant, ledger::SqliteLedger, protocol::SealingKeys, settle::WalletSettler};
use tower_x402::{testing::DevChain, verify::EvmVerifier};

use super::*;

const SELLER: Address = Address::new([0x5f; 20]);
const FLAGS: &str = "X402_TEST_CHANNEL_FLAGS";
const AS_A_CHILD: [&str; 3] = ["--exact", "buying::program::as_a_child", "--nocapture"];

/// Not a test of its own: the program that the tests below start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(flags) = std::env::var(FLAGS) else { return };
    let code = crate::buy::buy(["buy"].into_iter().chain(flags.split('\n')).map(Into::into)).await;
    std::process::exit(code.into());
}

/// A seller by channels, over HTTP, and the chain.
struct Street {
    chain: DevChain,
    merchant: Merchant,
    url: String,
    /// The totals of the vouchers that were shown.
    totals: Arc<Mutex<Vec<u128>>>,
    runs: Counter,
    folder: tempfile::TempDir,
}

impl Street {
    async fn open() -> Self {
        let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_millis(250)).with_channels();
        let chain = builder.start().await.unwrap();
        let settler = WalletSettler::builder().key(chain.accounts()[0].private_key()).final_after(0);
        let settler = settler.max_fee_per_gas(1_000_000_000_000).endpoint(chain.rpc_url()).connect().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let merchant = Merchant::builder(SELLER)
            .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
            .channel_settler(settler)
            .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
            .ledger(SqliteLedger::open(folder.path().join("ledger.db")).await.unwrap())
            .sealing_keys(SealingKeys::new([7; 32]));
        let merchant = merchant.build().await.unwrap();
        let (runs, totals) = (Counter::default(), Arc::new(Mutex::new(Vec::new())));
        let (counter, seen) = (runs.clone(), totals.clone());
        let handler = get(move || {
            let run = counter.run();
            async move { format!("run {run}") }
        });
        let sold = merchant.charge("answer", "0.0001 USDC").unwrap().redeliver(Redelivery::default());
        let watched = from_fn(move |request: axum::extract::Request, next: axum::middleware::Next| {
            if let Ok(Some(payment)) = PaymentPayload::from_headers(request.headers()) {
                seen.lock().unwrap().push(payload(&payment).voucher().max_claimable);
            }
            next.run(request)
        });
        let app = Router::new().route("/answer", handler.route_layer(sold)).layer(watched);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/answer", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { chain, merchant, url, totals, runs, folder }
    }

    fn payer(&self) -> Address {
        self.chain.accounts()[1].address()
    }

    async fn balance(&self, owner: Address) -> u128 {
        number(self.chain.usdc_balance(owner).await.unwrap())
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(AS_A_CHILD).current_dir::<&Path>(self.folder.path()).env(FLAGS, flags.join("\n"));
        command.env("X402_RPC_URL", self.chain.rpc_url()).stdin(Stdio::null());
        command.env("X402_BUYER_KEY", self.chain.accounts()[1].private_key());
        command
    }

    /// Runs to its end: exit code, and what it said.
    async fn run(&self, flags: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.command(flags);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn flags_of(&self, what: usize) -> Vec<String> {
        let url = format!("{}?what={what}", self.url);
        let flags =
            ["--method", "GET", "--dialect", "channel", "--max", "0.01", "--max-gas", "0.1", "--timeout", "120"];
        std::iter::once(url).chain(flags.map(str::to_owned)).collect()
    }

    async fn buy(&self, what: usize) -> String {
        let flags = self.flags_of(what);
        let (code, out, said) = self.run(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(code, Some(0), "{out}\n{said}");
        said
    }

    /// Starts it, and kills it after so long, unless it has ended.
    async fn killed(&self, flags: &[String], after: Duration) -> bool {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut command = self.command(&flags);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(after).await;
        let is_killed = child.try_wait().unwrap().is_none();
        child.kill().ok();
        tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        is_killed
    }

    async fn listed(&self) -> Vec<Value> {
        let (code, out, said) = self.run(&["channels", "--json"]).await;
        assert_eq!(code, Some(0), "{said}");
        let (start, end) = (out.find('[').unwrap(), out.rfind(']').unwrap());
        // The harness writes around it.
        let start = out[..end].find("[\n").unwrap_or(start);
        serde_json::from_str(&out[start..=end]).unwrap()
    }

    fn highest(&self) -> u128 {
        self.totals.lock().unwrap().iter().copied().max().unwrap_or(0)
    }
}

#[tokio::test]
async fn the_program_says_what_is_in_a_channel_and_closes_it_to_the_unit() {
    let street = Street::open().await;
    let before = street.balance(street.payer()).await;
    let said = street.buy(0).await;
    assert!(said.contains("with a deposit of 0.001, whose rest the seller can keep for 0.25 h"), "{said}");
    for what in 1..3 {
        street.buy(what).await;
    }
    let listed = street.listed().await.remove(0);
    let on_chain = &listed["onChain"];
    assert_eq!((&listed["state"], &listed["spent"]), (&"open".into(), &"0.0003".into()), "{listed}");
    for (member, amount) in [("deposited", "0.001"), ("claimed", "0"), ("claimable", "0.0003"), ("comesBack", "0.0007")]
    {
        assert_eq!(on_chain[member], amount, "{member}: {listed}");
    }
    street.merchant.claim_now().await.unwrap();
    let (_, out, _) = street.run(&["channels"]).await;
    let told = "has deposits of 0.001, of which the seller has claimed 0.0003 and can claim up to 0 more; at least 0.0007 comes back, \
                at once through the seller, or 0.25 h after a withdrawal is begun";
    assert!(out.contains(told), "{out}");

    let (code, _, said) = street.run(&["close"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(told) && said.contains("Closed: 0.0007 came back, and the seller has 0.0003."), "{said}");
    assert_eq!(street.balance(street.payer()).await, before - 3 * PRICE);
    street.merchant.claim_now().await.unwrap();
    assert_eq!(street.balance(SELLER).await, 3 * PRICE);
    let (code, _, said) = street.run(&["close"]).await;
    assert!(code == Some(1) && said.contains("no channel that is open"), "{said}");
}

/// The journal is lost: what was signed is not known, so all of it may be claimed.
#[tokio::test]
async fn of_an_adopted_channel_the_program_says_that_all_of_it_may_be_claimed() {
    let street = Street::open().await;
    for what in 0..3 {
        street.buy(what).await;
    }
    street.merchant.claim_now().await.unwrap();
    // As deep as the wallet asks for.
    street.chain.mine(15).await.unwrap();
    let lost = FileJournal::open(street.folder.path().join("x402-purchases.jsonl")).await.unwrap();
    let lost = PayLayer::redeem_only().journal(lost).build().await.unwrap().channels().remove(0);
    let wallet = WalletPayer::builder().key(street.chain.accounts()[1].private_key()).endpoint(street.chain.rpc_url());
    let usdc = Asset::new(lost.network, street.chain.usdc(), 6, "USDC");
    let budget = Budget::in_assets([usdc]).per_payment("1").per_day("10").build().unwrap();
    let journal = FileJournal::open(street.folder.path().join("found.jsonl")).await.unwrap();
    let layer = PayLayer::builder(wallet.connect().await.unwrap(), budget, journal).build().await.unwrap();
    let held = layer.adopt_channel(lost.network, lost.config, street.url.parse().unwrap()).await.unwrap().unwrap();
    assert!(held.is_adopted);
    drop(layer);

    let (code, out, said) = street.run(&["channels", "--journal", "found.jsonl"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("  up to 0.0007  ") && out.contains("  adopted  "), "{out}");
    let told = "has deposits of 0.001, of which the seller has claimed 0.0003 and can claim up to 0.0007 more; at least 0 comes back, more \
                where the seller does not have vouchers over all of it";
    assert!(out.contains(told), "{out}");
    let (_, out, said) = street.run(&["channels", "--json", "--journal", "found.jsonl"]).await;
    for (member, value) in [("adopted", "true"), ("claimable", "\"0.0007\""), ("comesBack", "\"0\"")] {
        assert!(out.contains(&format!("\"{member}\": {value}")), "{out}\n{said}");
    }
    let (code, _, said) = street.run(&["close", "--journal", "found.jsonl"]).await;
    assert!(code == Some(0) && said.contains("Closed: 0.0007 came back, and the seller has 0.0003."), "{said}");
}

#[tokio::test]
async fn the_program_withdraws_without_the_seller() {
    let street = Street::open().await;
    street.buy(0).await;
    for _ in 0..2 {
        let (code, _, said) = street.run(&["close", "--withdraw", "--max-gas", "0.1"]).await;
        assert!(code == Some(4) && said.contains("A withdrawal was begun. Nothing has come back yet"), "{said}");
    }
    let listed = street.listed().await.remove(0);
    assert_eq!(
        (&listed["state"], &listed["onChain"]["withdrawing"]),
        (&"withdrawing".into(), &"0.001".into()),
        "{listed}"
    );
    assert!(listed["onChain"]["withdrawableAfter"].is_string(), "{listed}");
    let flags = street.flags_of(1);
    let (code, _, said) = street.run(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // Another channel is opened: from this one nothing more is bought.
    assert!(code == Some(0) && said.contains("with a deposit of 0.001"), "{said}");
}

/// Killed while it opens, buys, tops up and closes: the next run goes on, and signs no more than what was bought and one open request.
#[tokio::test]
async fn killed_at_any_moment_it_signs_for_no_more_than_one_open_request() {
    let street = Street::open().await;
    let before = street.balance(street.payer()).await;
    let measured = Instant::now();
    let _ = street.run(&["channels"]).await;
    let start = measured.elapsed();
    let mut kills = 0;
    let mut pace = 1.0;
    for what in 0..24 {
        // From its start to beyond its usual end: the deposits of the first and of each eleventh answer take longer. How long it takes
        // depends on the machine, and on what else runs there: about half of all runs are to be killed.
        let after = start / 2 + Duration::from_millis(20) * (what * 7 % 24);
        let is_killed = street.killed(&street.flags_of(what as usize), after.mul_f64(pace)).await;
        kills += usize::from(is_killed);
        pace *= if is_killed { 1.1 } else { 0.8 };
        let (code, _, said) = street.run(&["resume", "--dialect", "channel", "--max-gas", "0.1"]).await;
        assert_eq!(code, Some(0), "{what}: {said}");
        let sold = street.runs.runs() as u128 * PRICE;
        assert!(street.highest() <= sold + PRICE, "{what}: signed {} and sold {sold}", street.highest());
    }
    assert!(kills >= 6, "{kills}");
    let end = street.runs.runs() as u128;
    let listed = street.listed().await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let deposits = street.balance(tower_x402::protocol::channel::BATCH_SETTLEMENT).await;
    assert_eq!(deposits, before - street.balance(street.payer()).await);
    // Ten answers each: no deposit follows on one that is not used up.
    assert!(deposits <= end * PRICE + PRICE_OF_TEN + PRICE, "{deposits} {end}");
    for times in 0..4 {
        street.killed(&["close".to_owned()], start / 2 + Duration::from_millis(150) * times).await;
    }
    let (code, _, said) = street.run(&["close"]).await;
    let is_closed = street.listed().await.iter().all(|held| held["state"] == "closed");
    assert!(is_closed && (code == Some(0) || said.contains("no channel that is open")), "{said}");
    street.merchant.claim_now().await.unwrap();
    let taken = street.balance(SELLER).await;
    assert_eq!(street.balance(street.payer()).await, before - taken);
    assert!(taken <= end * PRICE && street.highest() <= taken + PRICE, "{taken} {end} {}", street.highest());
}
