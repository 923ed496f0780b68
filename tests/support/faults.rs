//! A ledger that fails on demand, time that follows a paused runtime, and handlers that do as they are told.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    future::{Future, pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::{Service, ServiceExt as _};
use tower_x402::{
    MerchantBuilder, RequestBody, X402, X402Layer,
    clock::Clock,
    ledger::{
        Account, AccountId, AccountLedger, AccountMemo, Announcements, BookedSale, ChargeOutcome, Claim, ClosedAccount,
        CommitOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, KeptAnswer, Lease, Ledger, LedgerCounts, LedgerError,
        MemoryLedger, OpenOutcome, Opening, ReflectOutcome, Reflection, RenewOutcome, ReserveOutcome, Sale, Settling,
    },
    protocol::{Amount, ChainTime, IntentKey, Network, Payment, PaymentId},
};

use super::{Answer, NOW, PRICE, Shop, ask, intent_of, post};

/// Shows the time of tokio's clock, which a paused runtime moves.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn unix(&self) -> u64 {
        NOW + self.0.elapsed().as_secs()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What a ledger is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Begin,
    Reserve,
    Renew,
    Settling,
    NotSettled,
    Begun,
    Commit,
    Release,
    IsConsumed,
    Health,
    Announced,
    Sweep,
    OpenAccount,
    Draw,
    RenewDraw,
    Charge,
    TakeBack,
    ReleaseDraw,
    Reflect,
}

/// What goes wrong with it.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails, and nothing was done.
    Fail,
    /// It never answers, and nothing was done.
    Hang,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// It is done, and the answer never comes.
    AnswerHangs,
    /// It is done that much later.
    Late(Duration),
}

/// A memory ledger behind a line that can be cut. Clones are handles.
#[derive(Clone)]
pub struct Faulty {
    pub inner: Arc<MemoryLedger>,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    next: HashMap<Op, VecDeque<Fault>>,
    always: HashMap<Op, Fault>,
    asked: HashMap<Op, usize>,
    /// Since it was last looked at.
    log: Vec<Op>,
    /// By which transfers it was asked to commit.
    committed: Vec<Payment>,
    /// As of which times it was asked to begin.
    begins: Vec<ChainTime>,
    /// The most candidates of one claim.
    widest: usize,
    yielding: bool,
    forgetful: bool,
    slow_to_keep: bool,
}

impl Faulty {
    pub fn over(inner: Arc<MemoryLedger>) -> Self {
        Self { inner, script: Arc::default() }
    }

    /// These faults, one for each of the next questions of this kind.
    pub fn next(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.script.lock().unwrap().next.entry(op).or_default().extend(faults);
    }

    /// This fault from now on.
    pub fn always(&self, op: Op, fault: Fault) {
        self.script.lock().unwrap().always.insert(op, fault);
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut script = self.script.lock().unwrap();
        script.next.clear();
        script.always.clear();
    }

    /// Gives way once before and once after everything it does.
    pub fn yielding(&self) {
        self.script.lock().unwrap().yielding = true;
    }

    /// Says of each sale that it is recorded, and loses it: as a ledger that was restored from a backup.
    pub fn forgets_sales(&self) {
        self.script.lock().unwrap().forgetful = true;
    }

    /// Never answers a commit that keeps an answer, and does nothing about it: as over a line that is too slow for so much.
    pub fn slow_to_keep(&self) {
        self.script.lock().unwrap().slow_to_keep = true;
    }

    /// The most candidates of which it was asked at once.
    pub fn widest(&self) -> usize {
        self.script.lock().unwrap().widest
    }

    /// How often it was asked that.
    pub fn asked(&self, op: Op) -> usize {
        self.script.lock().unwrap().asked.get(&op).copied().unwrap_or_default()
    }

    /// What it was asked since this was last called, in order.
    pub fn take_asked(&self) -> Vec<Op> {
        std::mem::take(&mut self.script.lock().unwrap().log)
    }

    /// By which transfers it was asked to commit, in order.
    pub fn committed(&self) -> Vec<Payment> {
        self.script.lock().unwrap().committed.clone()
    }

    /// As of which times it was asked to begin, in order.
    pub fn begins(&self) -> Vec<ChainTime> {
        self.script.lock().unwrap().begins.clone()
    }

    fn meets(&self, op: Op) -> (Option<Fault>, bool) {
        let mut script = self.script.lock().unwrap();
        *script.asked.entry(op).or_default() += 1;
        script.log.push(op);
        let fault = script.next.get_mut(&op).and_then(VecDeque::pop_front);
        (fault.or_else(|| script.always.get(&op).copied()), script.yielding)
    }

    async fn through<T>(&self, op: Op, work: impl Future<Output = Result<T, LedgerError>>) -> Result<T, LedgerError> {
        let (fault, yielding) = self.meets(op);
        if yielding {
            give_way().await;
        }
        let done = match fault {
            None => work.await,
            Some(Fault::Fail) => Err(LedgerError::unavailable()),
            Some(Fault::Hang) => pending().await,
            Some(Fault::AnswerLost) => work.await.and(Err(LedgerError::unavailable())),
            Some(Fault::AnswerHangs) => {
                let _ = work.await;
                pending().await
            }
            Some(Fault::Late(by)) => {
                sleep(by).await;
                work.await
            }
        };
        if yielding {
            give_way().await;
        }
        done
    }
}

impl Ledger for Faulty {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.script.lock().unwrap().begins.push(now);
        self.through(Op::Begin, self.inner.begin(network, now)).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        {
            let mut script = self.script.lock().unwrap();
            script.widest = script.widest.max(claim.payments().len());
        }
        self.through(Op::Reserve, self.inner.reserve(claim)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.through(Op::Renew, self.inner.renew(lease)).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.through(Op::Settling, self.inner.settling(lease, settling)).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.through(Op::NotSettled, self.inner.not_settled(lease)).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let (forgetful, hangs) = {
            let mut script = self.script.lock().unwrap();
            script.committed.push(lease.payment().clone());
            (script.forgetful, script.slow_to_keep && answer.is_some())
        };
        if hangs {
            return pending().await;
        }
        if forgetful {
            self.inner.release(lease).await?;
            return Ok(CommitOutcome::Done);
        }
        self.through(Op::Commit, self.inner.commit(lease, answer)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.through(Op::Release, self.inner.release(lease)).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.through(Op::IsConsumed, self.inner.consumed(intent)).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.through(Op::Begun, self.inner.begun(intent, payment)).await
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        self.through(Op::Begun, self.inner.begun_among(intent, payments)).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        // In nobody's log: it comes beside the questions.
        let hangs = {
            let mut script = self.script.lock().unwrap();
            *script.asked.entry(Op::Sweep).or_default() += 1;
            script.always.contains_key(&Op::Sweep)
        };
        if hangs { pending().await } else { self.inner.sweep(network, head).await }
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.through(Op::Health, self.inner.health()).await
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        self.inner.answer_space()
    }
}

impl AccountLedger for Faulty {
    async fn open_account(&self, opening: &Opening) -> Result<OpenOutcome, LedgerError> {
        self.through(Op::OpenAccount, self.inner.open_account(opening)).await
    }

    async fn draw(&self, draw: &Draw) -> Result<DrawOutcome, LedgerError> {
        self.through(Op::Draw, self.inner.draw(draw)).await
    }

    async fn renew_draw(&self, lease: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        self.through(Op::RenewDraw, self.inner.renew_draw(lease)).await
    }

    async fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        self.through(Op::Charge, self.inner.charge(lease, amount, memo)).await
    }

    async fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        self.through(Op::TakeBack, self.inner.take_back(lease, amount, memo)).await
    }

    async fn release_draw(&self, lease: &DrawLease) -> Result<(), LedgerError> {
        self.through(Op::ReleaseDraw, self.inner.release_draw(lease)).await
    }

    async fn close_account(&self, id: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        self.inner.close_account(id).await
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>, LedgerError> {
        self.inner.account(id).await
    }

    async fn reflect(&self, reflection: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        self.through(Op::Reflect, self.inner.reflect(reflection)).await
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

impl Announcements for Faulty {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        self.inner.unannounced(after, most).await
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        self.through(Op::Announced, self.inner.announced(payment)).await
    }
}

/// Is pending once.
pub async fn give_way() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Lets tasks in the background run.
pub async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// A shop whose ledger is faulty and keeps tokio's time.
pub struct Stage {
    pub shop: Shop,
    pub ledger: Faulty,
}

impl Stage {
    pub async fn open() -> Self {
        Self::open_with(|builder| builder).await
    }

    pub async fn open_with(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Self {
        let memory = Arc::new(MemoryLedger::with_clock(TokioClock::new()));
        let ledger = Faulty::over(Arc::clone(&memory));
        let handle = ledger.clone();
        let shop = Shop::open_with(|builder| set(builder.ledger(handle))).await;
        Self { shop: Shop { ledger: memory, ..shop }, ledger }
    }

    pub fn layer(&self) -> X402Layer {
        self.shop.merchant.charge("answer", PRICE).unwrap()
    }

    pub fn counts(&self) -> LedgerCounts {
        self.shop.ledger.counts().unwrap()
    }
}

/// A service around a closure that is told which run it is.
pub fn handler<F, Fut>(
    run: F,
) -> impl Service<Request<RequestBody<Body>>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static
where
    F: Fn(usize) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let runs = Arc::new(AtomicUsize::new(0));
    tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let answer = run(runs.fetch_add(1, Ordering::SeqCst) + 1);
        async move { Ok(answer.await) }
    })
}

pub fn ok() -> Response<Body> {
    Response::new(Body::from("the answer"))
}

pub fn failed() -> Response<Body> {
    Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR).body(Body::empty()).unwrap()
}

/// A fresh intent of a priced service.
pub async fn quoted<S>(service: &X402<S>) -> String
where
    X402<S>: Service<Request<Body>, Response = Answer, Error = Infallible> + Clone,
{
    let quote = ask(service, post("{}")).await;
    assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED);
    intent_of(&quote)
}

/// A request in a task of its own.
pub fn start<S>(service: &X402<S>, request: Request<Body>) -> JoinHandle<Answer>
where
    X402<S>: Service<Request<Body>, Response = Answer, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    let answer = service.clone().oneshot(request);
    tokio::spawn(async move { answer.await.unwrap() })
}

/// Tells when it is dropped.
#[derive(Clone, Default)]
pub struct Gone(Arc<AtomicBool>);

pub struct Watched(Gone);

impl Gone {
    pub fn watch(&self) -> Watched {
        Watched(self.clone())
    }

    pub fn is_gone(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}
