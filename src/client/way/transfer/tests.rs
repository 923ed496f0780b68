//! Tests of the transfer alone, with a scripted payer and a journal in memory, without a seller.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    client::{
        Budget, Journal, JournalError, JournalPayment, MemoryJournal, Payer, PreparedTransfer, PurchaseId, SubmitGuard,
        flow::PurchaseRegistry, payer::ErasedPayer, settings::Settings,
    },
    protocol::{Address, Amount, Asset, ChainTime, IntentId, Network, PaymentSignature},
    testing::FakeClock,
};

const NOW: u64 = 1_795_280_400;
const TX: TxHash = TxHash::new([9; 32]);

/// The calls, in order.
type Effects = Arc<Mutex<Vec<&'static str>>>;

/// A payer with scripted answers that records its calls.
struct Script {
    effects: Effects,
    clock: FakeClock,
    /// How long preparing takes.
    takes: Duration,
    fates: Mutex<VecDeque<TransferStatus>>,
}

impl Script {
    fn does(&self, effect: &'static str) {
        self.effects.lock().unwrap().push(effect);
    }
}

struct Turned(Effects);

impl Drop for Turned {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("turn over");
    }
}

impl Payer for Script {
    async fn submit_guard(&self, _: Network) -> SubmitGuard {
        self.does("turn");
        SubmitGuard::held(Turned(Arc::clone(&self.effects)))
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        self.does("prepare");
        self.clock.advance(self.takes);
        Ok(PreparedTransfer::signed(Address::new([1; 20]), payment.network, payment.assets[0].contract(), 7, TX, "raw"))
    }

    async fn send(&self, _: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.does("send");
        Ok(TX)
    }

    async fn status(&self, _: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        Ok(self.fates.lock().unwrap().pop_front().unwrap_or(TransferStatus::Unknown))
    }

    async fn replace(&self, _: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.does("replace");
        Ok(None)
    }

    async fn sign(&self, _: &str, _: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.does("sign");
        Ok(None)
    }
}

/// A journal that records its calls, or fails.
struct Diary {
    effects: Effects,
    kept: MemoryJournal,
    fails: bool,
}

impl Journal for Diary {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.kept.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        if self.fails {
            return Err(JournalError::Broken);
        }
        self.effects.lock().unwrap().push("record");
        self.kept.record(entry).await
    }
}

/// One purchase of 0.49 USDC.
struct Stage {
    effects: Effects,
    kept: MemoryJournal,
    payer: Box<dyn ErasedPayer>,
    clock: FakeClock,
    settings: Settings,
    registry: PurchaseRegistry,
    budget: Budget,
}

impl Stage {
    async fn new(fates: impl IntoIterator<Item = TransferStatus>, journal_fails: bool) -> Self {
        Self::taking(Duration::ZERO, fates, journal_fails).await
    }

    /// Creates a stage whose payer takes that long to prepare.
    async fn taking(takes: Duration, fates: impl IntoIterator<Item = TransferStatus>, journal_fails: bool) -> Self {
        let (effects, kept) = (Effects::default(), MemoryJournal::new());
        let clock = FakeClock::new(NOW);
        let diary = Diary { effects: Arc::clone(&effects), kept: kept.clone(), fails: journal_fails };
        let registry = PurchaseRegistry::load(Box::new(diary), Arc::new(clock.clone())).await.unwrap();
        let fates = Mutex::new(fates.into_iter().collect());
        let script = Script { effects: Arc::clone(&effects), clock: clock.clone(), takes, fates };
        let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("1").build().unwrap();
        Self { effects, kept, payer: Box::new(script), clock, settings: Settings::default(), registry, budget }
    }

    fn driver(&self, entry: JournalEntry) -> TransferDriver<'_> {
        let Self { payer, clock, settings, budget, registry, .. } = self;
        let (id, context) = (entry.id, DispatchContext { payer: &**payer, clock, settings, budget, registry });
        let guard = self.registry.reserve(entry, budget).unwrap();
        let deadline = Instant::now() + self.settings.patience;
        TransferDriver::new(context, guard, Progress::new(id, "seller.example", "POST /x", None), deadline)
    }

    fn effects(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.effects.lock().unwrap())
    }
}

fn quote(amount: u128, expiry: u64) -> Quote {
    Quote {
        intent: IntentId::new("intent").unwrap(),
        recipient: Address::new([2; 20]),
        network: Network::BASE,
        label: "x".to_owned(),
        expiry: ChainTime::from_unix(expiry),
        amount: Amount::from_base_units(amount),
        decimals: 6,
        symbol: "USDC".to_owned(),
        contracts: vec![Asset::USDC_BASE.contract()],
    }
}

fn payment() -> TransferRequest {
    let amount = Amount::from_base_units(490_000);
    TransferRequest::new(PurchaseId::new([1; 16]), Network::BASE, Address::new([2; 20]), amount, [Asset::USDC_BASE])
}

fn entry(prepared: bool, expiry: u64) -> JournalEntry {
    let quote = quote(490_000, expiry);
    let transfer =
        PreparedTransfer::signed(Address::new([1; 20]), Network::BASE, Asset::USDC_BASE.contract(), 7, TX, "raw");
    JournalEntry {
        is_elsewhere: false,
        id: PurchaseId::new([1; 16]),
        at: ChainTime::from_unix(NOW),
        state: PurchaseState::Paying,
        host: "seller.example".to_owned(),
        request: "POST /x".to_owned(),
        fingerprint: "00".repeat(16),
        intent: quote.intent.as_str().to_owned(),
        secret: None,
        expiry: ChainTime::from_unix(expiry),
        recipient: quote.recipient,
        network: quote.network,
        amount: quote.amount,
        decimals: quote.decimals,
        payment: if prepared { JournalPayment::Transfer(vec![transfer]) } else { JournalPayment::None },
        transaction: None,
        settled: None,
        delivered: false,
        charged: None,
        is_pass: false,
        billed: 0,
    }
}

#[tokio::test]
async fn a_transfer_is_on_record_before_it_is_sent_and_both_happen_in_the_turn() {
    let stage = Stage::new([], false).await;
    let guard = stage.driver(entry(false, NOW + 600)).pay(&payment(), &quote(490_000, NOW + 600)).await.unwrap();
    assert_eq!(stage.effects(), ["turn", "prepare", "record", "send", "turn over"]);
    assert_eq!(guard.entry().transaction(), Some(TX));
    assert_eq!(stage.kept.entries()[0].transfers().len(), 1);
}

#[tokio::test]
async fn what_the_journal_does_not_take_is_not_sent_and_leaves_nothing() {
    let stage = Stage::new([], true).await;
    let paid = stage.driver(entry(false, NOW + 600)).pay(&payment(), &quote(490_000, NOW + 600)).await;
    assert!(matches!(paid, Err(Failure::Journal(_))));
    assert_eq!(stage.effects(), ["turn", "prepare", "turn over"]);
    assert!(stage.registry.unfinished().is_empty());
}

#[tokio::test]
async fn a_quote_that_leaves_too_little_time_is_not_paid() {
    let stage = Stage::new([], false).await;
    let paid = stage.driver(entry(false, NOW + 9)).pay(&payment(), &quote(490_000, NOW + 9)).await;
    assert!(matches!(paid, Err(Failure::Declined(Denial::ExpiresSoon { .. }))));
    assert_eq!(stage.effects(), ["turn", "turn over"]);
}

/// Nodes may take long to answer what a payment needs.
#[tokio::test]
async fn a_quote_that_ends_while_its_transfer_is_prepared_is_not_paid() {
    for (takes, is_paid) in [(590, true), (591, false), (601, false)] {
        let stage = Stage::taking(Duration::from_secs(takes), [], false).await;
        let paid = stage.driver(entry(false, NOW + 600)).pay(&payment(), &quote(490_000, NOW + 600)).await;
        assert_eq!(stage.effects().contains(&"send"), is_paid, "after {takes} seconds");
        assert_eq!(stage.kept.entries().len(), usize::from(is_paid));
        if !is_paid {
            assert!(matches!(paid, Err(Failure::Declined(_))));
            assert!(stage.registry.unfinished().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_node_has_is_sent_again_until_it_is_mined() {
    let mined = TransferStatus::Mined { transaction: TX, confirmations: 1 };
    let stage = Stage::new([TransferStatus::Unknown, TransferStatus::Pending, mined], false).await;
    let mut driver = stage.driver(entry(true, NOW + 600));
    assert!(matches!(driver.settle().await, Ok(Followed::Settled(TX))));
    assert_eq!(stage.effects(), ["turn", "record", "send", "turn over", "record"]);
    assert_eq!(driver.entry().state, PurchaseState::Redeeming);
}

#[tokio::test(start_paused = true)]
async fn once_its_quote_is_over_nothing_is_sent_without_a_fresh_one() {
    for (fresh, is_sent) in
        [(None, false), (Some(quote(490_001, NOW + 600)), false), (Some(quote(490_000, NOW + 600)), true)]
    {
        let fresh = fresh.map(|quote| TransferTerms { quote, is_elsewhere: true });
        let stage = Stage::new([TransferStatus::Unknown], false).await;
        let mut driver = stage.driver(entry(true, NOW));
        assert!(matches!(driver.settle().await, Ok(Followed::NeedsRequote)));
        assert!(stage.effects().is_empty());
        let outcome = driver.requoted(fresh.as_ref()).await;
        assert_eq!(outcome.is_ok(), is_sent, "{outcome:?}");
        let effects = stage.effects();
        assert_eq!(effects.contains(&"send"), is_sent);
        if is_sent {
            assert_eq!(effects, ["record", "turn", "record", "send", "turn over"]);
            assert_eq!((driver.entry().expiry.unix(), driver.entry().is_elsewhere), (NOW + 600, true));
        } else {
            assert!(matches!(outcome, Err(Failure::Unsettled { transaction: Some(TX), .. })));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn impossible_is_believed_only_three_times_in_a_row() {
    use TransferStatus::{Impossible, Pending};
    let stage = Stage::new([Impossible, Impossible, Pending, Impossible, Impossible, Impossible], false).await;
    let mut driver = stage.driver(entry(true, NOW + 600));
    assert!(matches!(driver.settle().await, Err(Failure::Displaced { .. })));
    assert_eq!(driver.entry().state, PurchaseState::Void);
    assert_eq!(stage.effects(), ["record"]);
}
