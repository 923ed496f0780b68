//! An agent that buys several answers within a budget, and prints what each one cost, how it was paid, and what is
//! left.
//!
//! With `cargo demo` running in another terminal, which prints a key's file and the chain's URL:
//!
//! ```sh
//! export X402_RPC_URL=http://127.0.0.1:…
//! cargo run --example agent --features client,wallet,reqwest -- http://127.0.0.1:4020 --key-file /tmp/x402-buyer-….key
//! ```
//!
//! `--budget 1.00` makes the money run out during the run, `--max 0.10` makes every price too high, `--ask` asks you
//! before each payment, and `--list FILE` reads your own questions. Run it again after a crash: nothing is paid
//! twice.

#[path = "agent/approval.rs"]
pub(crate) mod approval;
#[path = "agent/args.rs"]
mod args;
#[path = "buy/screen.rs"]
mod screen;
#[path = "../src/bin/x402-gateway/secret_file.rs"]
mod secret_file;
#[path = "agent/task.rs"]
mod task;

use std::{env, ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser as _;
use http_body_util::{BodyExt as _, Limited};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        Budget, FileJournal, Money, Pay, PayError, PayErrorKind, PayLayer, Purchase, PurchaseState, ReqwestClient,
        WalletPayer, reqwest,
    },
    protocol::Asset,
};

use args::Args;
use task::Task;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The longest answer that is read, in bytes.
const ANSWER_MAX: usize = 1024 * 1024;
/// How long an answer may take from its head to its end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How many times a question is asked, as long as asking again is free.
const ATTEMPTS: u32 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    ExitCode::from(agent(env::args_os()).await)
}

/// Runs the program with these arguments, the first of which is its name, and returns its exit code.
pub(crate) async fn agent(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(help) => {
            let _ = help.print();
            return if help.use_stderr() { 2 } else { 0 };
        }
    };
    match run(&args).await {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            1
        }
    }
}

async fn run(args: &Args) -> Result<(), BoxError> {
    let tasks = args.list.as_deref().map_or_else(|| Ok(task::usual(&args.shop)), task::listed)?;
    let layer = layer(args).await?;
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder())?);
    let before = layer.spent();
    println!("{:<36} {:>8}  {:<13}  {:>7}  ANSWER", "QUESTION", "COST", "PAID BY", "LEFT");
    for task in &tasks {
        let [cost, by, answer] = told(ask(&client, task).await);
        let left = layer.remaining().to_decimal(layer.budget().decimals());
        let line = format!("{:<36} {cost:>8}  {by:<13}  {left:>7}  {answer}", task.name());
        println!("{}", line.trim_end());
    }
    let shown = |amount: tower_x402::protocol::Amount| amount.to_decimal(layer.budget().decimals());
    println!(
        "\nSpent in the last day: {}, of which before this: {}; left: {}",
        shown(layer.spent()),
        shown(before),
        shown(layer.remaining())
    );
    for entry in layer.unfinished() {
        println!("Open: {} for {}; ask again to finish it", entry.amount.to_decimal(entry.decimals), entry.request);
    }
    Ok(())
}

/// Returns a layer that pays within the budget, and asks first with `--ask`.
async fn layer(args: &Args) -> Result<PayLayer, BoxError> {
    let wallet = WalletPayer::builder().endpoint(&args.rpc_url);
    let wallet = match &args.key_file {
        Some(file) => wallet.key(&secret_file::read("the key file", file)?),
        None => wallet
            .key(&env::var("X402_BUYER_KEY").map_err(|_| "name the account that pays: --key-file, or X402_BUYER_KEY")?),
    };
    let wallet = wallet.connect().await?;
    let usdc = Asset::usdc_of(wallet.network()).ok_or("this program knows no USDC on that chain")?;
    let budget = Budget::in_assets([usdc]).per_payment(&args.max).per_day(&args.budget);
    let budget = if args.ask { budget.approve(approval::ask) } else { budget }.build()?;
    let layer = PayLayer::builder(wallet, budget, FileJournal::open(&args.journal).await?);
    Ok(layer.body_timeout(ANSWER_TIMEOUT).build().await?)
}

/// The outcome of a question.
struct Told {
    status: http::StatusCode,
    bought: Option<Purchase>,
    /// The answer, or the reason why it is incomplete.
    answer: Result<String, String>,
}

/// Asks, and asks once more if the payment was made but the answer is missing: nothing more is paid then.
async fn ask(client: &Pay<ReqwestClient>, task: &Task) -> Result<Told, BoxError> {
    let mut attempt = 1;
    let response = loop {
        match client.clone().oneshot(task.request()?).await {
            Err(error) if error.is_resumable() && attempt < ATTEMPTS => attempt += 1,
            outcome => break outcome?,
        }
    };
    let (head, body) = response.into_parts();
    let bought = head.extensions.get::<Purchase>().cloned();
    let read = Limited::new(body, ANSWER_MAX).collect().await;
    let answer = read.map(|answer| String::from_utf8_lossy(&answer.to_bytes()).into_owned());
    Ok(Told { status: head.status, bought, answer: answer.map_err(|error| error.to_string()) })
}

/// Returns cost, way of paying and answer. A seller's text is escaped: it could carry control characters.
fn told(outcome: Result<Told, BoxError>) -> [String; 3] {
    let none = || "-".to_owned();
    let Told { status, bought, answer } = match outcome {
        Ok(told) => told,
        Err(error) => {
            let why = match error.downcast_ref::<PayError>() {
                Some(error) if error.kind() == PayErrorKind::Declined => format!("declined: {error}"),
                Some(error) if error.is_resumable() => format!("under way: {error}"),
                Some(error) if error.money() != Money::Untouched => format!("paid, and lost: {error}"),
                _ => format!("failed: {error}"),
            };
            return [none(), none(), why];
        }
    };
    let answer = match answer {
        Ok(answer) => answer.chars().take(40).collect(),
        Err(why) if bought.is_some() => format!("paid, and not all here; ask again to get it: {why}"),
        Err(why) => format!("not all here: {why}"),
    };
    let answer = format!("{} {}", status.as_u16(), screen::on_a_line(&answer));
    match bought {
        None if status.is_success() => ["free".to_owned(), none(), answer],
        None => [none(), none(), answer],
        Some(bought) => {
            let cost = bought.amount.to_decimal(bought.decimals);
            let kept = if bought.state == PurchaseState::Answered { "" } else { " (the payment is kept)" };
            [cost, bought.paid_by.name().to_owned(), format!("{answer}{kept}")]
        }
    }
}
