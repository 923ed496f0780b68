//! What a payer's tests need: a seller that says what it is told to say, and a wallet, a journal and a client that
//! give way at every step, fail or hang.

use std::{
    collections::HashMap,
    future::{Future, pending},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{
    client::{
        Body, Journal, JournalEntry, JournalError, MemoryJournal, Pay, PayError, PayLayer, Payer, PayerError,
        PreparedTransfer, Purchase, SubmitGuard, TransferRequest, TransferStatus,
    },
    protocol::{Address, Asset, Network, PaymentSignature, TxHash},
};

use crate::{
    support::faults::give_way,
    support::{NOW, recipient},
};

pub type AnyBody = UnsyncBoxBody<Bytes, String>;

pub fn any<B>(body: B) -> AnyBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    body.map_err(|error| error.to_string()).boxed_unsync()
}

pub fn text(text: impl Into<String>) -> AnyBody {
    any(Full::new(Bytes::from(text.into())))
}

/// What a seller does with a request.
pub enum Reply {
    Answer(Response<AnyBody>),
    /// The connection breaks.
    Broken,
    /// Nothing, ever.
    Hangs,
}

/// A response of these parts.
pub fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Reply {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Reply::Answer(response.body(text(body)).unwrap())
}

/// A problem as the contract has it, under any status.
pub fn problem(status: u16, code: &str, headers: &[(&str, &str)]) -> Reply {
    let mut all = vec![("content-type", "application/problem+json")];
    all.extend(headers);
    reply(status, &all, format!(r#"{{"status":{status},"error":"{code}"}}"#))
}

/// The answer, as a seller of ours gives it.
pub fn sold() -> Reply {
    reply(200, &[("payment-response", "e30=")], "the answer")
}

/// A quote whose every part can be changed.
#[derive(Clone)]
pub struct Bill {
    pub recipient: String,
    pub chain: String,
    pub amount: String,
    pub decimals: String,
    pub expiry: u64,
    pub contracts: String,
    pub label: String,
    pub intent: String,
}

impl Default for Bill {
    fn default() -> Self {
        Self {
            recipient: recipient().to_string(),
            chain: "8453".into(),
            amount: "490000".into(),
            decimals: "6".into(),
            expiry: NOW + 600,
            contracts: Asset::USDC_BASE.contract().to_string(),
            label: "an answer".into(),
            intent: "intent-1".into(),
        }
    }
}

impl Bill {
    pub fn of(amount: &str) -> Self {
        Self { amount: amount.into(), ..Self::default() }
    }

    pub fn pay(&self) -> String {
        let Self { recipient, chain, amount, decimals, expiry, label, .. } = self;
        format!(
            r#"{{"recipient":"{recipient}","chainId":{chain},"label":"{label}","expiry":{expiry},"amount":"{amount}","decimals":{decimals},"symbol":"USDC"}}"#
        )
    }

    pub fn reply(&self) -> Reply {
        let pay = self.pay();
        let headers = [("pay", &*pay), ("x-price-intent", &self.intent), ("x-payment-contracts", &self.contracts)];
        problem(402, "payment_required", &headers)
    }
}

/// One request as the seller sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// How many came before it.
    pub before: usize,
    /// How many with a proof came before it.
    pub proofs: usize,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Intent and transaction, and whether they came in the header.
    pub proof: Option<(String, String, bool)>,
}

fn proof_of(headers: &HeaderMap, body: &[u8]) -> Option<(String, String, bool)> {
    let read = |bytes: &[u8]| {
        let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        Some((json.get("intentId")?.as_str()?.to_owned(), json.get("txHash")?.as_str()?.to_owned()))
    };
    let (proof, in_header) = match headers.get("x402-payment") {
        Some(value) => (read(value.as_bytes())?, true),
        None => (read(body)?, false),
    };
    Some((proof.0, proof.1, in_header))
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A seller by script. Clones are one seller.
#[derive(Clone)]
pub struct Seller {
    script: Arc<Script>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Seller {
    pub fn new(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), asked: Arc::default() }
    }

    /// Quotes the usual price, each time under another intent; `script` says the rest.
    pub fn paid(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(move |asked| match asked.proof {
            Some(_) => script(asked),
            None => Bill { intent: format!("intent-{}", asked.before + 1), ..Bill::default() }.reply(),
        })
    }

    /// Sells to everybody, also again to whoever shows the same proof again.
    pub fn honest() -> Self {
        Self::paid(|_| sold())
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn proofs(&self) -> usize {
        self.asked().iter().filter(|asked| asked.proof.is_some()).count()
    }
}

impl Service<Request<Body>> for Seller {
    type Response = Response<AnyBody>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnyBody>, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let seller = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            let asked = {
                let mut all = seller.asked.lock().unwrap();
                let asked = Asked {
                    before: all.len(),
                    proofs: all.iter().filter(|asked| asked.proof.is_some()).count(),
                    proof: proof_of(&parts.headers, &body),
                    method: parts.method,
                    uri: parts.uri,
                    headers: parts.headers,
                    body,
                };
                all.push(asked.clone());
                asked
            };
            match (seller.script)(&asked) {
                Reply::Answer(mut response) => {
                    confirm(&mut response, &asked);
                    Ok(response)
                }
                Reply::Broken => Err("the connection broke".into()),
                Reply::Hangs => pending().await,
            }
        })
    }
}

/// Writes what was taken where a script says [`TAKEN`].
fn confirm(response: &mut Response<AnyBody>, asked: &Asked) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let (Some(taken), Some((_, transaction, _))) = (response.headers_mut().get_mut("payment-response"), &asked.proof)
    else {
        return;
    };
    if taken == TAKEN {
        let json = format!(r#"{{"success":true,"transaction":"{transaction}"}}"#);
        *taken = STANDARD.encode(json).parse().unwrap();
    }
}

/// In a script: a confirmation of the very payment that was shown.
pub const TAKEN: &str = "e30=";

/// What came of one call.
#[derive(Debug)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    pub purchase: Option<Purchase>,
}

/// One call of a client, to the end of the answer's body.
pub async fn call<S, R>(client: &Pay<S>, request: Request<Body>) -> Result<Got, PayError>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Send + std::fmt::Debug,
{
    let (parts, body) = client.clone().oneshot(request).await?.into_parts();
    let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
    let purchase = parts.extensions.get::<Purchase>().cloned();
    Ok(Got { status: parts.status, headers: parts.headers, text, purchase })
}

/// One call of a seller through a layer.
pub async fn ask(layer: &PayLayer, seller: &Seller, request: Request<Body>) -> Result<Got, PayError> {
    call(&layer.layer(seller.clone()), request).await
}

/// A client that gives way when it is asked whether it is ready, before it asks and before it answers.
#[derive(Clone, Debug)]
pub struct SlowClient<S> {
    inner: S,
    waited: bool,
}

impl<S> SlowClient<S> {
    pub const fn new(inner: S) -> Self {
        Self { inner, waited: false }
    }
}

impl<S> Service<Request<Body>> for SlowClient<S>
where
    S: Service<Request<Body>, Future: Send + 'static, Response: Send>,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if std::mem::replace(&mut self.waited, true) {
            return self.inner.poll_ready(cx);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.waited = false;
        let answer = self.inner.call(request);
        Box::pin(async move {
            give_way().await;
            let answer = answer.await;
            give_way().await;
            answer
        })
    }
}

/// A wallet that gives way before and after everything it does.
#[derive(Clone, Debug)]
pub struct SlowWallet<P>(pub P);

async fn slowly<T>(work: impl Future<Output = T>) -> T {
    give_way().await;
    let done = work.await;
    give_way().await;
    done
}

impl<P: Payer> Payer for SlowWallet<P> {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        slowly(self.0.submit_guard(network)).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        slowly(self.0.prepare(payment)).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        slowly(self.0.send(prepared)).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        slowly(self.0.status(prepared)).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        slowly(self.0.replace(prepared)).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        slowly(self.0.sign(message, account)).await
    }
}

/// How a write to the journal goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// It fails, and nothing is written.
    Fails,
    /// It fails, and it was written.
    FailsWritten,
    /// It hangs, and nothing is written.
    Hangs,
    /// It hangs, and it was written.
    HangsWritten,
}

/// A journal that gives way around each write, and goes wrong where it is told to. Clones are one journal.
#[derive(Clone, Debug, Default)]
pub struct Diary {
    pub kept: MemoryJournal,
    slips: Arc<Mutex<HashMap<usize, Slip>>>,
    writes: Arc<Mutex<usize>>,
}

impl Diary {
    pub fn of(kept: MemoryJournal) -> Self {
        Self { kept, ..Self::default() }
    }

    /// What happens to the write of that number, counted from 1.
    pub fn slip(self, write: usize, slip: Slip) -> Self {
        self.slips.lock().unwrap().insert(write, slip);
        self
    }

    pub fn writes(&self) -> usize {
        *self.writes.lock().unwrap()
    }
}

impl Journal for Diary {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.kept.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        give_way().await;
        let write = {
            let mut writes = self.writes.lock().unwrap();
            *writes += 1;
            *writes
        };
        let slip = self.slips.lock().unwrap().get(&write).copied();
        if !matches!(slip, Some(Slip::Fails | Slip::Hangs)) {
            self.kept.record(entry).await?;
        }
        give_way().await;
        match slip {
            None => Ok(()),
            Some(Slip::Fails | Slip::FailsWritten) => Err(JournalError::Broken),
            Some(Slip::Hangs | Slip::HangsWritten) => pending().await,
        }
    }
}
