//! What becomes of the money: sent and not heard of, lost, refused, reverted, outbid, displaced; and what a later call
//! finds in the journal.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, timeout};
use tower::Layer as _;
use tower_x402::{
    Merchant,
    client::{
        Body, Budget, BudgetDenial, JournalEntry, MemoryJournal, PayError, PayErrorKind, PayLayer, Payer, PayerError,
        PreparedTransfer, Purchase, PurchaseEvent, PurchaseState, ResumeOnly, SubmitGuard, TransferRequest,
        TransferStatus,
    },
    ledger::MemoryLedger,
    protocol::{Address, Asset, ChainTime, Network, PaymentSignature, SealingKeys, TxHash},
    testing::{FakeClock, ScriptedPayer, ScriptedVerifier, Sending},
    verify::Verifier as _,
};

use super::{
    Market, cause, question,
    rig::{Bill, Diary, Got, Reply, Seller, Slip, ask, problem, sold},
};
use crate::support::{NOW, recipient};

fn bought(got: Result<Got, PayError>) -> Purchase {
    let got = got.unwrap();
    assert_eq!(got.text, "the answer");
    got.purchase.unwrap()
}

fn states(market: &Market) -> Vec<PurchaseState> {
    let mut entries = market.journal.entries();
    entries.sort_by_key(|entry| entry.transfers().first().and_then(PreparedTransfer::transaction));
    entries.iter().map(|entry| entry.state).collect()
}

/// Starts a purchase and leaves it after so long.
async fn left_after(layer: &PayLayer, seller: &Seller, seconds: u64) {
    assert!(timeout(Duration::from_secs(seconds), ask(layer, seller, question("{}"))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_was_not_heard_of_is_looked_up_and_not_repeated() {
    let market = Market::open().await;
    market.wallet.script([Sending::MinedUnheard]);
    bought(ask(&market.layer().await, &Seller::honest(), question("{}")).await);
    assert_eq!((market.wallet.sent(), market.wallet.prepared(), market.wallet.transfers()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_sent_again_as_it_was() {
    let market = Market::open().await;
    market.wallet.script([Sending::Lost, Sending::Lost, Sending::Lost]);
    let started = Instant::now();
    let purchase = bought(ask(&market.layer().await, &Seller::honest(), question("{}")).await);
    assert_eq!((purchase.sent, market.wallet.sent(), market.wallet.prepared()), (1, 4, 1));
    assert!(started.elapsed() >= Duration::from_secs(20), "sent again after {:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_is_refused_again_and_again_is_left_to_a_later_call() {
    let market = Market::open().await;
    let layer = market.layer().await;
    market.wallet.script([Sending::Refused; 7]);
    let error = ask(&layer, &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(
        error.kind() == PayErrorKind::Unsettled && matches!(cause(&error), Some(PayerError::Refused(_))),
        "{error:?}"
    );
    assert!(error.transaction().is_some() && error.is_resumable());
    assert_eq!((market.wallet.sent(), states(&market)), (7, vec![PurchaseState::Paying]));
    bought(ask(&layer, &Seller::honest(), question("{}")).await);
    assert_eq!((market.wallet.prepared(), market.wallet.transfers()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_reverted_is_said_and_paid_anew_when_asked_again() {
    let market = Market::open().await;
    let layer = market.layer().await;
    market.wallet.script([Sending::Reverted]);
    let error = ask(&layer, &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Reverted && !error.is_resumable(), "{error}");
    assert_eq!((market.wallet.transfers(), states(&market)), (0, vec![PurchaseState::Void]));
    bought(ask(&layer, &Seller::honest(), question("{}")).await);
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (1, 2));
}

/// Whichever of the transactions is mined, the one that is redeemed is that one.
#[tokio::test(start_paused = true)]
async fn of_a_transfer_and_those_that_outbid_it_one_is_mined_and_redeemed() {
    for (mined, sendings) in [(1, vec![Sending::Held; 2]), (0, vec![Sending::Held, Sending::Refused])] {
        let market = Market::open().await;
        market.wallet.script(sendings);
        let (layer, seller) = (market.layer().await, Seller::honest());
        left_after(&layer, &seller, 40).await;
        assert_eq!(market.wallet.prepared(), 2);
        let entry: JournalEntry = market.journal.entries().remove(0);
        assert_eq!((entry.transfers()[0].nonce(), entry.transfers().len()), (entry.transfers()[1].nonce(), 2));
        market.wallet.release();
        let purchase = bought(ask(&market.layer().await, &seller, question("{}")).await);
        assert_eq!(purchase.transaction, entry.transfers()[mined].transaction());
        assert_eq!((purchase.sent, market.wallet.transfers()), (2, 1));
        assert_eq!(seller.asked().pop().unwrap().proof.unwrap().1, purchase.transaction.unwrap().to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn bids_are_bounded_and_so_is_the_patience() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held; 100]);
    let started = Instant::now();
    let error = ask(&market.layer().await, &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled && error.is_resumable(), "{error}");
    assert!(started.elapsed() <= Duration::from_secs(15 * 60));
    assert_eq!((market.wallet.prepared(), market.wallet.sent()), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn what_was_displaced_is_paid_anew_once_after_it_was_seen_thrice() {
    let market = Market::open().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let wallet = Watched { inner: market.wallet.clone(), looks: Arc::clone(&looks), hasty: Arc::default() };
    market.wallet.script([Sending::Held]);
    let (layer, seller) = (with(&market, wallet).await, Seller::honest());
    left_after(&layer, &seller, 3).await;
    market.wallet.displace();
    looks.store(0, Ordering::SeqCst);
    bought(ask(&layer, &seller, question("{}")).await);
    assert_eq!(looks.load(Ordering::SeqCst), 3 + 1, "three looks at the first, one at the second");
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (1, 2));
    assert_eq!(states(&market), [PurchaseState::Void, PurchaseState::Answered]);
}

/// One node of several that is ahead of, or behind, the others is not believed.
#[tokio::test(start_paused = true)]
async fn impossible_twice_and_then_not_is_not_impossible() {
    let market = Market::open().await;
    let (looks, hasty) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(vec![2, 3, 5, 6, 8, 9])));
    let wallet = Watched { inner: market.wallet.clone(), looks, hasty };
    market.wallet.script([Sending::Held]);
    let (layer, seller) = (with(&market, wallet).await, Seller::honest());
    let (got, ()) = tokio::join!(ask(&layer, &seller, question("{}")), async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        market.wallet.release();
    });
    bought(got);
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_only_resumes_does_not_pay_anew_for_what_was_displaced() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held]);
    let (layer, seller) = (market.layer().await, Seller::honest());
    left_after(&layer, &seller, 3).await;
    market.wallet.displace();
    let mut resuming = question("{}");
    resuming.extensions_mut().insert(ResumeOnly);
    let error = ask(&layer, &seller, resuming).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Displaced && !error.is_resumable(), "{error}");
    assert_eq!(
        (market.wallet.transfers(), market.wallet.prepared(), states(&market)),
        (0, 1, vec![PurchaseState::Void])
    );
}

/// A wallet that is always overtaken is given up, and no money has moved.
#[tokio::test(start_paused = true)]
async fn a_wallet_that_is_always_overtaken_is_given_up() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held; 100]);
    let (wallet, layer) = (market.wallet.clone(), market.layer_with(move |builder| builder).await);
    let overtaking = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            wallet.displace();
        }
    });
    let error = ask(&layer, &Seller::honest(), question("{}")).await.unwrap_err();
    overtaking.abort();
    assert!(error.kind() == PayErrorKind::Displaced, "{error}");
    assert_eq!((error.transaction(), error.is_resumable()), (None, false));
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (0, 3));
    assert_eq!(states(&market), [PurchaseState::Void; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_wallet_that_is_away_is_waited_for() {
    let market = Market::open().await;
    market.wallet.outage(true);
    let error = ask(&market.layer().await, &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(
        error.kind() == PayErrorKind::Payer
            && matches!(cause(&error), Some(PayerError::Unavailable(_)))
            && !error.is_resumable(),
        "{error}"
    );
    assert!(market.journal.entries().is_empty());
    market.wallet.outage(false);
    market.wallet.script([Sending::Held]);
    let (layer, seller) = (market.layer().await, Seller::honest());
    let (got, ()) = tokio::join!(ask(&layer, &seller, question("{}")), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        market.wallet.outage(true);
        tokio::time::sleep(Duration::from_secs(300)).await;
        market.wallet.release();
        market.wallet.outage(false);
    });
    bought(got);
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (1, 1));
    // Away for good, while the seller does not see the transfer: nothing is concluded from that.
    let blind = Seller::paid(|_| problem(409, "tx_not_confirmed", &[("retry-after", "2")]));
    let away = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        market.wallet.outage(true);
    };
    let (got, ()) = tokio::join!(ask(&layer, &blind, question("[]")), away);
    let error = got.unwrap_err();
    assert!((error.kind(), error.reason()) == (PayErrorKind::Unanswered, Some("tx_not_confirmed")), "{error}");
    assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (2, 2));
}

/// A purchase that is in the journal and was never sent, and whose quote is over: the seller is asked for its terms
/// first, and what it says decides whether the transfer is still sent.
async fn never_sent(renewed: Bill) -> (Market, Seller, Result<Got, PayError>) {
    let market = Market::open().await;
    market.wallet.script([Sending::Lost; 2]);
    let seller = Seller::new(move |asked| match (&asked.proof, asked.before) {
        (Some(_), _) => sold(),
        (None, 0) => Bill::default().reply(),
        (None, _) => renewed.reply(),
    });
    left_after(&market.layer().await, &seller, 5).await;
    market.shop.clock.set_unix(NOW + 600);
    let got = ask(&market.layer().await, &seller, question("{}")).await;
    (market, seller, got)
}

#[tokio::test(start_paused = true)]
async fn a_transfer_whose_quote_is_over_is_sent_if_it_is_still_enough() {
    let renewed = |amount| Bill { expiry: NOW + 1200, intent: "renewed".into(), ..Bill::of(amount) };
    for amount in ["490000", "1"] {
        let (market, seller, got) = never_sent(renewed(amount)).await;
        bought(got);
        assert_eq!(seller.asked().pop().unwrap().proof.unwrap().0, "renewed");
        assert_eq!((market.wallet.transfers(), market.wallet.prepared()), (1, 1));
    }
    let worse = [
        renewed("490001"),
        renewed("980000"),
        Bill { recipient: Address::new([3; 20]).to_string(), ..renewed("490000") },
        Bill { contracts: Asset::USDBC_BASE.contract().to_string(), ..renewed("490000") },
        Bill { chain: "1".into(), ..renewed("490000") },
        Bill { expiry: NOW + 600, ..renewed("490000") },
        Bill::of("no amount"),
    ];
    for bill in worse {
        let shown = bill.pay();
        let (market, _, got) = never_sent(bill).await;
        let error = got.unwrap_err();
        assert!(error.kind() == PayErrorKind::Unsettled && error.is_resumable(), "{shown}: {error}");
        assert!(error.transaction().is_some());
        assert_eq!((market.wallet.transfers(), market.wallet.prepared(), market.wallet.sent()), (0, 1, 2), "{shown}");
    }
}

/// A seller that never answers does not hold the call beyond its patience.
#[tokio::test(start_paused = true)]
async fn a_seller_that_hangs_when_asked_for_its_terms_again_is_left() {
    let market = Market::open().await;
    market.wallet.script([Sending::Lost; 2]);
    let seller = Seller::new(|asked| if asked.before == 0 { Bill::default().reply() } else { Reply::Hangs });
    left_after(&market.layer().await, &seller, 5).await;
    market.shop.clock.set_unix(NOW + 600);
    let layer = market.layer().await;
    let got = timeout(Duration::from_secs(16 * 60), ask(&layer, &seller, question("{}"))).await;
    let error = got.expect("the call outlasts its patience").unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled, "{error}");
    assert_eq!(market.wallet.transfers(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_journal_is_gone_on_with_from_where_it_stood() {
    // Mined, and not redeemed: nobody is asked for a quote or paid again, and the steps say so.
    let market = Market::open().await;
    let seller = Seller::paid(|asked| if asked.proofs < 3 { Reply::Broken } else { sold() });
    left_after(&market.layer().await, &seller, 2).await;
    assert_eq!(states(&market), [PurchaseState::Redeeming]);
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let layer =
        market.layer_with(move |builder| builder.on_event(move |step| seen.lock().unwrap().push(step.clone()))).await;
    let before = layer.unfinished();
    assert_eq!(before.len(), 1);
    let purchase = bought(ask(&layer, &seller, question("{}")).await);
    assert_eq!((purchase.id, purchase.transaction), (before[0].id, before[0].transaction));
    assert_eq!(seller.asked().len() - seller.proofs(), 1, "one quote in all");
    let steps = std::mem::take(&mut *steps.lock().unwrap());
    assert!(matches!(steps.first(), Some(PurchaseEvent::Resumed { .. })), "{steps:?}");
    assert!(matches!(steps.last(), Some(PurchaseEvent::Answered(status)) if status.is_success()), "{steps:?}");
    assert_eq!(market.wallet.transfers(), 1);
    // Given up by hand, it is not gone on with.
    left_after(&layer, &Seller::paid(|_| Reply::Hangs), 2).await;
    let open = layer.unfinished().remove(0);
    assert!(layer.abandon(open.id).await.unwrap() && !layer.abandon(open.id).await.unwrap());
    assert!(layer.unfinished().is_empty() && market.layer().await.unfinished().is_empty());
}

/// The block with the transfer vanished: the seller does not see it, the wallet sends it again, the answer comes.
#[tokio::test(start_paused = true)]
async fn a_reorganisation_after_the_payment_is_followed() {
    let market = Market::open().await;
    let wallet = Reorganised { inner: market.wallet.clone(), gone: Arc::new(AtomicBool::new(false)) };
    let gone = Arc::clone(&wallet.gone);
    let layer = with(&market, wallet).await;
    let seller = Seller::paid(move |asked| {
        if asked.proofs == 0 {
            gone.store(true, Ordering::SeqCst);
            return problem(409, "tx_not_confirmed", &[("retry-after", "2")]);
        }
        sold()
    });
    let purchase = bought(ask(&layer, &seller, question("{}")).await);
    assert_eq!((purchase.attempts, purchase.sent), (2, 1));
    assert_eq!(
        (market.wallet.transfers(), market.wallet.sent(), states(&market)),
        (1, 2, vec![PurchaseState::Answered])
    );
}

/// What a journal may not have is written again before it is sent again.
#[tokio::test(start_paused = true)]
async fn what_the_journal_may_have_lost_is_not_sent_again_before_it_is_written() {
    let market = Market::open().await;
    let diary = Diary::of(market.journal.clone()).slip(1, Slip::Hangs).slip(2, Slip::Fails);
    let builder = PayLayer::builder(market.wallet.clone(), Market::budget().build().unwrap(), diary);
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let seller = Seller::honest();
    left_after(&layer, &seller, 3).await;
    assert_eq!((market.journal.entries().len(), market.wallet.prepared()), (0, 1));
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled && error.is_resumable(), "{error}");
    assert_eq!(market.wallet.sent(), 0, "sent, and in no journal");
    bought(ask(&layer, &seller, question("{}")).await);
    assert_eq!(
        (market.wallet.prepared(), market.wallet.transfers(), states(&market)),
        (1, 1, vec![PurchaseState::Answered])
    );
}

/// Between another's preparing and sending nothing is sent, also not again.
#[tokio::test(start_paused = true)]
async fn what_is_sent_again_waits_for_its_turn() {
    let market = Market::open().await;
    let (layer, seller) = (market.layer().await, Seller::honest());
    market.wallet.script([Sending::Lost; 2]);
    left_after(&layer, &seller, 5).await;
    assert_eq!(market.wallet.sent(), 2);
    let turn = market.wallet.submit_guard(Network::BASE).await;
    let (got, ()) = tokio::join!(ask(&layer, &seller, question("{}")), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(market.wallet.sent(), 2, "sent in another's turn");
        drop(turn);
    });
    bought(got);
    assert_eq!((market.wallet.sent(), market.wallet.transfers()), (3, 1));
}

/// While the seller waited, a reorganisation put the dearer transaction into the place of the first.
#[tokio::test(start_paused = true)]
async fn the_journal_closes_with_the_transaction_that_paid() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held; 2]);
    let layer = with(&market, Swapped { inner: market.wallet.clone(), looks: AtomicUsize::new(0) }).await;
    let seller = Seller::paid(|asked| match asked.proofs {
        0 => problem(409, "tx_not_confirmed", &[("retry-after", "2")]),
        _ => sold(),
    });
    let purchase = bought(ask(&layer, &seller, question("{}")).await);
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.transfers().len(), entry.state), (2, PurchaseState::Answered));
    assert_eq!(entry.transaction, entry.transfers()[1].transaction());
    assert_eq!(purchase.transaction, entry.transaction);
    let shown: Vec<_> = seller.asked().into_iter().filter_map(|asked| asked.proof).map(|proof| proof.1).collect();
    assert_eq!(shown, [0, 1].map(|one: usize| entry.transfers()[one].transaction().unwrap().to_string()));
}

/// Two transfers for one intent could not be told apart.
#[tokio::test(start_paused = true)]
async fn a_seller_that_gives_one_intent_twice_is_paid_for_it_once_at_a_time() {
    let market = Market::open().await;
    let seller = Seller::new(|asked| if asked.proof.is_some() { sold() } else { Bill::default().reply() });
    let layer = market.layer().await;
    market.wallet.script([Sending::Held]);
    left_after(&layer, &seller, 3).await;
    for layer in [&layer, &market.layer().await] {
        let error = ask(layer, &seller, question("[2]")).await.unwrap_err();
        assert!(error.denial() == Some(BudgetDenial::IntentReused), "{error:?}");
    }
    assert_eq!((market.wallet.prepared(), market.journal.entries().len()), (1, 1));
    market.wallet.release();
    bought(ask(&layer, &seller, question("{}")).await);
    bought(ask(&layer, &seller, question("[2]")).await);
    assert_eq!((market.wallet.prepared(), market.wallet.transfers()), (2, 2));
    // The same at once: the one that comes second to its turn is refused, and has spent nothing.
    let (one, two) = tokio::join!(ask(&layer, &seller, question("[3]")), ask(&layer, &seller, question("[4]")));
    let paid = [one.is_ok(), two.is_ok()].into_iter().filter(|paid| *paid).count();
    assert_eq!(market.wallet.transfers(), 2 + paid);
}

#[tokio::test(start_paused = true)]
async fn the_journal_keeps_the_intent_that_a_transfer_was_made_for() {
    let market = Market::open().await;
    let seller = Seller::paid(|asked| match asked.proofs {
        0 => problem(410, "intent_expired", &[("x-price-intent", "fresh")]),
        _ => sold(),
    });
    bought(ask(&market.layer().await, &seller, question("{}")).await);
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.intent.as_str(), entry.secret.as_deref()), ("fresh", Some("intent-1")));
    assert!(!format!("{entry:?}").contains("intent-1"), "with the transaction it is the proof");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_named_a_thousand_times_is_one() {
    let market = Market::open().await;
    let contracts = [Asset::USDC_BASE, Asset::USDBC_BASE].map(|asset| asset.contract().to_string());
    let contracts = [vec![contracts[1].as_str(); 2], vec![contracts[0].as_str(); 1000]].concat().join(", ");
    let seller = Seller::new(move |asked| match asked.proof {
        Some(_) => sold(),
        None => Bill { contracts: contracts.clone(), ..Bill::default() }.reply(),
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let assets = Arc::clone(&seen);
    let budget = Market::budget().approve(move |proposal| {
        assets.lock().unwrap().extend(proposal.assets);
        async { true }
    });
    let builder = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    bought(ask(&layer, &seller, question("{}")).await);
    assert_eq!(*seen.lock().unwrap(), [Asset::USDC_BASE]);
}

/// A seller whose ledger begins at this very moment.
#[tokio::test(start_paused = true)]
async fn the_first_payment_of_a_scripted_wallet_counts() {
    let (clock, head) = (FakeClock::new(NOW), ChainTime::from_unix(NOW));
    let chain = ScriptedVerifier::new(head);
    let builder =
        Merchant::builder(recipient()).hold_unbound(Duration::ZERO).verifier(chain.clone()).clock(clock.clone());
    let builder = builder.ledger(MemoryLedger::with_clock(clock.clone())).sealing_keys(SealingKeys::new([7; 32]));
    let merchant = builder.build().await.unwrap();
    let seller = merchant.charge("answer", "0.49 USDC").unwrap().layer(tower::service_fn(
        async |_: http::Request<tower_x402::RequestBody<Body>>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<bytes::Bytes>::from("sold")))
        },
    ));
    let wallet = ScriptedPayer::new(chain.clone(), crate::support::payer());
    let builder = PayLayer::builder(wallet.clone(), Market::budget().build().unwrap(), MemoryJournal::new());
    let client = builder.clock(clock).build().await.unwrap().layer(seller);
    for transfers in 1..=3 {
        let (answer, purchase) = super::buy(&client, question("{}")).await.unwrap();
        assert_eq!((answer.as_str(), purchase.map(|purchase| purchase.attempts)), ("sold", Some(1)));
        assert_eq!(wallet.transfers(), transfers);
    }
    assert_eq!(chain.head().await.unwrap(), ChainTime::from_unix(NOW + 6), "each in a block of its own");
}

async fn with(market: &Market, payer: impl Payer) -> PayLayer {
    let builder = PayLayer::builder(payer, Market::budget().build().unwrap(), market.journal.clone());
    builder.clock(market.shop.clock.clone()).build().await.unwrap()
}

macro_rules! forward {
    ($($method:ident($($name:ident: $kind:ty),*) -> $output:ty;)+) => {
        $(async fn $method(&self $(, $name: $kind)*) -> $output {
            self.inner.$method($($name),*).await
        })+
    };
}

/// Counts looks, and says of those that are named that the payment is impossible.
#[derive(Debug)]
struct Watched {
    inner: ScriptedPayer,
    looks: Arc<AtomicUsize>,
    hasty: Arc<Mutex<Vec<usize>>>,
}

impl Payer for Watched {
    forward! {
        submit_guard(network: Network) -> SubmitGuard;
        prepare(payment: &TransferRequest) -> Result<PreparedTransfer, PayerError>;
        send(prepared: &PreparedTransfer) -> Result<TxHash, PayerError>;
        replace(prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError>;
        sign(message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError>;
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let look = self.looks.fetch_add(1, Ordering::SeqCst) + 1;
        if self.hasty.lock().unwrap().contains(&look) {
            return Ok(TransferStatus::Impossible);
        }
        self.inner.status(prepared).await
    }
}

/// A chain that waits for the second offer, takes the first, and then has the second in its place.
#[derive(Debug)]
struct Swapped {
    inner: ScriptedPayer,
    looks: AtomicUsize,
}

impl Payer for Swapped {
    forward! {
        submit_guard(network: Network) -> SubmitGuard;
        prepare(payment: &TransferRequest) -> Result<PreparedTransfer, PayerError>;
        send(prepared: &PreparedTransfer) -> Result<TxHash, PayerError>;
        replace(prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError>;
        sign(message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError>;
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        if prepared.len() < 2 {
            return Ok(TransferStatus::Pending);
        }
        let look = self.looks.fetch_add(1, Ordering::SeqCst).min(1);
        Ok(TransferStatus::Mined { transaction: prepared[look].transaction().unwrap(), confirmations: 1 })
    }
}

/// A chain that loses the block, until the transfer is sent again.
#[derive(Debug)]
struct Reorganised {
    inner: ScriptedPayer,
    gone: Arc<AtomicBool>,
}

impl Payer for Reorganised {
    forward! {
        submit_guard(network: Network) -> SubmitGuard;
        prepare(payment: &TransferRequest) -> Result<PreparedTransfer, PayerError>;
        replace(prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError>;
        sign(message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError>;
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.gone.store(false, Ordering::SeqCst);
        self.inner.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        if self.gone.load(Ordering::SeqCst) { Ok(TransferStatus::Unknown) } else { self.inner.status(prepared).await }
    }
}

/// Somebody else's wallet, behind an interface: a key pays once, and only it tells the transaction.
#[derive(Clone, Debug, Default)]
struct Custodian {
    orders: Arc<Mutex<Vec<String>>>,
    /// How many sendings are not heard of.
    silent: Arc<AtomicUsize>,
    sendings: Arc<AtomicUsize>,
}

impl Custodian {
    fn place(&self, key: &str) -> TxHash {
        let mut orders = self.orders.lock().unwrap();
        let place = orders.iter().position(|known| known == key).unwrap_or_else(|| {
            orders.push(key.to_owned());
            orders.len() - 1
        });
        TxHash::new([u8::try_from(place).unwrap() + 1; 32])
    }
}

impl Payer for Custodian {
    async fn submit_guard(&self, _: Network) -> SubmitGuard {
        SubmitGuard::free()
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        let token = payment.assets[0].contract();
        Ok(PreparedTransfer::keyed(Address::new([5; 20]), payment.network, token, payment.purchase.to_string()))
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.sendings.fetch_add(1, Ordering::SeqCst);
        let transaction = self.place(prepared.payload());
        let silent = self.silent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if silent.is_ok() { Err(PayerError::Unavailable("the custodian did not answer")) } else { Ok(transaction) }
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let known = self.orders.lock().unwrap().iter().any(|key| key == prepared[0].payload());
        // It finds an order again only by the transaction that it gave for it.
        Ok(match prepared.iter().find_map(PreparedTransfer::transaction) {
            Some(transaction) if known => TransferStatus::Mined { transaction, confirmations: 1 },
            _ => TransferStatus::Unknown,
        })
    }

    async fn replace(&self, _: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        Ok(None)
    }

    async fn sign(&self, _: &str, _: Address) -> Result<Option<PaymentSignature>, PayerError> {
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a_custodian_is_told_once_whatever_is_heard() {
    for silent in [0, 1, 2] {
        let (market, custodian) = (Market::open().await, Custodian::default());
        custodian.silent.store(silent, Ordering::SeqCst);
        let purchase = bought(ask(&with(&market, custodian.clone()).await, &Seller::honest(), question("{}")).await);
        assert_eq!(custodian.orders.lock().unwrap().len(), 1);
        assert_eq!(custodian.sendings.load(Ordering::SeqCst), silent + 1);
        assert_eq!((purchase.transaction, purchase.payer), (Some(TxHash::new([1; 32])), Some(Address::new([5; 20]))));
        assert_eq!((purchase.token, purchase.recipient), (Some(Asset::USDC_BASE.contract()), recipient()));
    }
    // Never heard of in one process, found again by its key in the next.
    let (market, custodian) = (Market::open().await, Custodian::default());
    custodian.silent.store(7, Ordering::SeqCst);
    let error = ask(&with(&market, custodian.clone()).await, &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(
        error.kind() == PayErrorKind::Unsettled && error.transaction().is_none() && error.is_resumable(),
        "{error:?}"
    );
    bought(ask(&with(&market, custodian.clone()).await, &Seller::honest(), question("{}")).await);
    assert_eq!(custodian.orders.lock().unwrap().len(), 1);
}

/// What was signed is not sent where the budget of a later process would not pay it.
#[tokio::test(start_paused = true)]
async fn an_unsent_transfer_needs_no_second_budget() {
    let market = Market::open().await;
    market.wallet.script([Sending::Lost; 2]);
    let seller = Seller::honest();
    left_after(&market.layer().await, &seller, 5).await;
    let tight = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.49").per_day("0.49").build().unwrap();
    let builder = PayLayer::builder(market.wallet.clone(), tight, market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    bought(ask(&layer, &seller, question("{}")).await);
    let other = http::Request::get("https://seller.example/other").body(Body::empty()).unwrap();
    assert!(ask(&layer, &seller, other).await.is_err_and(|error| error.kind() == PayErrorKind::Declined));
    assert_eq!(market.wallet.transfers(), 1);
}
