//! A seller that is killed (`kill -9`) at each step of a pass: while it is sold, and while a call is made by it. No payment buys two passes,
//! and a call that was not charged is not lost.

use std::{path::Path, time::Duration};

use axum::{Router, body::Body, routing::post};
use http::{Request, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;
use tower_x402::{
    ledger::{
        Account, AccountId, AccountLedger, AccountMemo, Announcements, ChargeOutcome, Claim, ClosedAccount,
        CommitOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, KeptAnswer, Lease, Ledger, LedgerError, OpenOutcome,
        Opening, ReflectOutcome, Reflection, RenewOutcome, ReserveOutcome, Sale, Settling, SqliteLedger,
    },
    protocol::{Amount, ChainTime, IntentKey, Network, PaymentId},
};

use crate::{
    app::{self, App, PATIENT},
    shop::client,
    support::{Shop, intent_of, proof},
};

const SETTINGS: &str = "X402_TEST_PASS_KILLED";
/// How long what a dead process held is busy.
const LEASE: Duration = Duration::from_secs(2);
const CALLS: u64 = 3;

/// Where the seller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The account of the pass is open, and its sale is not recorded.
    Opened,
    /// The sale is recorded, and the pass has not left.
    Sold,
    /// A call is held, and its handler has not begun.
    Drawn,
    /// The handler runs.
    Asked,
    /// The answer is there, and the call is about to be charged.
    Uncharged,
    /// It is charged, and the answer has not left.
    Charged,
}

impl Step {
    const ALL: [Self; 6] = [Self::Opened, Self::Sold, Self::Drawn, Self::Asked, Self::Uncharged, Self::Charged];

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| format!("{step:?}") == name)
    }

    /// How many answers the pass has left for others.
    const fn answers(self) -> u64 {
        if matches!(self, Self::Charged) { CALLS - 1 } else { CALLS }
    }
}

/// Ends this process as a power cut would, if this is where.
async fn die_at(step: Step, at: Option<Step>) {
    if at == Some(step) {
        std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
        std::future::pending().await
    }
}

/// Not a test of its own: the seller that the test below starts. Its chain is scripted, and has the same payment each time.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let [folder, step] = settings.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let (folder, at) = (Path::new(folder), Step::of(step));
    let inner = SqliteLedger::open(folder.join("ledger.db")).await.unwrap().time_limit(PATIENT);
    let shop = Shop::open_with(|builder| builder.ledger(Dying { inner, at }).lease(LEASE)).await;
    let merchant = shop.merchant.clone();
    let pass = merchant.pass("three", "1 USDC").unwrap().calls(CALLS).unwrap();
    let handler = async move || {
        die_at(Step::Asked, at).await;
        "precious"
    };
    let layer = merchant.charge("answer", "0.49 USDC").unwrap().accept_pass(&pass).unwrap();
    let sells = pass.service().unwrap();
    // What it says on its standard error is what the test waits for.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let payment = shop.pay(1_000_000);
    let shown = match std::fs::read_to_string(folder.join("proof")) {
        Ok(shown) => shown,
        Err(_) => {
            let quote = sells.clone().oneshot(Request::post("/pass").body(Body::empty()).unwrap()).await.unwrap();
            let shown = proof(&intent_of(&quote), payment);
            std::fs::write(folder.join("proof"), &shown).unwrap();
            shown
        }
    };
    assert!(shown.contains(&payment.to_string()), "the chain is another one");
    let app = Router::new().route("/answer", post(handler).route_layer(layer)).route_service("/pass", sells);
    eprintln!("listening on http://{}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

struct Seller {
    app: App,
    shown: String,
}

impl Seller {
    async fn start(folder: &Path, at: &str) -> Self {
        let settings = [folder.to_str().unwrap(), at];
        let app = App::run(app::child("passes_killed::as_a_child", SETTINGS, &settings), "http://127.0.0.1:9");
        let app = app.listening().await;
        Self { app, shown: std::fs::read_to_string(folder.join("proof")).unwrap() }
    }

    /// Shows the payment; `None` where the seller died.
    async fn buys(&self) -> Option<(StatusCode, Value)> {
        let request = client().post(format!("{}/pass", self.app.url())).header("x402-payment", &self.shown);
        let answer = request.send().await.ok()?;
        let status = answer.status();
        Some((status, answer.json().await.ok()?))
    }

    /// Shows it until there is a pass.
    async fn bought(&self) -> String {
        let end = Instant::now() + PATIENT;
        loop {
            let (status, told) = self.buys().await.unwrap();
            assert_ne!(status, 402, "{told}");
            if let Some(pass) = told["pass"].as_str() {
                return pass.to_owned();
            }
            assert!(Instant::now() < end && told["error"] == "redemption_in_progress", "{told}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Makes one call; `None` where the seller died.
    async fn call(&self, pass: &str) -> Option<(u16, String)> {
        let request = client().post(format!("{}/answer", self.app.url())).header("x402-pass", pass);
        let answer = request.send().await.ok()?;
        let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap().to_owned());
        Some((answer.status().as_u16(), code.unwrap_or_default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seller_that_dies_at_any_step_of_a_pass_sells_one_and_loses_no_call_that_was_not_charged() {
    for step in Step::ALL {
        let folder = tempfile::tempdir().unwrap();
        let dying = Seller::start(folder.path(), &format!("{step:?}")).await;
        let early = match step {
            Step::Opened | Step::Sold => {
                let told = dying.buys().await;
                assert!(told.is_none(), "{step:?}: {told:?}");
                None
            }
            _ => {
                let pass = dying.bought().await;
                assert!(dying.call(&pass).await.is_none(), "{step:?}");
                Some(pass)
            }
        };
        drop(dying);
        let seller = Seller::start(folder.path(), "None").await;
        let pass = seller.bought().await;
        assert!(early.is_none_or(|early| early == pass), "{step:?}: one payment, one pass");
        assert_eq!(seller.bought().await, pass, "{step:?}");
        let (mut answers, end) = (0, Instant::now() + PATIENT);
        loop {
            match seller.call(&pass).await.unwrap() {
                (200, _) => answers += 1,
                (402, _) => break,
                // What the dead one held.
                (409, code) if code == "pass_busy" => sleep(Duration::from_millis(200)).await,
                other => panic!("{step:?}: {other:?}"),
            }
            assert!(Instant::now() < end, "{step:?}");
        }
        assert_eq!(answers, step.answers(), "{step:?}");
    }
}

/// A ledger whose process dies at a step.
struct Dying {
    inner: SqliteLedger,
    at: Option<Step>,
}

impl AccountLedger for Dying {
    async fn open_account(&self, opening: &Opening) -> Result<OpenOutcome, LedgerError> {
        let opened = self.inner.open_account(opening).await;
        die_at(Step::Opened, self.at).await;
        opened
    }

    async fn draw(&self, draw: &Draw) -> Result<DrawOutcome, LedgerError> {
        let drawn = self.inner.draw(draw).await;
        die_at(Step::Drawn, self.at).await;
        drawn
    }

    async fn renew_draw(&self, lease: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        self.inner.renew_draw(lease).await
    }

    async fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        die_at(Step::Uncharged, self.at).await;
        let charged = self.inner.charge(lease, amount, memo).await;
        die_at(Step::Charged, self.at).await;
        charged
    }

    async fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        self.inner.take_back(lease, amount, memo).await
    }

    async fn release_draw(&self, lease: &DrawLease) -> Result<(), LedgerError> {
        self.inner.release_draw(lease).await
    }

    async fn close_account(&self, id: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        self.inner.close_account(id).await
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>, LedgerError> {
        self.inner.account(id).await
    }

    async fn reflect(&self, reflection: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        self.inner.reflect(reflection).await
    }

    async fn owed(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        self.inner.owed(after, most).await
    }

    async fn claimable(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        self.inner.claimable(after, most).await
    }

    async fn sweep_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        self.inner.sweep_accounts(expired_for).await
    }
}

impl Ledger for Dying {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.inner.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.inner.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.inner.settling(lease, settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let outcome = self.inner.commit(lease, answer).await;
        die_at(Step::Sold, self.at).await;
        outcome
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.inner.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.inner.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        self.inner.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        self.inner.announcements()
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        self.inner.answer_space()
    }
}
