//! This crate's payer at sellers that others wrote: it buys, and is charged once at most, whatever their facilitators do.

mod beside;
mod buys;
mod clocks;
#[cfg(unix)]
mod crashes;
mod faults;
mod hostile;
mod mpp;

use std::{path::Path, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{Body, Budget, FileJournal, Journal as _, JournalEntry, PayError, PayLayer, PayLayerBuilder, Purchase},
    client::{ReqwestClient, WalletPayer},
    protocol::Asset,
};

use super::{ForeignSeller, Make};
use crate::{Token, World};

/// A buyer without ether, whose journal is a file.
pub struct Buyer {
    key: String,
    rpc: String,
    folder: TempDir,
}

/// An answer, and what was paid for it.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub body: Bytes,
    pub purchase: Option<Purchase>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Buyer {
    pub async fn of(world: &World) -> Self {
        let buyer = Self {
            key: world.buyer().private_key().to_owned(),
            rpc: world.chain.rpc_url().to_owned(),
            folder: tempfile::tempdir().unwrap(),
        };
        world.chain.rpc("anvil_setBalance", json!([world.buyer().address().to_string(), "0x0"])).await.unwrap();
        buyer
    }

    pub fn journal(&self) -> std::path::PathBuf {
        self.folder.path().join("purchases.jsonl")
    }

    /// A layer as a new process has one: with what is in the file, and nothing else.
    pub async fn layer(&self) -> PayLayer {
        self.layer_with(|builder| builder).await
    }

    pub async fn layer_with(&self, set: impl FnOnce(PayLayerBuilder) -> PayLayerBuilder) -> PayLayer {
        set(builder(&self.key, &self.rpc, &self.journal()).await).build().await.unwrap()
    }

    pub async fn buy(&self, url: &str) -> Result<Got, PayError> {
        buy(&self.layer().await, get(url)).await
    }

    /// What the journal holds: no layer may have it open.
    pub async fn entries(&self) -> Vec<JournalEntry> {
        FileJournal::open(self.journal()).await.unwrap().load().await.unwrap()
    }
}

/// A payer that is not as patient as the crate's own.
async fn builder(key: &str, rpc: &str, journal: &Path) -> PayLayerBuilder {
    let wallet = WalletPayer::builder().key(key).endpoint(rpc).connect().await.unwrap();
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("9").build().unwrap();
    PayLayer::builder(wallet, budget, FileJournal::open(journal).await.unwrap())
        .longest_pause(Duration::from_millis(500))
        .answer_timeout(Duration::from_secs(30))
        .patience(Duration::from_secs(120))
}

pub fn get(url: &str) -> Request<Body> {
    Request::get(url).body(Body::empty()).unwrap()
}

/// Sends a request through a layer, over a connection of its own.
pub async fn buy(layer: &PayLayer, request: Request<Body>) -> Result<Got, PayError> {
    let client = ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap();
    let response = layer.layer(client).oneshot(request).await?;
    let (status, purchase) = (response.status().as_u16(), response.extensions().get::<Purchase>().cloned());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(Got { status, body, purchase })
}

/// A seller of that make on a chain of its own, and a buyer.
pub async fn open(make: Make) -> Option<(World, ForeignSeller, Buyer)> {
    let world = World::with(Token::Circles).await?;
    let seller = ForeignSeller::open(make, &world).await?;
    let buyer = Buyer::of(&world).await;
    Some((world, seller, buyer))
}
