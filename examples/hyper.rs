//! Sells one answer under plain hyper and a `ServiceBuilder`, without a web framework. Needs the recipient's address,
//! an RPC endpoint of Base, and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example hyper --features evm,sqlite
//! curl -i 127.0.0.1:4020
//! ```

use std::{convert::Infallible, env, error::Error, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use tower_x402::{Merchant, Receipt, RequestBody, ledger::SqliteLedger, protocol::SealingKeys, verify::EvmVerifier};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let merchant = Merchant::builder(env::var("X402_RECIPIENT")?.parse()?)
        .verifier(EvmVerifier::connect([env::var("X402_RPC_URL")?]).await?)
        .ledger(SqliteLedger::open("ledger.db").await?)
        .sealing_keys(SealingKeys::from_env("X402_KEY")?)
        .build()
        .await?;
    serve(TcpListener::bind("127.0.0.1:4020").await?, &merchant).await
}

/// Serves connections, each in its own task.
pub(crate) async fn serve(listener: TcpListener, merchant: &Merchant) -> Result<(), Box<dyn Error>> {
    let paid = merchant.charge("greeting", "0.49 USDC")?.label("A greeting")?;
    let service = ServiceBuilder::new().layer(paid).service_fn(greet);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                eprintln!("a connection broke off: {error}");
            }
        });
    }
}

/// Runs only for clients that paid, once per payment.
async fn greet(request: Request<RequestBody<Incoming>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let payer = request.extensions().get::<Receipt>().map(|receipt| receipt.payer().to_string());
    let text = format!("Hello {}.\n", payer.as_deref().unwrap_or("whoever you are"));
    Ok(Response::new(text.into()))
}
