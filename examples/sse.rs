//! Sells a stream of tokens (server-sent events), once. The sale happens when the head of the response is ready:
//! before the first token leaves, and regardless of the rest. Needs the recipient's address, an RPC endpoint of Base,
//! and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example sse --features axum,evm,sqlite
//! curl -i -d '{"topic":"payments"}' -H 'content-type: application/json' 127.0.0.1:4020/story
//! ```

use std::{convert::Infallible, env, error::Error, time::Duration};

use axum::{
    Json, Router,
    http::StatusCode,
    response::sse::{Event, KeepAlive, Sse},
    routing::post,
};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use tokio::{net::TcpListener, time::sleep};
use tower_x402::{BuildError, Merchant, ledger::SqliteLedger, protocol::SealingKeys, verify::EvmVerifier};

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
    let paid = merchant.charge("story", "0.05 USDC")?.label("A story, token by token")?;
    Ok(Router::new().route("/story", post(story).route_layer(paid)))
}

#[derive(Deserialize)]
struct Wish {
    topic: String,
}

/// Everything that can fail fails here, before the head: an error status is not sold.
async fn story(
    Json(wish): Json<Wish>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, (StatusCode, &'static str)> {
    if wish.topic.trim().is_empty() {
        return Err((StatusCode::UNPROCESSABLE_ENTITY, "name a topic\n"));
    }
    // In a real service, a model writes this.
    let text = format!("Once upon a time there was somebody who knew all about {}.", wish.topic);
    let tokens: Vec<String> = text.split_inclusive(' ').map(str::to_owned).chain(["[DONE]".to_owned()]).collect();
    let events = stream::unfold(tokens.into_iter(), async |mut tokens| {
        let token = tokens.next()?;
        sleep(Duration::from_millis(40)).await;
        Some((Ok(Event::default().data(token)), tokens))
    });
    // Proxies close silent connections.
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
