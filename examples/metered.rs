//! Sells words by the word: a request allows a maximum, the handler says what its answer costs, and only that is charged. With the address
//! that is paid, an RPC endpoint of Base, a key for the quotes, and a file with the key of an account that has some ether for gas:
//!
//! ```sh
//! cargo run --example metered --all-features -- --recipient 0x… --rpc-url https://… --sealing-key $(openssl rand -hex 32) \
//!     --ledger sqlite:metered.db --settle-key-file gas.key
//! curl -i -H 'content-type: application/json' -d '{"prompt":"to be or not to be","words":20}' 127.0.0.1:4021/words
//! ```
//!
//! `POST /words` with `{"prompt":"…","words":N}`, where N is 1 to 1,000, asks for at most N × 0.001 USDC. The answer has N words, or twice
//! those of the prompt if that is less, and costs 0.001 USDC for each. The prompt `fail` fails, and costs nothing.

use std::{error::Error, net::SocketAddr, path::PathBuf, process::ExitCode};

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use clap::Parser;
use http::request::Parts;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tower_x402::{
    BuildError, Charge, Merchant, MerchantBuilder, Price, Refusal,
    ledger::AnyLedger,
    protocol::{Address, Amount, SealingKeys},
    settle::{FacilitatorSettler, WalletSettler},
    verify::EvmVerifier,
};

/// Sells words: quote, permit up to the maximum, answer, charge.
#[derive(Debug, Parser)]
#[command(name = "metered")]
struct Args {
    /// Where to listen
    #[arg(long, env = "X402_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:4021")]
    listen: SocketAddr,
    /// Who is paid
    #[arg(long, env = "X402_RECIPIENT", value_name = "0x…")]
    recipient: Address,
    /// Key that seals quotes: 64 hexadecimal digits, the same for all processes on one ledger
    #[arg(long, env = "X402_SEALING_KEY", value_name = "HEX", hide_env_values = true)]
    sealing_key: String,
    /// Ethereum JSON-RPC endpoint of Base; repeat it for more than one
    #[arg(
        long,
        env = "X402_RPC_URL",
        value_name = "URL",
        value_delimiter = ',',
        hide_env_values = true,
        required = true
    )]
    rpc_url: Vec<String>,
    /// Where it is recorded what was sold: `memory`, `sqlite:FILE` or `postgres://…`
    #[arg(
        long,
        env = "X402_LEDGER",
        value_name = "memory|sqlite:FILE|URL",
        default_value = "sqlite:metered.db",
        hide_env_values = true
    )]
    ledger: String,
    #[command(flatten)]
    settler: SettlerArgs,
}

/// Who settles what payers sign.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct SettlerArgs {
    /// File with the private key, 0x and 64 hexadecimal digits, of an account with ether that settles payments itself; each process needs
    /// an account of its own
    #[arg(long, env = "X402_SETTLE_KEY", value_name = "FILE")]
    settle_key_file: Option<PathBuf>,
    /// Facilitator that settles payments: its https URL
    #[arg(long, env = "X402_FACILITATOR", value_name = "URL", hide_env_values = true)]
    facilitator: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match serve(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("metered: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: Args) -> Result<(), Box<dyn Error>> {
    let builder = Merchant::builder(args.recipient)
        .verifier(EvmVerifier::connect(args.rpc_url.iter().map(String::as_str)).await?)
        .ledger(AnyLedger::open(&args.ledger).await?)
        .sealing_keys(SealingKeys::parse(&args.sealing_key)?);
    let merchant = settled_by(builder, &args).await?.build().await?;
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router(&merchant)?).await?)
}

/// With the settler that the flags name.
async fn settled_by(builder: MerchantBuilder, args: &Args) -> Result<MerchantBuilder, Box<dyn Error>> {
    if let Some(url) = &args.settler.facilitator {
        return Ok(builder.permit_settler(FacilitatorSettler::builder().url(url).build()?));
    }
    let file = args.settler.settle_key_file.as_ref().ok_or("name a --settle-key-file or a --facilitator")?;
    Ok(builder.permit_settler(WalletSettler::builder().key_file(file).endpoints(args.rpc_url.clone()).connect().await?))
}

pub(crate) fn router(merchant: &Merchant) -> Result<Router, BuildError> {
    let paid = merchant.price_with("words", most)?.label("Words, 0.001 USDC each")?;
    Ok(Router::new().route("/words", post(words).route_layer(paid)))
}

/// What is asked for.
#[derive(Deserialize)]
struct Wish {
    prompt: String,
    words: usize,
}

/// In base units of USDC, which has 6 decimals: a tenth of a cent.
const EACH: u128 = 1_000;
/// The most words of one answer.
const MOST: usize = 1_000;

fn cost_of(words: usize) -> Amount {
    Amount::from_base_units(EACH * words as u128)
}

/// The most that an answer to this request can cost. What cannot be answered is refused before any bill.
fn most(_: &Parts, body: &Bytes) -> Price {
    let refuse = |status, text: &'static str| {
        let mut answer = http::Response::new(Bytes::from_static(text.as_bytes()));
        *answer.status_mut() = status;
        Price::Refuse(Refusal::new(answer))
    };
    match serde_json::from_slice::<Wish>(body) {
        Ok(wish) if (1..=MOST).contains(&wish.words) => Price::UpTo(cost_of(wish.words)),
        Ok(_) => refuse(StatusCode::UNPROCESSABLE_ENTITY, "ask for 1 to 1000 words\n"),
        Err(_) => refuse(StatusCode::BAD_REQUEST, "send JSON: {\"prompt\":\"…\",\"words\":20}\n"),
    }
}

/// In real life a model writes them.
async fn words(Json(wish): Json<Wish>) -> Response {
    if wish.prompt.trim() == "fail" {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the model failed; nothing is charged\n").into_response();
    }
    let prompt: Vec<_> = wish.prompt.split_whitespace().collect();
    let made: Vec<_> = prompt.iter().cycle().take(wish.words.min(2 * prompt.len())).collect();
    (Charge(cost_of(made.len())), Json(json!({ "words": made }))).into_response()
}
