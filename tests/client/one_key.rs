//! One account, several purchases at one price: on a real chain, where only its tag tells one transfer from another.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Barrier,
    time::{sleep, timeout},
};
use tower_x402::{
    client::{
        MemoryJournal, PayLayer, Payer, PayerError, PreparedTransfer, PurchaseState, SubmitGuard, TransferRequest,
        TransferStatus, WalletPayer,
    },
    protocol::{Address, Amount, Network, PaymentSignature, TxHash},
    testing::{DevChain, FakeClock},
};

use super::{
    Market, question,
    rig::{Bill, Seller, ask, sold},
};
use crate::support::NOW;

const SELLER: Address = Address::new([0x5e; 20]);

/// A wallet of the chain's first account that hangs in its first sending, or meets another after its first preparing.
#[derive(Debug)]
struct Hindered {
    inner: WalletPayer,
    hangs: bool,
    meets: Option<Arc<Barrier>>,
    calls: AtomicUsize,
}

impl Payer for Hindered {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.inner.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        let prepared = self.inner.prepare(payment).await;
        if let (Some(barrier), 0) = (&self.meets, self.calls.fetch_add(1, Ordering::SeqCst)) {
            barrier.wait().await;
        }
        prepared
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        if self.hangs {
            pending::<()>().await;
        }
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

struct Chain {
    chain: Arc<DevChain>,
    miner: tokio::task::JoinHandle<()>,
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.miner.abort();
    }
}

impl Chain {
    /// A block every tenth of a second.
    async fn start() -> Self {
        let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap();
        chain.mine(20).await.unwrap();
        let chain = Arc::new(chain);
        let mined = Arc::clone(&chain);
        let miner = tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(100)).await;
                let _ = mined.mine(1).await;
            }
        });
        Self { chain, miner }
    }

    async fn wallet(&self) -> Hindered {
        let wallet = WalletPayer::builder()
            .key(self.chain.accounts()[0].private_key())
            .endpoint(self.chain.rpc_url())
            .connect()
            .await
            .unwrap();
        Hindered { inner: wallet.final_after(2), hangs: false, meets: None, calls: AtomicUsize::new(0) }
    }

    async fn transfers(&self) -> Amount {
        self.chain.usdc_balance(SELLER).await.unwrap()
    }
}

async fn layer(payer: Hindered, journal: &MemoryJournal) -> PayLayer {
    let builder = PayLayer::builder(payer, Market::budget().build().unwrap(), journal.clone());
    let builder = builder.clock(FakeClock::new(NOW)).poll_every(Duration::from_millis(50));
    builder.patience(Duration::from_secs(60)).build().await.unwrap()
}

/// Sells each answer at the same price, under an intent of its own.
fn seller() -> Seller {
    Seller::new(|asked| match asked.proof {
        Some(_) => sold(),
        None => {
            let intent = format!("intent-{}", asked.before);
            Bill { recipient: SELLER.to_string(), intent, ..Bill::default() }.reply()
        }
    })
}

/// Left between the journal and the sending; then another purchase at the same price takes its nonce.
#[tokio::test]
async fn a_purchase_that_sent_nothing_is_not_credited_with_anothers_transfer() {
    let (chain, journal, seller) = (Chain::start().await, MemoryJournal::new(), seller());
    let hung = layer(Hindered { hangs: true, ..chain.wallet().await }, &journal).await;
    assert!(timeout(Duration::from_secs(3), ask(&hung, &seller, question("[1]"))).await.is_err());
    assert_eq!((journal.entries().len(), journal.entries()[0].state), (1, PurchaseState::Paying));
    drop(hung);

    let layer = layer(chain.wallet().await, &journal).await;
    let second = ask(&layer, &seller, question("[2]")).await.unwrap().purchase.unwrap();
    assert_eq!(journal.entries().iter().filter_map(|entry| entry.transfers()[0].nonce()).collect::<Vec<_>>(), [0, 0]);
    let first = ask(&layer, &seller, question("[1]")).await.unwrap().purchase.unwrap();
    assert_ne!(first.transaction, second.transaction, "one transfer for two answers");
    assert_eq!(chain.transfers().await, Amount::from_base_units(2 * 490_000));
}

#[tokio::test]
async fn two_processes_that_sign_for_one_nonce_pay_for_each_of_their_answers() {
    let (chain, seller, barrier) = (Chain::start().await, seller(), Arc::new(Barrier::new(2)));
    let (ones, twos) = (MemoryJournal::new(), MemoryJournal::new());
    let meeting = async || Hindered { meets: Some(Arc::clone(&barrier)), ..chain.wallet().await };
    let (one, two) = (layer(meeting().await, &ones).await, layer(meeting().await, &twos).await);
    let (a, b) = tokio::join!(ask(&one, &seller, question("{}")), ask(&two, &seller, question("{}")));
    let (a, b) = (a.unwrap().purchase.unwrap(), b.unwrap().purchase.unwrap());
    assert_ne!(a.transaction, b.transaction, "one transfer for two answers");
    let signed = |journal: &MemoryJournal| journal.entries().iter().map(|entry| entry.transfers()[0].nonce()).min();
    assert_eq!((signed(&ones), signed(&twos)), (Some(Some(0)), Some(Some(0))));
    assert_eq!(ones.entries().len() + twos.entries().len(), 3, "one of the two had to sign again");
    assert_eq!(chain.transfers().await, Amount::from_base_units(2 * 490_000));
}
