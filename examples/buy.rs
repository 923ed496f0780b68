//! Buys one answer: `cargo run --example buy --features full -- URL BODY --key-file FILE --rpc-url …`.
//!
//! The key of the account that pays stands in that file, or in the environment variable `X402_BUYER_KEY`, and never on the
//! command line, which every user of the machine can read.
//!
//! The answer goes to standard output, the steps to standard error. Exit codes: 0 the answer is there; 1 there is none,
//! and nothing was transferred; 2 the flags; 3 the price is not within what may be spent, and nothing was paid; 4 a payment
//! is under way or unspent: the same command with `--resume` goes on with it, and a corrected one uses it; 5 paid, and
//! there will be no answer for it, or no more of it than was written.

#[path = "buy/answer.rs"]
mod answer;
#[path = "buy/key.rs"]
mod key;
#[path = "buy/screen.rs"]
mod screen;
#[path = "datasets/steps.rs"]
mod steps;

use std::{
    env,
    ffi::OsString,
    fmt,
    io::{self, IsTerminal as _, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use http::{Request, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        Body, Budget, FileJournal, MemoryJournal, NoPayer, Paid, PayError, PayLayer, PayLayerBuilder, ProofIn,
        Purchase, ReqwestClient, ResumeOnly, State, WalletPayer,
    },
    protocol::{Address, Asset, Network, TxHash},
};

use answer::End;
use key::Key;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Buys one answer from a service behind tower-x402.
#[derive(Parser)]
struct Args {
    /// Where to POST
    url: http::Uri,
    /// The JSON document to POST
    #[arg(default_value = "{}")]
    body: String,
    /// File with the private key of the account that pays, 0x and 64 hexadecimal digits [default: the environment
    /// variable X402_BUYER_KEY]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Ethereum JSON-RPC endpoint of the chain that is paid on
    #[arg(long, env = "X402_RPC_URL", hide_env_values = true)]
    rpc_url: Option<String>,
    /// The most that this answer may cost
    #[arg(long, default_value = "1.00")]
    max: String,
    /// The most that may be spent in a day, as far as the journal knows
    #[arg(long, default_value = "10.00")]
    max_per_day: String,
    /// Pay with these token contracts, of six decimals, only (default: the USDC of the chain)
    #[arg(long = "token")]
    tokens: Vec<Address>,
    /// Pay sellers over plain HTTP too, where anybody on the way can change whom a quote pays
    #[arg(long)]
    allow_plain_http: bool,
    /// Where purchases are written down before they are paid
    #[arg(long, default_value = "x402-purchases.jsonl")]
    journal: PathBuf,
    /// How much of an answer is read: a number of bytes, such as 64K or 16M
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = answer::size)]
    max_answer: usize,
    /// Take 64 hexadecimal digits in an argument for something else than a private key
    #[arg(long = "no-key-check")]
    _no_key_check: bool,
    /// Send the proof in the x402-payment header, not in the body
    #[arg(long)]
    header_redeem: bool,
    /// Go on with an unfinished purchase of this very request, and pay nothing new
    #[arg(long)]
    resume: bool,
    /// Pay nothing: redeem this transaction, which was paid by hand
    #[arg(long, value_name = "TX_HASH", conflicts_with = "resume")]
    paid: Option<TxHash>,
    /// Write a JSON object with answer and purchase, or with what went wrong
    #[arg(long)]
    json: bool,
}

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
    let (code, said) = match run(&args).await {
        Ok(bought) => (bought.code(), bought.shown(args.json)),
        Err(error) => (failure(&error), complaint(&error, args.json)),
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
    let layer = layer(args).await?.on_step(steps::show);
    let layer = layer.proof_in(if args.header_redeem { ProofIn::Header } else { ProofIn::Body }).build().await?;
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder())?);

    let mut request =
        Request::post(&args.url).header(CONTENT_TYPE, "application/json").body(Body::from(args.body.clone()))?;
    if args.resume {
        request.extensions_mut().insert(ResumeOnly);
    }
    if let Some(transaction) = args.paid {
        request.extensions_mut().insert(Paid(transaction));
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

/// Who pays, within what, and where that is written down.
async fn layer(args: &Args) -> Result<PayLayerBuilder, BoxError> {
    if args.paid.is_some() {
        // The budget is not asked where nothing is paid.
        let budget = budget(args, Network::BASE)?;
        return Ok(PayLayer::builder(NoPayer, budget, MemoryJournal::new()));
    }
    let key = Key::read(args.key_file.as_deref())?;
    key.is_not_in(&args.body).and(key.is_not_in(&args.url.to_string()))?;
    let rpc_url = args.rpc_url.as_deref().ok_or("name a JSON-RPC endpoint with --rpc-url or X402_RPC_URL")?;
    let wallet = WalletPayer::connect(key.digits(), rpc_url).await?;
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

/// An answer of which only a part is here.
#[derive(Debug)]
struct Torn {
    why: &'static str,
    purchase: Option<Purchase>,
    part: Vec<u8>,
}

impl std::error::Error for Torn {}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Purchase { transaction, .. }) = &self.purchase else { return f.write_str(self.why) };
        let whose = if self.is_sold() { "the seller counts it as sold" } else { "the payment is kept" };
        write!(f, "paid with {transaction}, and {}: {whose}", self.why)
    }
}

impl Torn {
    fn is_sold(&self) -> bool {
        self.purchase.as_ref().is_some_and(|purchase| purchase.state == State::Answered)
    }

    fn is_kept(&self) -> bool {
        self.purchase.is_some() && !self.is_sold()
    }

    fn code(&self) -> u8 {
        match &self.purchase {
            Some(_) if self.is_sold() => 5,
            Some(_) => 4,
            None => 1,
        }
    }
}

/// What came of it.
struct Bought {
    status: http::StatusCode,
    purchase: Option<Purchase>,
    answer: Vec<u8>,
}

impl Bought {
    fn code(&self) -> u8 {
        match &self.purchase {
            // Not every seller confirms; an answer is an answer.
            _ if self.status.is_success() => 0,
            Some(purchase) if purchase.state == State::Answered => 0,
            Some(_) => 4,
            None => 1,
        }
    }

    fn shown(&self, as_json: bool) -> Vec<u8> {
        if !as_json {
            return [self.answer.as_slice(), b"\n"].concat();
        }
        let answer = serde_json::from_slice(&self.answer).unwrap_or_else(|_| text(&self.answer));
        let purchase = self.purchase.as_ref().map(|purchase| {
            json!({
                "id": purchase.id.to_string(),
                "amount": purchase.amount.to_decimal(purchase.decimals),
                "token": purchase.token,
                "network": purchase.network,
                "payer": purchase.payer,
                "recipient": purchase.recipient,
                "transaction": purchase.transaction,
                "answered": purchase.state == State::Answered,
                "confirmed": purchase.confirmed,
                "attempts": purchase.attempts,
                "milliseconds": {
                    "quote": purchase.took.quote.as_millis(),
                    "pay": purchase.took.pay.as_millis(),
                    "confirm": purchase.took.confirm.as_millis(),
                    "redeem": purchase.took.redeem.as_millis(),
                },
            })
        });
        line(&json!({ "status": self.status.as_u16(), "purchase": purchase, "answer": answer }))
    }
}

fn failure(error: &BoxError) -> u8 {
    match error.downcast_ref::<PayError>() {
        Some(PayError::Declined(_)) => 3,
        // Nothing was transferred.
        Some(PayError::Reverted { .. }) => 1,
        Some(error) if error.is_resumable() => 4,
        Some(error) if error.transaction().is_some() => 5,
        Some(_) => 1,
        None => error.downcast_ref().map_or(1, Torn::code),
    }
}

/// What went wrong, on standard error; gives what belongs on standard output.
fn complaint(whole: &BoxError, as_json: bool) -> Vec<u8> {
    let mut text = whole.to_string();
    let mut cause = whole.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    let (error, torn) = (whole.downcast_ref::<PayError>(), whole.downcast_ref::<Torn>());
    let resumable = torn.is_some_and(Torn::is_kept) || error.is_some_and(PayError::is_resumable);
    eprintln!("error: {}", screen::on_a_line(&text));
    if resumable {
        eprintln!("Do not pay again: the same command with --resume goes on with this payment.");
    }
    if !as_json {
        // A part is better than nothing.
        return torn.map(|torn| torn.part.clone()).unwrap_or_default();
    }
    let torn_from = torn.and_then(|torn| torn.purchase.as_ref()).map(|purchase| purchase.transaction);
    let transaction = error.and_then(PayError::transaction).or(torn_from);
    let part = torn.map(|torn| self::text(&torn.part));
    line(&json!({ "error": text, "transaction": transaction, "resumable": resumable, "answer": part }))
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
