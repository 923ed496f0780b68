//! `demo`: starts a local chain, a built-in service and the gateway before it, and buys one answer.

use std::{
    convert::Infallible,
    error::Error,
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::{net::TcpListener, time::sleep};
use tower_layer::Layer as _;
use tower_service::Service as _;
use tower_x402::{
    client::{Body, Budget, MemoryJournal, PayLayer, ReqwestClient, WalletPayer},
    protocol::Asset,
    testing::DevChain,
};

use super::{config, failure::Failure, init, keys, running, steps};

type BoxError = Box<dyn Error + Send + Sync>;

/// Indexes of the chain's accounts that receive, pay and settle.
const SELLER: usize = 0;
const BUYER: usize = 1;
const SETTLER: usize = 2;
const PRICE: &str = "0.05";
/// How long the gateway may take to begin selling.
const OPENING: Duration = Duration::from_secs(30);

/// Sells, buys once, and keeps selling unless `once`.
///
/// # Errors
/// Fails if something that the demo needs is missing.
pub(crate) async fn demo(once: bool) -> Result<(), Failure> {
    eprintln!("starting a local chain; the first time, npm brings it");
    let chain = DevChain::builder().install_with_npm(true).start().await.map_err(Failure::environment)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Failure::environment)?;
    let address = listener.local_addr().map_err(Failure::environment)?;
    let upstream = upstream().await.map_err(Failure::environment)?;
    let folder = tempfile::tempdir().map_err(Failure::environment)?;
    let file = written(&chain, &folder, &upstream)?;
    let config = config::load(&file)?;
    let url = format!("http://{address}/reports/1");
    let bought = async {
        buy(&chain, &url).await.map_err(Failure::environment)?;
        if once {
            return Ok(());
        }
        eprintln!("\nIt keeps selling. Ask yourself, and end with Ctrl-C:\n\n  curl -si {url}\n");
        std::future::pending().await
    };
    tokio::select! {
        sold = running::sell(file.clone(), config, listener) => sold,
        bought = bought => bought,
    }
}

/// Writes the configuration and its keys. They last as long as the folder.
fn written(chain: &DevChain, folder: &TempDir, upstream: &str) -> Result<PathBuf, Failure> {
    let file = |name: &str| folder.path().join(name);
    keys::create(&file("seal.key")).map_err(Failure::environment)?;
    init::create(&file("settle.key"), chain.accounts()[SETTLER].private_key())?;
    let text = format!(
        "listen = \"127.0.0.1:0\"\nrecipient = \"{}\"\nsealing_key_file = \"seal.key\"\nledger = \"memory\"\n\n[[network]]\n\
         name = \"base\"\nrpc = [\"{}\"]\nsettle_key_file = \"settle.key\"\n\n[upstream]\nurl = \"{upstream}\"\n\n[[route]]\n\
         match = \"GET /reports/{{id}}\"\nprice = \"{PRICE} USDC\"\nlabel = \"A report\"\nredeliver = \"15m\"\npage = true\n\n\
         [default]\naction = \"deny\"\n",
        chain.accounts()[SELLER].address(),
        chain.rpc_url(),
    );
    let path = file("gateway.toml");
    fs::write(&path, &text).map_err(Failure::environment)?;
    eprintln!("\n{text}");
    Ok(path)
}

/// Starts a service that knows nothing of payments, and returns its URL.
async fn upstream() -> std::io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |request: Request<Incoming>| {
                let payer = request.headers().get("x402-payer").and_then(|payer| payer.to_str().ok());
                let text = format!("{}, paid by {}\n", request.uri().path(), payer.unwrap_or("nobody"));
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
            });
            tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await });
        }
    });
    Ok(url)
}

async fn buy(chain: &DevChain, url: &str) -> Result<(), BoxError> {
    let key = chain.accounts()[BUYER].private_key();
    let wallet = WalletPayer::builder().key(key).endpoint(chain.rpc_url()).connect().await?;
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment(PRICE).per_day("1").build()?;
    let layer = PayLayer::builder(wallet, budget, MemoryJournal::new()).on_event(steps::show).build().await?;
    let mut client = layer.layer(ReqwestClient::new(reqwest::Client::builder())?);
    eprintln!("\nGET {url}");
    let begun = Instant::now();
    let answer = loop {
        let answer = client.call(Request::get(url).body(Body::empty())?).await?;
        // No quote is issued until the chain has passed the second in which the ledger began.
        if answer.status() != StatusCode::SERVICE_UNAVAILABLE || begun.elapsed() > OPENING {
            break answer;
        }
        sleep(Duration::from_millis(300)).await;
    };
    let (status, text) = (answer.status(), answer.into_body().collect().await?.to_bytes());
    if !status.is_success() {
        return Err(format!("the purchase failed: {status}").into());
    }
    println!("{}", String::from_utf8_lossy(&text).trim_end());
    Ok(())
}
