//! Sells a download of 50 MB with a ticket, which makes the same request free for an hour, so that a broken download
//! resumes. Needs the recipient's address, an RPC endpoint of Base, and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example download --features axum,evm,sqlite
//! curl -i 127.0.0.1:4020/film                             # a quote: pay it, and show the payment
//! curl -D head -o film 127.0.0.1:4020/film -H 'x402-payment: {"intentId":"…","txHash":"0x…"}'
//! curl -C - -o film 127.0.0.1:4020/film -H "x402-pass: …" # as often as it breaks: X402-Ticket in the file `head`
//! ```

use std::{convert::Infallible, env, error::Error, ops::Range, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::stream;
use tokio::net::TcpListener;
use tower_x402::{BuildError, Merchant, ledger::SqliteLedger, protocol::SealingKeys, verify::EvmVerifier};

/// The length of the film, in bytes.
pub(crate) const LENGTH: usize = 50_000_000;
/// The number of bytes sent at once.
const CHUNK: usize = 64 * 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let merchant = Merchant::builder(env::var("X402_RECIPIENT")?.parse()?)
        .verifier(EvmVerifier::connect([env::var("X402_RPC_URL")?]).await?)
        .ledger(SqliteLedger::open("ledger.db").await?)
        .sealing_keys(SealingKeys::from_env("X402_KEY")?)
        .build()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:4020").await?;
    Ok(axum::serve(listener, router(&merchant)?).await?)
}

pub(crate) fn router(merchant: &Merchant) -> Result<Router, BuildError> {
    let paid = merchant.charge("film", "0.49 USDC")?.label("A film")?.ticket(Duration::from_secs(3_600))?;
    Ok(Router::new().route("/film", get(film).route_layer(paid)))
}

/// Sends the whole film to its buyer, whose request has no `Range`; with a ticket, it sends parts too.
async fn film(headers: HeaderMap) -> Response {
    let Some(range) = headers.get(header::RANGE) else {
        let length = LENGTH.to_string();
        let head = [(header::ACCEPT_RANGES, "bytes".to_owned()), (header::CONTENT_LENGTH, length)];
        return (head, content(0..LENGTH)).into_response();
    };
    match range.to_str().ok().and_then(parse) {
        Some(part) => {
            let range = format!("bytes {}-{}/{LENGTH}", part.start, part.end - 1);
            let head = [(header::CONTENT_RANGE, range), (header::CONTENT_LENGTH, part.len().to_string())];
            (StatusCode::PARTIAL_CONTENT, head, content(part)).into_response()
        }
        None => {
            (StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, format!("bytes */{LENGTH}"))]).into_response()
        }
    }
}

/// Parses one range that begins inside the film: `bytes=500-` or `bytes=500-999`.
fn parse(range: &str) -> Option<Range<usize>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let start = start.parse().ok().filter(|start| *start < LENGTH)?;
    let end = if end.is_empty() { LENGTH } else { end.parse::<usize>().ok()?.checked_add(1)?.min(LENGTH) };
    (start < end).then_some(start..end)
}

/// Returns a part of the film. A real service would read it from a disk.
fn content(part: Range<usize>) -> Body {
    Body::from_stream(stream::unfold(part, async |part| {
        let end = part.end.min(part.start + CHUNK);
        let chunk: Bytes = (part.start..end).map(byte).collect();
        (!chunk.is_empty()).then_some((Ok::<_, Infallible>(chunk), end..part.end))
    }))
}

/// Returns the byte at this position.
pub(crate) fn byte(place: usize) -> u8 {
    (place.wrapping_mul(0x9e37_79b9) >> 13) as u8
}
