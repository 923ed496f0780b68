//! The official clients, and what they report.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;
use tower_x402::protocol::{
    Network,
    v2::{PaymentPayload, PaymentRequired},
};

use super::{
    Payer, World,
    programs::{lines, script},
    tools,
};

/// An official client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// `@x402/fetch`.
    Fetch,
    /// Python's `x402[httpx,evm]`.
    Httpx,
    /// `x402-fetch`, of version 1.
    FetchV1,
    /// `x402-axios`, of version 1.
    AxiosV1,
    /// Python's `x402` below 1.0.
    HttpxV1,
    /// `mppx`, of MPP.
    Mppx,
    /// `pympp`, of MPP.
    Pympp,
}

/// What is bought.
pub struct Order<'a> {
    pub url: &'a str,
    pub method: &'a str,
    pub body: Option<Value>,
    pub payer: Payer,
    /// The one network that the client knows; without one it knows all.
    pub network: Option<Network>,
    /// What the client calls its purchase.
    pub name: Option<&'a str>,
}

impl<'a> Order<'a> {
    /// One answer to this question, for the plain account.
    pub fn post(url: &'a str, body: Value) -> Self {
        Self { url, method: "POST", body: Some(body), payer: Payer::Plain, network: None, name: None }
    }

    /// An answer that needs no question.
    pub fn get(url: &'a str) -> Self {
        Self { url, method: "GET", body: None, payer: Payer::Plain, network: None, name: None }
    }

    pub fn by(self, payer: Payer) -> Self {
        Self { payer, ..self }
    }

    pub fn named(self, name: &'a str) -> Self {
        Self { name: Some(name), ..self }
    }

    pub fn on(self, network: Network) -> Self {
        Self { network: Some(network), ..self }
    }
}

impl Client {
    /// `None` where what it runs on is missing.
    pub async fn buy(self, world: &World, order: Order<'_>) -> Option<Purchase> {
        let mut command = self.command(world, &order).await?;
        Some(Purchase(lines(&mut command).await.remove(0)))
    }

    /// What the TypeScript client would send: its header, and nothing is sent.
    pub async fn sign(world: &World, order: Order<'_>) -> String {
        let mut command = Self::Fetch.command(world, &order).await.unwrap();
        Purchase(lines(command.arg("--keep")).await.remove(0)).signature().to_owned()
    }

    async fn command(self, world: &World, order: &Order<'_>) -> Option<Command> {
        let (url, key) = (order.url, world.buyer().private_key());
        let body = order.body.as_ref().map(Value::to_string).unwrap_or_default();
        let account = world.address_of(order.payer).to_string();
        let network = order.network.map_or_else(|| "eip155:*".to_owned(), |network| network.to_string());
        let mut command;
        match self {
            Self::Fetch => {
                command = script("buy.mjs").await;
                command.args([
                    url,
                    key,
                    world.chain.rpc_url(),
                    order.method,
                    &body,
                    "--account",
                    &account,
                    "--network",
                    &network,
                ]);
                command.args(order.name.into_iter().flat_map(|name| ["--name", name]));
            }
            Self::Httpx => {
                command = Command::new(tools::python().await?);
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standard/python/buy.py"));
                command.args([url, key, order.method, &body, "1", &account, &network]);
                command.args(order.name);
            }
            Self::FetchV1 | Self::AxiosV1 => {
                command = script("buy_v1.mjs").await;
                let client = if self == Self::FetchV1 { "fetch" } else { "axios" };
                command.args([client, url, key, order.method, &body]);
            }
            Self::Mppx => {
                command = script("buy_mpp.mjs").await;
                command.args([url, key, order.method, &body]);
            }
            Self::Pympp => {
                command = Command::new(tools::python_mpp().await?);
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standard/python/buy_mpp.py"));
                command.args([url, key, order.method, &body]);
            }
            Self::HttpxV1 => {
                command = Command::new(tools::python_v1().await?);
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standard/python/buy_v1.py"));
                command.args([url, key, order.method, &body]);
            }
        }
        Some(command)
    }
}

/// What a client reports of one purchase.
#[derive(Clone, Debug)]
pub struct Purchase(Value);

impl Purchase {
    pub fn status(&self) -> u64 {
        self.answer().unwrap_or_else(|| panic!("no answer: {}", self.0))
    }

    /// The status of the last answer; `None` where the client reports an error instead.
    pub fn answer(&self) -> Option<u64> {
        self.0["status"].as_u64()
    }

    /// The payments that a client of MPP signed.
    pub fn signed(&self) -> usize {
        self.0["signatures"].as_array().map_or_else(|| self.0["signed"].as_u64().unwrap() as usize, Vec::len)
    }

    /// How many payments it signed; `None` where it does not tell.
    pub fn payments(&self) -> Option<u64> {
        match (&self.0["signatures"], &self.0["signed"]) {
            (Value::Null, Value::Null) => self.0["requests"].as_u64().map(|requests| requests.saturating_sub(1)),
            _ => Some(self.signed() as u64),
        }
    }

    /// The answer to the last request.
    pub fn body(&self) -> &Value {
        &self.0["body"]
    }

    /// `PAYMENT-RESPONSE` of that answer, which version 1 calls `X-PAYMENT-RESPONSE`, and MPP `Payment-Receipt`.
    pub fn settled(&self) -> &Value {
        &self.0["settled"]
    }

    /// What it was asked to pay.
    pub fn offered(&self) -> PaymentRequired {
        PaymentRequired::from_json(self.0["offered"].to_string()).unwrap()
    }

    /// The header that it paid with.
    pub fn signature(&self) -> &str {
        self.0["signature"].as_str().unwrap_or_else(|| panic!("nothing was signed: {}", self.0))
    }

    /// The same, read.
    pub fn payment(&self) -> PaymentPayload {
        let header = [("payment-signature".parse().unwrap(), self.signature().parse().unwrap())];
        PaymentPayload::from_headers(&header.into_iter().collect()).unwrap().unwrap()
    }

    /// It was asked, paid, and was answered.
    #[track_caller]
    pub fn sold(&self, world: &World, payer: Payer) -> &Value {
        assert_eq!((self.status(), &self.0["requests"]), (200, &Value::from(2)), "{}", self.0);
        let settled = self.settled();
        assert_eq!((&settled["success"], &settled["network"]), (&Value::from(true), &Value::from("eip155:8453")));
        let told = settled["payer"].as_str().unwrap().to_lowercase();
        assert_eq!(told, world.address_of(payer).to_string().to_lowercase());
        assert_eq!(settled["transaction"].as_str().unwrap().len(), 66, "{settled}");
        self.body()
    }
}
