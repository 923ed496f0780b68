//! A seller under way, and a payer who may have to ask again.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tower_x402::protocol::TxHash;

use super::{
    Arrived, payer,
    seller::{self, AS_A_CHILD, SETTINGS, URL},
};
use crate::{
    app::PATIENT,
    market::Market,
    shop::{INSIGHTS, client},
};

pub struct Rig {
    pub market: Market,
    ledger: String,
    folder: TempDir,
    seller: Mutex<Child>,
    http: Client,
}

impl Rig {
    /// With a ledger at this address.
    pub async fn start(market: Market, ledger: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seller = Mutex::new(begin(&market, ledger, &folder));
        let rig = Self { market, ledger: ledger.to_owned(), folder, seller, http: client() };
        rig.listening().await;
        rig
    }

    /// Ends the seller at once.
    pub fn kill(&self) {
        let mut seller = self.seller.lock().unwrap();
        seller.kill().unwrap();
        seller.wait().unwrap();
    }

    /// Starts another on what the last one left.
    pub async fn restart(&mut self) {
        self.tell_no_more(URL);
        self.seller = Mutex::new(begin(&self.market, &self.ledger, &self.folder));
        self.listening().await;
    }

    /// A new ledger waits for the chain to reach the present, and this one mines on demand.
    async fn listening(&self) {
        let deadline = Instant::now() + PATIENT;
        while !self.folder.path().join(URL).exists() {
            assert!(Instant::now() < deadline, "it does not listen");
            sleep(Duration::from_millis(300)).await;
            self.market.chain.mine(1).await.unwrap();
        }
    }

    pub fn address(&self) -> String {
        fs::read_to_string(self.folder.path().join(URL)).unwrap()
    }

    /// How often the handler ran.
    pub fn runs(&self) -> usize {
        seller::runs(self.folder.path())
    }

    /// Tells the seller's ledger to do this.
    pub fn tell(&self, what: &str) {
        fs::write(self.folder.path().join(what), "").unwrap();
    }

    pub fn tell_no_more(&self, what: &str) {
        fs::remove_file(self.folder.path().join(what)).unwrap();
    }

    /// Waits until the seller's ledger tells this.
    pub async fn has_told(&self, what: &str) {
        let deadline = Instant::now() + PATIENT;
        while !self.folder.path().join(what).exists() {
            assert!(Instant::now() < deadline, "never {what}");
            sleep(Duration::from_millis(5)).await;
        }
        self.tell_no_more(what);
    }

    pub async fn intent(&self) -> String {
        let quote = self.post(&self.address(), &json!({ "query": "why" })).await.unwrap();
        assert_eq!(quote.status(), 402);
        quote.headers()["x-price-intent"].to_str().unwrap().to_owned()
    }

    pub async fn present(&self, intent: &str, payment: TxHash) -> Response {
        self.present_at(&self.address(), intent, payment).await
    }

    pub async fn present_at(&self, address: &str, intent: &str, payment: TxHash) -> Response {
        self.try_at(address, intent, payment).await.unwrap()
    }

    pub async fn try_to_present(&self, intent: &str, payment: TxHash) -> reqwest::Result<Response> {
        self.try_at(&self.address(), intent, payment).await
    }

    async fn try_at(&self, address: &str, intent: &str, payment: TxHash) -> reqwest::Result<Response> {
        show(&self.http, address, intent, payment).await
    }

    async fn post(&self, address: &str, body: &serde_json::Value) -> reqwest::Result<Response> {
        post(&self.http, address, body).await
    }

    /// Shows a pair beside a crowd of forgers, and tells what it is given. The forgers show the payment under an intent of their own, the
    /// intent with transactions that there are none of, and signed payments without a signature. They get no answer.
    pub async fn beside_forgers(&self, intent: &str, payment: TxHash) -> Arrived {
        let own = self.intent().await;
        let address = format!("http://{}{INSIGHTS}", self.address());
        let forgers = (0..24_u8).map(|name| {
            let (own, address) = (&own, &address);
            async move {
                for round in 0..4 {
                    let request = self.http.post(address);
                    let request = match name % 3 {
                        0 => request.json(&proof(own, payment)),
                        1 => request.json(&proof(intent, TxHash::new([name * 4 + round + 1; 32]))),
                        _ => request.json(&json!({ "query": "why" })).header("payment-signature", "bm90aGluZw=="),
                    };
                    let status = request.send().await.unwrap().status();
                    assert!(!status.is_success(), "forger {name} was given {status}");
                }
            }
        });
        let honest = async { Arrived::of(self.present(intent, payment).await).await };
        tokio::join!(honest, join_all(forgers)).0
    }

    /// A payer in a process of its own receives the answer, and ends by `kill -9` before it stores it.
    pub async fn crash_with_the_answer(&self, intent: &str, payment: TxHash) {
        let folder = self.folder.path().display().to_string();
        let settings = [&self.address(), intent, &payment.to_string(), &folder].join("\n");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(payer::AS_A_CHILD).env(payer::SETTINGS, settings).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.spawn().unwrap();
        self.has_told(payer::RECEIVED).await;
        process.kill().unwrap();
        assert_eq!(process.wait().unwrap().signal(), Some(9));
    }
}

/// Shows a payment, again for as long as it is not seen: it runs by the machine's clock.
pub async fn show(http: &Client, address: &str, intent: &str, payment: TxHash) -> reqwest::Result<Response> {
    let proof = proof(intent, payment);
    let deadline = Instant::now() + PATIENT;
    loop {
        let answer = post(http, address, &proof).await?;
        let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap().to_owned());
        if Instant::now() > deadline || !matches!(code.as_deref(), Some("tx_not_confirmed" | "redemption_in_progress"))
        {
            return Ok(answer);
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn proof(intent: &str, payment: TxHash) -> Value {
    json!({ "query": "why", "intentId": intent, "txHash": payment.to_string() })
}

async fn post(http: &Client, address: &str, body: &serde_json::Value) -> reqwest::Result<Response> {
    http.post(format!("http://{address}{INSIGHTS}")).json(body).send().await
}

impl Drop for Rig {
    fn drop(&mut self) {
        let mut seller = self.seller.lock().unwrap();
        let _ = seller.kill();
        let _ = seller.wait();
    }
}

fn begin(market: &Market, ledger: &str, folder: &TempDir) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let settings = [market.chain.rpc_url(), ledger, &folder.path().display().to_string()].join("\n");
    command.args(AS_A_CHILD).env(SETTINGS, settings).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}
