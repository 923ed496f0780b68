//! How long a call waits before any money moves, and that it says so; the next call does not wait for it.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use tower_x402::{
    client::{
        PayError, PayErrorKind, PayLayer, Payer, PayerError, PreparedTransfer, SubmitGuard, TransferRequest,
        TransferStatus,
    },
    protocol::{Address, Network, PaymentSignature, TxHash},
    testing::ScriptedPayer,
};

use super::{
    Market, question,
    rig::{Bill, Reply, Seller, ask, sold},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A wallet on a node that takes its time, or never answers.
#[derive(Clone)]
pub struct SlowNode {
    inner: ScriptedPayer,
    takes: Duration,
    pub hangs: Arc<AtomicBool>,
    pub prepared: Arc<AtomicUsize>,
}

impl Payer for SlowNode {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.inner.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        self.prepared.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            return pending().await;
        }
        sleep(self.takes).await;
        self.inner.prepare(payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.inner.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        self.inner.status(prepared).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.inner.replace(prepared).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.inner.sign(message, account).await
    }
}

pub async fn on(market: &Market, takes: Duration) -> (PayLayer, SlowNode) {
    let node = SlowNode { inner: market.wallet.clone(), takes, hangs: Arc::default(), prepared: Arc::default() };
    let budget = Market::budget().per_day("1000").build().unwrap();
    let builder = PayLayer::builder(node.clone(), budget, market.journal.clone()).patience(PATIENCE);
    (builder.clock(market.shop.clock.clone()).build().await.unwrap(), node)
}

fn timed_out(error: &PayError) -> bool {
    assert_eq!((error.transaction(), error.is_resumable()), (None, false));
    assert!(error.to_string().contains("nothing was paid"), "{error}");
    error.kind() == PayErrorKind::TimedOut
}

#[tokio::test(start_paused = true)]
async fn a_first_question_that_hangs_ends_with_the_patience() {
    let market = Market::open().await;
    let (layer, _) = on(&market, Duration::ZERO).await;
    let begun = Instant::now();
    let call = timeout(10 * PATIENCE, ask(&layer, &Seller::new(|_| Reply::Hangs), question("{}"))).await;
    assert!(timed_out(&call.expect("an end").unwrap_err()));
    assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(market.journal.entries().is_empty());
}

/// A hundred at once, of which the node manages one in ten seconds: who does not get his turn in time is told so.
#[tokio::test(start_paused = true)]
async fn a_queue_for_the_turn_ends_with_the_patience() {
    let market = Market::open().await;
    let (layer, _) = on(&market, Duration::from_secs(10)).await;
    let seller =
        Seller::new(
            |asked| {
                if asked.proof.is_some() { sold() } else { Bill { expiry: u64::MAX, ..Bill::default() }.reply() }
            },
        );
    let begun = Instant::now();
    let requests: Vec<_> = (0..100).map(|number| question(&format!("[{number}]"))).collect();
    let calls = join_all(requests.into_iter().map(|request| ask(&layer, &seller, request))).await;
    assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(5), "{:?}", begun.elapsed());
    let paid = calls.iter().filter(|call| call.is_ok()).count();
    assert!((5..=6).contains(&paid), "{paid}");
    assert!(calls.iter().filter_map(|call| call.as_ref().err()).all(timed_out));
    assert_eq!((market.wallet.transfers(), layer.spent().to_string()), (paid, (paid * 490_000).to_string()));
    // And what was given up is free.
    ask(&layer, &seller, question("[0]")).await.unwrap();
}

/// Whoever hangs in `prepare` and is left, or is out of patience, leaves the turn and the money to the next.
#[tokio::test(start_paused = true)]
async fn a_preparation_that_hangs_keeps_neither_turn_nor_money() {
    for dropped in [true, false] {
        let market = Market::open().await;
        let (layer, node) = on(&market, Duration::ZERO).await;
        node.hangs.store(true, Ordering::SeqCst);
        let seller = Seller::honest();
        let call =
            timeout(if dropped { Duration::from_secs(5) } else { 10 * PATIENCE }, ask(&layer, &seller, question("{}")));
        match call.await {
            Err(_) => assert!(dropped),
            Ok(ended) => assert!(!dropped && timed_out(&ended.unwrap_err())),
        }
        assert_eq!((node.prepared.load(Ordering::SeqCst), layer.spent().to_string()), (1, "0".to_owned()));
        node.hangs.store(false, Ordering::SeqCst);
        let next = timeout(Duration::from_secs(1), ask(&layer, &seller, question("[2]"))).await;
        next.expect("the turn is free").unwrap();
        assert_eq!((market.wallet.transfers(), market.journal.entries().len()), (1, 1));
    }
}
