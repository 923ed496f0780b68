//! What becomes of an authorization that a seller was shown and gave no answer to: it is the only one until the chain says that it is void.

use tower::{Layer as _, ServiceExt as _};
use tower_x402::client::{PurchaseState, ResumeOnly};

use super::*;

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_is_shown_again_and_another_is_signed_only_once_it_is_void() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0..3 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    for shows in 1..=3 {
        let error = buy(&market, &seller).await.unwrap_err();
        let until = Some(ChainTime::from_unix(NOW + 60));
        assert_eq!((error.kind(), error.money()), (PayErrorKind::Outstanding, Money::AtRisk { until }), "{error}");
        assert_eq!(error.reason(), Some("insufficient_funds"));
        assert!(error.is_resumable() && error.transaction().is_none());
        assert_eq!((nonces(&seller).0.len(), nonces(&seller).1), (1, shows));
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Paying);
    }
    expire(&market);
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (2, 2));
    let states: Vec<_> = market.journal.entries().iter().map(|entry| entry.state).collect();
    assert!(states.contains(&PurchaseState::Void) && states.contains(&PurchaseState::Answered), "{states:?}");
}

/// The clock of this machine is an hour fast: the chain says when the time of an authorization is over.
#[tokio::test(start_paused = true)]
async fn the_chain_says_when_it_is_void_and_not_the_clock() {
    let market = Market::open().await;
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    market.shop.clock.advance(std::time::Duration::from_secs(3_600));
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
    // Its time is over on the chain, too; but the chain cannot be asked.
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 3_600));
    market.wallet.outage(true);
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled && cause(&error).is_some(), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 1);
    market.wallet.outage(false);
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (2, 2));
}

/// Official servers: the facilitator settles, and the server says 402 or 502, or nothing.
#[tokio::test(start_paused = true)]
async fn one_that_was_settled_without_an_answer_is_never_followed_by_another_payment() {
    let faults: [fn() -> Reply; 5] = [
        || settlement_failed("unexpected_settle_error"),
        || settlement_failed("invalid_transaction_state"),
        || reply(502, &[("content-type", "application/json")], r#"{"error":"timed out"}"#),
        || Reply::Broken,
        || reply(402, &[], ""),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = seller(move |payment, shows| {
            settle(&chain, payment);
            if shows == 0 { fault() } else { refusal("invalid_exact_evm_nonce_already_used", &[way("490000")]) }
        });
        for call in 1..=10 {
            let error = buy(&market, &seller).await.unwrap_err();
            assert!(error.transaction().is_some() && error.is_resumable(), "{number} {call}: {error}");
            assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{number}");
        }
        // A day later it is given up, and the error says so.
        market.shop.clock.advance(std::time::Duration::from_secs(26 * 3_600));
        let error = buy(&market, &seller).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::BilledAgain && !error.is_resumable(), "{error}");
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Refused);
        assert_eq!(market.wallet.authorizations_signed(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_settled_is_answered_when_the_seller_can() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| {
        let transaction = settle(&chain, payment);
        if shows == 0 { settlement_failed("unexpected_settle_error") } else { delivered(transaction) }
    });
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
    assert_eq!((nonces(&seller).0.len(), nonces(&seller).1, market.wallet.authorizations_signed()), (1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn failures_that_say_nothing_are_asked_through() {
    let failures: [fn() -> Reply; 5] = [
        || reply(500, &[], "broken"),
        || reply(503, &[("retry-after", "1")], "later"),
        || Reply::Broken,
        || Reply::Hangs,
        || refusal("fetch failed", &[way("490000")]),
    ];
    for failure in failures {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller =
            seller(move |payment, shows| if shows < 2 { failure() } else { delivered(settle(&chain, payment)) });
        let layer = market.layer_with(|builder| builder.answer_timeout(std::time::Duration::from_secs(20))).await;
        let got = ask(&layer, &seller, question("{}")).await.unwrap();
        assert_eq!((got.text.as_str(), nonces(&seller).0.len(), nonces(&seller).1), ("the answer", 1, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_on_the_same_journal_goes_on_with_the_same_authorization() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0..3 => Reply::Broken,
        _ => delivered(settle(&chain, payment)),
    });
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding && error.reason().is_none(), "{error}");
    // A new layer is like a new process.
    assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_asks_to_finish_signs_nothing_new() {
    let market = Market::open().await;
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(buy(&market, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    expire(&market);
    let mut request = question("{}");
    request.extensions_mut().insert(ResumeOnly);
    let error = ask(&market.layer().await, &seller, request).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Lapsed && !error.is_resumable(), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

/// A price that moves with every question: what was signed for the first is not followed by a second while it may be used.
#[tokio::test(start_paused = true)]
async fn a_price_that_moves_is_not_signed_for_twice() {
    let market = Market::open().await;
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(_) => reply(400, &[], "no"),
        None => demand(&[way(&(490_000 + asked.before).to_string())]),
    });
    assert_eq!(buy(&market, &seller).await.unwrap().status.as_u16(), 400);
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 1);
    expire(&market);
    assert_eq!(buy(&market, &seller).await.unwrap().status.as_u16(), 400);
    assert_eq!(market.wallet.authorizations_signed(), 2);
}

/// Hostile: one bill after another, each for a different intent.
#[tokio::test(start_paused = true)]
async fn a_seller_that_bills_again_and_again_sees_one_signature() {
    let market = Market::open().await;
    let seller = Seller::new(|asked| {
        let mut way = way("490000");
        way["extra"]["intentId"] = serde_json::json!(format!("intent-{}", asked.before));
        refusal("invalid_payment_requirements", &[way])
    });
    let error = buy(&market, &seller).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
    assert!(nonces(&seller).1 <= 4, "{}", nonces(&seller).1);
}

#[tokio::test(start_paused = true)]
async fn what_the_journal_does_not_record_is_shown_to_nobody() {
    use super::super::rig::{Diary, Slip};
    let market = Market::open().await;
    let seller = seller(|_, _| panic!("shown"));
    let diary = Diary::of(market.journal.clone()).slip(1, Slip::Fails);
    let budget = Market::budget().build().unwrap();
    let builder = tower_x402::client::PayLayer::builder(market.wallet.clone(), budget, diary);
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    assert!(ask(&layer, &seller, question("{}")).await.is_err_and(|error| error.kind() == PayErrorKind::Journal));
    assert!(layer.spent().is_zero() && layer.unfinished().is_empty());
}

/// Its call left while the journal wrote it down: it is written before a seller sees it, so that the next process does not sign another.
#[tokio::test(start_paused = true)]
async fn what_a_call_left_unwritten_is_written_before_it_is_shown() {
    use super::super::rig::{Diary, Slip};
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let busy = seller(move |payment, _| {
        settle(&chain, payment);
        reply(503, &[("retry-after", "30")], "later")
    });
    let diary = Diary::of(market.journal.clone()).slip(1, Slip::Hangs);
    let budget = Market::budget().build().unwrap();
    let builder = tower_x402::client::PayLayer::builder(market.wallet.clone(), budget, diary);
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    for shows in 0..2 {
        let leaving = tokio::time::timeout(std::time::Duration::from_secs(5), ask(&layer, &busy, question("{}")));
        assert!(leaving.await.is_err());
        assert_eq!((nonces(&busy).1, market.journal.entries().len()), (shows, shows));
    }
    drop(layer);
    let error = buy(&market, &busy).await.unwrap_err();
    assert!(error.is_resumable(), "{error}");
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

/// However old it is by this machine's clock: only the chain says that an authorization is void.
#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_wrong_opens_no_second_authorization() {
    let market = Market::open().await;
    let seller = signed_seller_that_declines();
    let layer = market.layer().await;
    ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Unspent);
    market.shop.clock.advance(std::time::Duration::from_secs(30 * 24 * 60 * 60));
    for request in ["{}", "[1]", "{}"] {
        let _ = ask(&layer, &seller, question(request)).await;
    }
    let of_the_first = market.journal.entries().into_iter().filter(|entry| entry.at.unix() == NOW);
    assert!(of_the_first.clone().all(|entry| entry.state.is_open()), "{:?}", of_the_first.collect::<Vec<_>>());
    // Past its end by the chain, too, it is closed by any call.
    expire(&market);
    market.shop.clock.advance(std::time::Duration::from_secs(2 * 24 * 60 * 60));
    let _ = ask(&layer, &Seller::honest(), question("[2]")).await;
    assert!(market.journal.entries().iter().filter(|entry| entry.at.unix() == NOW).all(|entry| !entry.state.is_open()));
}

/// Sold, settled and not read to its end, without a word about the transaction: its seller would still give the answer that it keeps.
#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_wrong_closes_no_settled_authorization() {
    for knows_time in [true, false] {
        let market = Market::open().await;
        let (layer, chain) = (market.layer().await, market.shop.chain.clone());
        let selling = seller(move |payment, shows| {
            if shows > 0 {
                return crate::rig::sold();
            }
            settle(&chain, payment);
            reply(200, &[("payment-response", &encoded(&json!({"success": true})))], "the answer ".repeat(100_000))
        });
        // Its caller leaves before the end.
        drop(layer.layer(selling.clone()).oneshot(question("{}")).await.unwrap());
        assert_eq!(layer.unfinished()[0].transaction, None);
        market.shop.clock.advance(std::time::Duration::from_secs(30 * 24 * 60 * 60));
        // A seller whose quote is over, and one whose bill tells no time.
        let other = if knows_time { Seller::honest() } else { signed_seller_that_declines() };
        let _ = ask(&layer, &other, question("[1]")).await;
        market.shop.clock.set_unix(NOW);
        let signed = market.wallet.authorizations_signed();
        assert_eq!(ask(&layer, &selling, question("{}")).await.unwrap().text, "the answer", "{knows_time}");
        assert_eq!(market.wallet.authorizations_signed(), signed, "{knows_time}");
    }
}

/// A bill without a time says nothing of this machine's clock.
#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_wrong_closes_no_paid_transfer_where_a_bill_tells_no_time() {
    let market = Market::open().await;
    let layer = market.layer().await;
    ask(&layer, &Seller::paid(|_| reply(503, &[], "busy")), question("{}")).await.unwrap();
    market.shop.clock.advance(std::time::Duration::from_secs(30 * 24 * 60 * 60));
    ask(&layer, &signed_seller_that_declines(), question("[1]")).await.unwrap();
    market.shop.clock.set_unix(NOW);
    assert_eq!(ask(&layer, &Seller::honest(), question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

/// Answers without taking what it was shown.
fn signed_seller_that_declines() -> Seller {
    seller(|_, _| reply(400, &[], "no"))
}

/// A facilitator looks at what waits for a block, and a payer's nodes at blocks: a settlement that is on its way is used to the one, and
/// unused to the others. So it is when a call was killed and another one comes at once.
#[tokio::test(start_paused = true)]
async fn one_that_is_being_settled_is_shown_again_until_its_block_is_there() {
    for word in ["invalid_exact_evm_nonce_already_used", "duplicate_settlement", "nonce_reused"] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let seller = seller(move |payment, shows| {
            if shows == 1 {
                settle(&chain, payment);
            }
            refusal(word, &[way("490000")])
        });
        let error = buy(&market, &seller).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::BilledAgain && error.is_resumable(), "{word}: {error}");
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1), "{word}");
        // Where no block comes, the seller's word is told.
        let seller = self::seller(move |_, _| refusal(word, &[way("490000")]));
        let error = buy(&Market::open().await, &seller).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Outstanding, "{word}: {error}");
        assert_eq!((error.reason(), nonces(&seller).1), (Some(word), 3));
    }
}
