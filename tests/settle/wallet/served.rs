//! A shop over real HTTP, on a chain whose nodes answer `pending` with `latest`: what one payer's payments at once make it do.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, routing::post};
use futures_util::future::join_all;
use tokio::sync::watch;
use tower_x402::{
    Merchant,
    ledger::MemoryLedger,
    protocol::{
        SealingKeys,
        headers::PAYMENT_SIGNATURE,
        v2::{PaymentPayload, PaymentRequired},
    },
    verify::EvmVerifier,
};

use super::*;

/// More than one payer may have under way.
const AT_ONCE: u8 = 64;

/// A shop whose handler waits until it is told to go on.
struct Served {
    chain: DevChain,
    url: String,
    runs: Arc<AtomicUsize>,
    /// Whether handlers go on.
    open: watch::Sender<bool>,
    http: reqwest::Client,
    _proxy: Proxy,
}

impl Served {
    async fn start() -> Self {
        let every_second = Some(Duration::from_secs(1));
        let chain = DevChain::builder().install_with_npm(true).mine_every(every_second).start().await.unwrap();
        let proxy = Proxy::before(chain.rpc_url()).await;
        for method in ["eth_call", "eth_estimateGas", "eth_getBalance"] {
            proxy.set(method, Odd::PendingIsLatest);
        }
        let settler = builder(&chain).replace_after(Duration::from_secs(15)).endpoint(proxy.url());
        let merchant = Merchant::builder(SELLER)
            .verifier(EvmVerifier::connect([proxy.url()]).await.unwrap())
            .settler(settler.connect().await.unwrap())
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap();
        let runs = Arc::<AtomicUsize>::default();
        let (open, gate) = watch::channel(false);
        let counter = Arc::clone(&runs);
        let handler = move || {
            let (counter, mut gate) = (Arc::clone(&counter), gate.clone());
            async move {
                counter.fetch_add(1, Ordering::SeqCst);
                gate.wait_for(|open| *open).await.unwrap();
                "the answer"
            }
        };
        let layer = merchant.charge("answer", price()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/answer", listener.local_addr().unwrap());
        let app = Router::new().route("/answer", post(handler).route_layer(layer));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { chain, url, runs, open, http, _proxy: proxy }
    }

    /// That many payments of an account, each for a quote of its own.
    async fn payments(&self, account: usize) -> Vec<PaymentPayload> {
        let key = key(&self.chain, account);
        let mut payments = Vec::new();
        for nonce in 0..AT_ONCE {
            let quote = async || self.http.post(&self.url).send().await.unwrap();
            let mut quoted = quote().await;
            while quoted.status() != 402 {
                tokio::time::sleep(Duration::from_millis(200)).await;
                quoted = quote().await;
            }
            let required = PaymentRequired::from_headers(quoted.headers()).unwrap().unwrap();
            let offer = required.accepts[0].exact().unwrap().clone();
            let signed = authorized(&self.chain, address(&key), nonce).await;
            assert_eq!((offer.pay_to, offer.amount), (signed.to, signed.value));
            let signature = key.sign_hash_sync(&digest(&self.chain, &signed)).unwrap().as_bytes();
            let signature = PaymentSignature::new(signature.to_vec()).unwrap();
            payments.push(PaymentPayload::new(offer, SignedAuthorization::new(signed, signature)));
        }
        payments
    }

    async fn status(&self, payment: &PaymentPayload) -> u16 {
        let request = self.http.post(&self.url).header(PAYMENT_SIGNATURE, payment.to_header());
        request.send().await.unwrap().status().as_u16()
    }

    /// How many transactions were mined that settle, and how many of them reverted.
    async fn sent(&self) -> (u128, u128) {
        let (sent, settled) = (u128::from(count_of(&self.chain, "latest").await), paid(&self.chain).await / 490_000);
        (sent, sent - settled)
    }
}

/// Settling looks at the balance in the newest block, and so at what is promised already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_payments_over_one_price_run_one_handler_and_revert_nothing() {
    let served = Served::start().await;
    served.chain.fund(served.chain.accounts()[1].address(), price()).await.unwrap();
    let payments = served.payments(1).await;
    let mut under_way = Box::pin(join_all(payments.iter().map(|payment| served.status(payment))));
    // All but the first are answered while its handler runs.
    assert!(tokio::time::timeout(Duration::from_secs(8), &mut under_way).await.is_err());
    served.open.send_replace(true);
    let answers = under_way.await;
    let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
    let figures = (served.runs.load(Ordering::SeqCst), count(200), count(503), served.sent().await);
    println!("one price, {AT_ONCE} at once: handlers, answers, refusals, (sent, reverted): {figures:?}");
    assert_eq!(figures, (1, 1, usize::from(AT_ONCE) - 1, (1, 0)));
    // Shown again, they are refused before any handler runs.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let again = join_all(payments.iter().map(|payment| served.status(payment))).await;
    assert!(again.iter().all(|status| [402, 409, 503].contains(status)), "{again:?}");
    assert!(again.contains(&402), "{again:?}");
    assert_eq!((served.runs.load(Ordering::SeqCst), served.sent().await), (1, (1, 0)));
}

/// A payer who has the money is limited in number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_payments_of_one_payer_run_thirty_two_handlers_at_once() {
    let served = Served::start().await;
    let payments = served.payments(2).await;
    let mut under_way = Box::pin(join_all(payments.iter().map(|payment| served.status(payment))));
    let all = until(async || served.runs.load(Ordering::SeqCst) == 32);
    tokio::select! {
        _ = &mut under_way => unreachable!("handlers wait"),
        () = all => {}
    }
    assert!(tokio::time::timeout(Duration::from_secs(3), &mut under_way).await.is_err());
    assert_eq!(served.runs.load(Ordering::SeqCst), 32);
    served.open.send_replace(true);
    let answers = under_way.await;
    let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
    let figures = (served.runs.load(Ordering::SeqCst), count(200), count(503), served.sent().await);
    println!("enough for all, {AT_ONCE} at once: handlers, answers, refusals, (sent, reverted): {figures:?}");
    assert_eq!(figures, (32, 32, 32, (32, 0)));
}
