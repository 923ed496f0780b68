//! Calls for one request that meet: one waits for approval or its turn, one reads, one cancels, one was left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::time::{sleep, timeout};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{
        AskAgain, Body, Journal, JournalEntry, JournalError, MaxPrice, MemoryJournal, Money, PayErrorKind, PayLayer,
        Payer as _, PurchaseId, PurchaseState, QuoteOnly, TransferStatus,
    },
    protocol::{Amount, Network},
    testing::Sending,
};

use super::{
    Market, question,
    rig::{Bill, Diary, Got, Reply, Seller, Slip, TAKEN, any, ask, problem, reply, sold},
    signed,
    told::Told,
};

const LARGE: usize = 1_000_000;

fn large() -> Reply {
    let body = any(Full::new(Bytes::from(vec![b'x'; LARGE])));
    Reply::Answer(Response::builder().header("payment-response", TAKEN).body(body).unwrap())
}

fn with<T: Clone + Send + Sync + 'static>(directive: T) -> Request<Body> {
    let mut request = question("{}");
    request.extensions_mut().insert(directive);
    request
}

fn at_most(units: u128) -> Request<Body> {
    with(MaxPrice(Amount::from_base_units(units)))
}

fn state(market: &Market) -> PurchaseState {
    let entries = market.journal.entries();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].state
}

async fn left_after<T>(seconds: u64, call: impl Future<Output = T>) {
    assert!(timeout(Duration::from_secs(seconds), call).await.is_err());
}

/// A layer whose first payment is approved at once, and every later one after a minute.
async fn approving(market: &Market) -> PayLayer {
    let proposals = Arc::new(AtomicUsize::new(0));
    let budget = Market::budget().approve(move |_| {
        let is_first = proposals.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if !is_first {
                sleep(Duration::from_secs(60)).await;
            }
            true
        }
    });
    let builder = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), market.journal.clone());
    builder.clock(market.shop.clock.clone()).build().await.unwrap()
}

/// Hangs at the first payment that it is shown, and takes every later one.
fn hanging_once(market: &Market, by_authorization: bool) -> Seller {
    let chain = market.shop.chain.clone();
    if by_authorization {
        return signed::seller(move |payment, shows| match shows {
            0 => Reply::Hangs,
            _ => signed::delivered(signed::settle(&chain, payment)),
        });
    }
    Seller::new(|asked| match (&asked.proof, asked.proofs) {
        (None, _) => {
            Bill { intent: format!("intent-{}", asked.before + 1), expiry: u64::MAX, ..Bill::default() }.reply()
        }
        (Some(_), 0) => Reply::Hangs,
        (Some(_), _) => sold(),
    })
}

/// A payment that another call dropped during the approval is free: it is used, and no other is made.
#[tokio::test(start_paused = true)]
async fn a_payment_that_is_left_during_the_approval_is_used() {
    for by_authorization in [false, true] {
        let market = Market::open().await;
        let (layer, seller) = (approving(&market).await, hanging_once(&market, by_authorization));
        let mut first = Box::pin(ask(&layer, &seller, question("{}")));
        left_after(5, &mut first).await;
        let mut second = Box::pin(ask(&layer, &seller, question("{}")));
        left_after(5, &mut second).await;
        drop(first);
        assert_eq!(second.await.unwrap().text, "the answer");
        let signed = signed::nonces(&seller).0.len();
        assert_eq!((market.wallet.prepared() + signed, market.journal.entries().len()), (1, 1), "{by_authorization}");
        assert_eq!(layer.spent(), Amount::from_base_units(490_000), "{by_authorization}");
    }
}

/// So is one that was dropped while the call waited for the payer's turn.
#[tokio::test(start_paused = true)]
async fn a_payment_that_is_left_before_the_turn_is_used() {
    let market = Market::open().await;
    let (layer, seller) = (market.layer().await, hanging_once(&market, false));
    let mut first = Box::pin(ask(&layer, &seller, question("{}")));
    left_after(5, &mut first).await;
    let turn = market.wallet.submit_guard(Network::BASE).await;
    let mut second = Box::pin(ask(&layer, &seller, question("{}")));
    left_after(5, &mut second).await;
    drop((first, turn));
    assert_eq!(second.await.unwrap().text, "the answer");
    assert_eq!((market.wallet.prepared(), market.journal.entries().len()), (1, 1));
    assert_eq!(layer.spent(), Amount::from_base_units(490_000));
}

/// The authorization of a purchase that is being cancelled may still be used: until the chain says what came of it, the same request
/// signs no other, whenever it began.
#[tokio::test(start_paused = true)]
async fn the_same_request_signs_nothing_while_its_purchase_is_cancelled() {
    for began_before in [false, true] {
        let market = Market::open().await;
        let (layer, seller) = (approving(&market).await, hanging_once(&market, true));
        let mut first = Box::pin(ask(&layer, &seller, question("{}")));
        left_after(5, &mut first).await;
        let purchase = market.journal.entries()[0].id;
        let mut second = Box::pin(ask(&layer, &seller, question("{}")));
        if began_before {
            left_after(5, &mut second).await;
        }
        drop(first);
        market.wallet.script([Sending::Held]);
        let mut cancelling = Box::pin(layer.cancel(purchase));
        left_after(5, &mut cancelling).await;
        let error = second.await.unwrap_err();
        assert!((error.kind(), error.purchase()) == (PayErrorKind::Outstanding, Some(purchase)), "{error}");
        assert_eq!(market.wallet.authorizations_signed(), 1, "{began_before}");
        market.wallet.release();
        assert_eq!(cancelling.await.unwrap(), Some(PurchaseState::Void));
        assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
        assert_eq!(market.wallet.authorizations_signed(), 2);
    }
}

/// A seller that keeps no answers refuses to give one twice. The one that is being read is not lost by that.
#[tokio::test(start_paused = true)]
async fn a_second_reader_does_not_close_what_the_first_still_reads() {
    for by_authorization in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let consumed = || problem(409, "already_consumed", &[]);
        let seller = if by_authorization {
            signed::seller(move |payment, shows| {
                let transaction = signed::settle(&chain, payment);
                if shows == 0 { signed::delivered(transaction) } else { consumed() }
            })
        } else {
            Seller::paid(move |asked| if asked.proofs == 0 { large() } else { consumed() })
        };
        let layer = market.layer().await;
        let answer = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
        for _ in 0..2 {
            let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
            assert!(error.is_resumable() && matches!(error.money(), Money::Spent { .. }), "{error}");
            assert!(state(&market).is_open(), "{by_authorization}");
        }
        answer.into_body().collect().await.unwrap();
        assert_eq!((state(&market), layer.unfinished().len()), (PurchaseState::Answered, 0), "{by_authorization}");
        assert_eq!(market.wallet.prepared() + market.wallet.authorizations_signed(), 1);
    }
}

/// Without a reader such a refusal is the end of it.
#[tokio::test(start_paused = true)]
async fn what_nobody_reads_and_the_seller_does_not_give_again_is_closed() {
    let market = Market::open().await;
    let seller = Seller::paid(|asked| if asked.proofs == 0 { large() } else { problem(409, "already_consumed", &[]) });
    let layer = market.layer().await;
    drop(layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap());
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert!(!error.is_resumable() && matches!(error.money(), Money::Spent { .. }), "{error}");
    assert_eq!(state(&market), PurchaseState::Refused);
}

/// A limit holds for what a purchase of before may yet cost, and costs no answer that was paid for.
#[tokio::test(start_paused = true)]
async fn an_open_purchase_above_the_requests_limit_is_not_paid() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held]);
    let layer = market.layer_with(|builder| builder.patience(Duration::from_secs(5))).await;
    ask(&layer, &Seller::honest(), question("{}")).await.unwrap_err();
    let (sent, seller) = (market.wallet.sent(), Seller::honest());
    let error = ask(&layer, &seller, at_most(489_999)).await.unwrap_err();
    let purchase = market.journal.entries()[0].id;
    assert_eq!((error.kind(), error.purchase()), (PayErrorKind::AboveMaxPrice, Some(purchase)), "{error}");
    assert!(error.to_string().contains("may yet cost 0.49, and the request's own limit is 0.489999"), "{error}");
    assert_eq!((error.is_resumable(), error.money()), (true, Money::AtRisk { until: None }));
    assert_eq!((market.wallet.sent(), market.wallet.transfers(), seller.asked().len()), (sent, 0, 0));
    // What was paid is no matter of a limit.
    market.wallet.release();
    ask(&market.layer().await, &Seller::paid(|_| reply(500, &[], "oh")), at_most(490_000)).await.unwrap();
    let layer = market.layer().await;
    assert_eq!(market.wallet.transfers(), 1);
    assert_eq!(ask(&layer, &seller, at_most(1)).await.unwrap().text, "the answer");

    for declined in [false, true] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = signed::seller(move |payment, shows| match (shows, declined) {
            (0, false) => signed::refusal("insufficient_funds", &[signed::way("490000")]),
            (0, true) => reply(400, &[], "no"),
            _ => signed::delivered(signed::settle(&chain, payment)),
        });
        let layer = market.layer().await;
        let _ = ask(&layer, &seller, question("{}")).await;
        let error = ask(&layer, &seller, at_most(489_999)).await.unwrap_err();
        assert!(error.is_resumable() && matches!(error.money(), Money::AtRisk { until: Some(_) }), "{error}");
        assert_eq!(signed::nonces(&seller).1, 1, "{declined}: it was shown again");
        assert_eq!(ask(&layer, &seller, at_most(490_000)).await.unwrap().text, "the answer");
    }
}

/// A quote that could not be bought says so.
#[tokio::test(start_paused = true)]
async fn a_price_that_the_day_no_longer_allows_is_declined_when_it_is_asked() {
    for per_host in [false, true] {
        let market = Market::open().await;
        let budget = if per_host { Market::budget().per_host("0.50") } else { Market::budget().per_day("0.50") };
        let builder = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), market.journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let seller = Seller::honest();
        assert_eq!(ask(&layer, &seller, with(QuoteOnly)).await.unwrap().status, 402);
        ask(&layer, &seller, question("{}")).await.unwrap();
        let error = ask(&layer, &seller, with(QuoteOnly)).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Declined, "{error}");
        assert_eq!(market.wallet.transfers(), 1);
    }
}

async fn over(market: &Market, journal: impl Journal) -> PayLayer {
    let builder = PayLayer::builder(market.wallet.clone(), Market::budget().build().unwrap(), journal);
    builder.clock(market.shop.clock.clone()).build().await.unwrap()
}

/// Once the money has moved, a journal that hangs costs a call seconds, and no answer.
#[tokio::test(start_paused = true)]
async fn a_journal_that_hangs_keeps_no_answer_from_its_caller() {
    let market = Market::open().await;
    let diary = Diary::of(market.journal.clone());
    ask(&over(&market, diary.clone()).await, &Seller::honest(), question("{}")).await.unwrap();
    for write in 2..=diary.writes() {
        for slip in [Slip::Hangs, Slip::HangsWritten] {
            let market = Market::open().await;
            let layer = over(&market, Diary::of(market.journal.clone()).slip(write, slip)).await;
            let bought = timeout(Duration::from_secs(60), ask(&layer, &Seller::honest(), question("{}"))).await;
            let bought: Got = bought.unwrap_or_else(|_| panic!("{slip:?} at {write} has no end")).unwrap();
            assert_eq!((bought.text.as_str(), layer.unfinished().len()), ("the answer", 0), "{slip:?} at {write}");
        }
    }
}

/// A journal that takes its time over the last state of a purchase.
#[derive(Clone)]
struct Late(MemoryJournal);

impl Journal for Late {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        self.0.load().await
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        self.0.record(entry).await?;
        if entry.state == PurchaseState::Answered {
            sleep(Duration::from_secs(2)).await;
        }
        Ok(())
    }
}

/// A purchase is closed, and meanwhile the same request is at work on it: what is recorded last is that it was answered.
#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_over_the_last_state_of_a_purchase() {
    for acknowledged in [false, true] {
        let market = Market::open().await;
        let layer = over(&market, Late(market.journal.clone())).await;
        let seller = Seller::paid(|asked| if asked.proofs == 0 { large() } else { reply(400, &[], "no") });
        let answer = layer.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
        let id = market.journal.entries()[0].id;
        let closing = async {
            if acknowledged {
                drop(answer);
                assert!(layer.acknowledge(id).await.unwrap());
            } else {
                answer.into_body().collect().await.unwrap();
            }
        };
        let meanwhile = async {
            sleep(Duration::from_secs(1)).await;
            let _ = ask(&layer, &seller, question("{}")).await;
        };
        tokio::join!(closing, meanwhile);
        assert_eq!((state(&market), layer.unfinished().len()), (PurchaseState::Answered, 0), "{acknowledged}");
    }
}

/// The journal writes no more of a finished purchase, so nothing is sent for it: not even where its transfer is gone from the chain.
#[tokio::test(start_paused = true)]
async fn a_finished_purchase_that_is_asked_for_again_sends_nothing() {
    for gone in [TransferStatus::Pending, TransferStatus::Unknown] {
        let market = Market::open().await;
        let payer = Told::of(&market.wallet);
        let budget = Market::budget().build().unwrap();
        let builder = PayLayer::builder(payer.clone(), budget, market.journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let id: PurchaseId = ask(&layer, &Seller::honest(), question("{}")).await.unwrap().purchase.unwrap().id;
        let before = (market.wallet.prepared(), market.wallet.sent(), market.journal.entries());
        *payer.fate.lock().unwrap() = Some(gone);
        let late = Seller::new(|_| problem(409, "tx_not_confirmed", &[("retry-after", "1")]));
        let error = ask(&layer, &late, with(AskAgain(id))).await.unwrap_err();
        assert!(error.transaction().is_some() && error.purchase() == Some(id), "{error}");
        assert_eq!((market.wallet.prepared(), market.wallet.sent(), market.journal.entries()), before, "{gone:?}");
    }
}

/// What no caller read is kept for as long as a seller accepts payments; what one reads, for as long as it reads.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_read_is_closed_when_no_seller_gives_it_any_more() {
    for (by_authorization, restart) in [(false, false), (false, true), (true, false), (true, true)] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let timed = Seller::new(|asked| {
            let bill = Bill { intent: format!("intent-{}", asked.before), expiry: u64::MAX, ..Bill::default() };
            if asked.proof.is_some() { large() } else { bill.reply() }
        });
        let seller = if by_authorization {
            signed::seller(move |payment, _| signed::delivered(signed::settle(&chain, payment)))
        } else {
            timed.clone()
        };
        let context = format!("{by_authorization} {restart}");
        let layer = market.layer().await;
        let (unread, read) = (layer.layer(seller.clone()), layer.layer(seller.clone()));
        drop(unread.oneshot(question("{}")).await.unwrap());
        let being_read = read.oneshot(question("[read]")).await.unwrap();
        let other = if restart { market.layer().await } else { layer.clone() };
        let open = |layer: &PayLayer| layer.unfinished().len();
        market.shop.clock.advance(Duration::from_secs(25 * 60 * 60 + 61));
        for round in 0..4 {
            ask(&other, &seller, question(&format!("[{round}]"))).await.unwrap();
        }
        // A bill without a time does not say that this machine's clock is right.
        if by_authorization {
            assert_eq!(open(&other), 2, "{context}");
            ask(&other, &timed, question("[time]")).await.unwrap();
        }
        // Another process does not know who reads.
        assert_eq!(open(&other), usize::from(!restart), "{context}");
        if !restart {
            being_read.into_body().collect().await.unwrap();
            assert_eq!(open(&layer), 0, "{context}");
        }
        assert!(market.journal.entries().iter().all(|entry| !entry.state.is_open()), "{context}");
    }
}
