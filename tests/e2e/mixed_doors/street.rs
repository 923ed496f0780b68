//! Four sellers in processes of their own, on one ledger and one chain; and what passes between them and who shows payments.

use std::{
    collections::BTreeMap,
    fs,
    sync::Mutex,
    time::{Duration, SystemTime},
};

use alloy::signers::local::PrivateKeySigner;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use rand::Rng as _;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};
use tower_x402::{
    protocol::v2::{PaymentRequired, PaymentRequirements},
    testing::DevChain,
};

use super::{
    FORGED,
    book::Sale,
    payments::{Party, Payment, Presentation, QUESTION},
    stall,
};
use crate::{
    app::{App, PATIENT},
    market::SELLER,
    replicas::{Database, KEY},
    support::mpp,
};

pub const SELLERS: usize = 4;
pub const REALM: &str = "shop.example";

/// A quote, in the words of x402 and of MPP.
pub struct Offer {
    pub terms: PaymentRequirements,
    pub challenge: serde_json::Value,
}

/// One at a time: its sellers take forty of the connections that a server of PostgreSQL has.
static PLACE: Semaphore = Semaphore::const_new(1);

/// What is started four times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Datasets,
    /// Ours, whose leases are short and whose answers are all different.
    Stall,
}

pub struct Street {
    pub chain: DevChain,
    pub database: Database,
    program: Program,
    folder: tempfile::TempDir,
    sellers: [tokio::sync::Mutex<Option<App>>; SELLERS],
    urls: [Mutex<String>; SELLERS],
    http: reqwest::Client,
    told: Mutex<BTreeMap<String, usize>>,
    _place: SemaphorePermit<'static>,
}

impl Street {
    /// `None` where there is no server for the ledger.
    pub async fn open(program: Program) -> Option<Self> {
        let place = PLACE.acquire().await.unwrap();
        let database = Database::new().await?;
        let chain =
            DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(240)).build().unwrap();
        let (folder, sellers, urls, told) =
            (tempfile::tempdir().unwrap(), Default::default(), Default::default(), Mutex::default());
        let street = Self { chain, database, program, folder, sellers, urls, http, told, _place: place };
        futures_util::future::join_all((0..SELLERS).map(|seller| street.start(seller))).await;
        street.time_passes().await;
        Some(street)
    }

    /// A new ledger refuses what is as old as itself, and blocks of one chain may have one time here.
    async fn time_passes(&self) {
        let begun = self.chain.timestamp().await.unwrap();
        let passed = async {
            while self.chain.timestamp().await.unwrap() <= begun {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(PATIENT, passed).await.unwrap();
    }

    async fn start(&self, seller: usize) {
        // Each settles from an account of its own.
        let key = self.folder.path().join(format!("{seller}.key"));
        fs::write(&key, self.chain.accounts()[seller].private_key()).unwrap();
        let (key, ledger, rpc) = (key.to_str().unwrap(), self.database.url(), self.chain.rpc_url());
        let app = match self.program {
            Program::Datasets => {
                let flags = ["--ledger", &ledger, "--sealing-key", KEY, "--settle-key", key];
                let more = ["--hold-unbound", "5s", "--redeliver", "15m", "--mpp", REALM];
                App::start(rpc, &[&flags[..], &more].concat()).await
            }
            Program::Stall => App::run(stall::program([rpc, &ledger, key]), rpc).listening().await,
        };
        *self.urls[seller].lock().unwrap() = app.insights();
        *self.sellers[seller].lock().await = Some(app);
    }

    /// Ends one as a power cut would, and starts it again.
    pub async fn kill_one(&self) {
        let seller = rand::rng().random_range(0..SELLERS);
        let app = self.sellers[seller].lock().await.take();
        app.unwrap().kill();
        self.start(seller).await;
    }

    /// Ends all, and leaves nothing behind.
    pub async fn close(self) {
        for seller in self.sellers {
            seller.into_inner().unwrap().kill();
        }
        self.database.remove().await;
    }

    /// Whether sellers are killed here.
    pub fn crashes(&self) -> bool {
        self.program == Program::Stall
    }

    pub fn key(&self, account: usize) -> PrivateKeySigner {
        self.chain.accounts()[account].private_key().parse().unwrap()
    }

    /// The machine's time, which is the chain's.
    pub fn now(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    /// What the recipient has.
    pub async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }

    fn ask(&self) -> reqwest::RequestBuilder {
        let url = self.urls[rand::rng().random_range(0..SELLERS)].lock().unwrap().clone();
        self.http.post(url).header(CONTENT_TYPE, "application/json")
    }

    /// A quote, by anyone of them.
    pub async fn offer(&self) -> Offer {
        let quote = self.ask().body(QUESTION).send().await.unwrap();
        assert_eq!(quote.status(), 402);
        let required = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
        let terms = required.accepts[0].exact().unwrap().clone();
        Offer { terms, challenge: mpp::parameters(quote.headers()[WWW_AUTHENTICATE].to_str().unwrap()) }
    }

    /// Shows this at anyone of them.
    pub async fn present(&self, payment: &Payment, shown: &Presentation) {
        let (name, value) = shown.header.clone();
        let told = match self.ask().header(name, value).body(shown.body).send().await {
            Ok(answer) => self.hear(payment, shown, answer).await,
            Err(_) => "nothing".to_owned(),
        };
        *self.told.lock().unwrap().entry(told).or_default() += 1;
    }

    async fn hear(&self, payment: &Payment, shown: &Presentation, answer: reqwest::Response) -> String {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let Ok(body) = answer.bytes().await else { return "half of an answer".to_owned() };
        if status == 200 {
            let (is_replayed, is_stolen) = (headers.contains_key("idempotent-replayed"), !payment.is_for(shown.party));
            payment.book.note(Sale { body, is_replayed, is_stolen });
            return if is_replayed { "200 again" } else { "200" }.to_owned();
        }
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        // Another payment is asked for by a bill alone, in all dialects.
        let asks = headers.contains_key(WWW_AUTHENTICATE) || problem.get("accepts").is_some();
        assert_eq!(asks, status == 402, "{problem}");
        let whose = if shown.party == Party::Forger { FORGED } else { "" };
        format!("{whose}{} {}", status.as_u16(), problem["error"].as_str().unwrap_or("-"))
    }

    /// How often who was told what.
    pub fn told(&self) -> BTreeMap<String, usize> {
        self.told.lock().unwrap().clone()
    }
}
