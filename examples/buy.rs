//! Buys one answer: `cargo run --example buy --features full -- URL BODY --key-file FILE --rpc-url …`.
//!
//! The key of the account that pays stands in that file, or in the environment variable `X402_BUYER_KEY`, and never on the
//! command line, which every user of the machine can read.
//!
//! The answer goes to standard output, the steps to standard error. Exit codes: 0 the answer is there; 1 there is none,
//! and nothing was transferred; 2 the flags; 3 the price is not within what may be spent, and nothing was paid; 4 a payment
//! is under way or unspent: the same command with `--resume` goes on with it, and a corrected one uses it; 5 paid, and
//! there will be no answer for it, or no more of it than was written.

#[path = "buy/abandon.rs"]
mod abandon;
#[path = "buy/answer.rs"]
mod answer;
#[path = "buy/args.rs"]
mod args;
#[path = "buy/key.rs"]
mod key;
#[path = "buy/report.rs"]
mod report;
#[path = "buy/screen.rs"]
mod screen;
#[path = "datasets/steps.rs"]
mod steps;

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
};

use clap::Parser;
use http::{Request, header::CONTENT_TYPE};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        AlreadyPaid, Body, Budget, FileJournal, PayLayer, PayLayerBuilder, ProofIn, Purchase, ReqwestClient,
        ResumeOnly, WalletPayer,
    },
    protocol::{Asset, Network},
};

use answer::End;
use args::Args;
use key::Key;
use report::{Bought, Torn};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    ExitCode::from(buy(env::args_os()).await)
}

/// Runs the program with these arguments, the first of which is its name; gives its exit code.
pub(crate) async fn buy(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<_> = args.into_iter().collect();
    if let Err(misplaced) = key::is_none_of(&args) {
        eprintln!("error: {misplaced}");
        return 2;
    }
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(help) => {
            let _ = help.print();
            return if help.use_stderr() { 2 } else { 0 };
        }
    };
    if serde_json::from_str::<serde::de::IgnoredAny>(&args.body).is_err() {
        eprintln!("error: BODY is no JSON document");
        return 2;
    }
    if args.unfinished || args.abandon.is_some() {
        return abandon::run(&args).await;
    }
    let (code, said) = match run(&args).await {
        Ok(bought) => (bought.code(), bought.shown(args.json)),
        Err(error) => (report::failure(&error), report::complaint(&error, args.json)),
    };
    // Nobody may be reading.
    let _ = write(io::stdout(), &said);
    code
}

/// To a terminal, which a seller is not to steer, as text; to anything else as it came.
fn write(mut to: io::Stdout, said: &[u8]) -> io::Result<()> {
    if to.is_terminal() {
        to.write_all(screen::visible(&String::from_utf8_lossy(said)).as_bytes())
    } else {
        to.write_all(said)
    }
}

async fn run(args: &Args) -> Result<Bought, BoxError> {
    let layer = layer(args).await?.on_event(steps::show);
    let layer = layer.proof_in(if args.header_redeem { ProofIn::Header } else { ProofIn::Body }).build().await?;
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder())?);

    let mut request =
        Request::post(url(args)?).header(CONTENT_TYPE, "application/json").body(Body::from(args.body.clone()))?;
    if args.resume {
        request.extensions_mut().insert(ResumeOnly);
    }
    if let Some(transaction) = args.paid {
        request.extensions_mut().insert(AlreadyPaid(transaction));
    }
    let response = client.oneshot(request).await?;
    let (parts, body) = response.into_parts();
    let purchase = parts.extensions.get::<Purchase>().cloned();
    let (answer, end) = answer::read(body, args.max_answer).await;
    let why = match end {
        End::Whole => return Ok(Bought { status: parts.status, purchase, answer }),
        End::TooLong => "the answer is longer than --max-answer",
        End::BrokeOff(_) => "the answer broke off",
    };
    Err(Torn { why, purchase, part: answer }.into())
}

fn url(args: &Args) -> Result<&http::Uri, &'static str> {
    args.url.as_ref().ok_or("name the URL to POST to")
}

/// Who pays, within what, and where that is written down.
async fn layer(args: &Args) -> Result<PayLayerBuilder, BoxError> {
    if args.paid.is_some() {
        return Ok(PayLayer::redeem_only());
    }
    let key = Key::read(args.key_file.as_deref())?;
    key.is_not_in(&args.body).and(key.is_not_in(&url(args)?.to_string()))?;
    let rpc_url = args.rpc_url.as_deref().ok_or("name a JSON-RPC endpoint with --rpc-url or X402_RPC_URL")?;
    let wallet = WalletPayer::builder().key(key.digits()).endpoint(rpc_url).connect().await?;
    let budget = budget(args, wallet.network())?;
    Ok(PayLayer::builder(wallet, budget, FileJournal::open(&args.journal).await?))
}

fn budget(args: &Args, network: Network) -> Result<Budget, BoxError> {
    let assets: Vec<Asset> = if args.tokens.is_empty() {
        Asset::usdc_of(network).into_iter().collect()
    } else {
        args.tokens.iter().map(|token| Asset::new(network, *token, 6, "token")).collect()
    };
    let budget = Budget::in_assets(assets).per_payment(&args.max).per_day(&args.max_per_day);
    Ok(if args.allow_plain_http { budget.allow_plain_http() } else { budget }.build()?)
}
