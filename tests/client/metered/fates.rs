//! What becomes of a permit that a seller was shown and gave no answer to: it is the only one until the chain says that it is void.

use tower_x402::client::{JournalEntry, Money, PayErrorKind, PurchaseState, ResumeOnly};

use super::*;
use crate::signed::{refusal, settlement_failed};

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_is_shown_again_and_another_is_signed_only_once_it_is_void() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0..3 => refusal("permit2_allowance_required", &[up_to(MAXIMUM)]),
        _ => charging(&chain, payment, 1_000),
    });
    let layer = market.layer().await;
    for shows in 1..=3 {
        let error = buy(&layer, &seller).await.unwrap_err();
        // Its deadline is a moment at which it is still valid.
        let until = Some(ChainTime::from_unix(NOW + 61));
        assert_eq!((error.kind(), error.money()), (PayErrorKind::Outstanding, Money::AtRisk { until }), "{error}");
        assert_eq!(error.reason(), Some("permit2_allowance_required"));
        assert!(error.is_resumable());
        let shown = permits(&seller);
        assert_eq!((shown.len(), shown.iter().all(|one| *one == shown[0])), (shows, true));
    }
    assert_eq!(layer.spent(), units(MAXIMUM), "it may still be used");
    expire(&market);
    assert_eq!(buy(&layer, &seller).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.permits_signed(), 2);
    let states: Vec<_> = market.journal.entries().iter().map(|entry| entry.state).collect();
    assert!(states.contains(&PurchaseState::Void) && states.contains(&PurchaseState::Answered), "{states:?}");
    assert_eq!(layer.spent(), units(1_000), "what was never settled costs nothing");
}

/// The clock of this machine is fast, or the chain cannot be asked: neither ends a permit.
#[tokio::test(start_paused = true)]
async fn only_the_chain_says_that_it_is_void() {
    let market = market().await;
    let seller = seller(|_, _| refusal("permit2_insufficient_balance", &[up_to(MAXIMUM)]));
    let layer = market.layer().await;
    assert!(buy(&layer, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    market.shop.clock.advance(Duration::from_secs(3_600));
    assert!(buy(&layer, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Outstanding));
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 3_600));
    market.wallet.outage(true);
    assert!(buy(&layer, &seller).await.is_err_and(|error| error.kind() == PayErrorKind::Unsettled));
    assert_eq!((market.wallet.permits_signed(), layer.spent()), (1, units(MAXIMUM)));
}

/// The chain does not say by which transaction a permit was used, and the bills of these sellers tell no time that closes it.
#[tokio::test(start_paused = true)]
async fn an_old_permit_that_was_used_stands_in_the_way_of_no_other() {
    let market = market().await;
    let declining = seller(|_, _| reply(400, &[], "no"));
    let layer = market.layer().await;
    for number in 1..=2 {
        ask(&layer, &declining, another(number)).await.unwrap();
        market.shop.clock.advance(Duration::from_secs(1));
    }
    let [used, unused] = [0, 1].map(|number| permits(&declining)[number].permit.nonce);
    charge(&market.shop.chain, &shown(&declining.asked()[1]).unwrap(), MAXIMUM);
    expire(&market);
    market.shop.clock.advance(Duration::from_secs(2 * 24 * 60 * 60));
    for number in 3..=4 {
        ask(&layer, &declining, another(number)).await.unwrap();
    }
    let entries = market.journal.entries();
    let state = |nonce| {
        let is_it = |entry: &&JournalEntry| entry.permit().is_some_and(|signed| signed.permit.nonce == nonce);
        entries.iter().find(is_it).map(|entry| entry.state)
    };
    // Void, it is too old for the journal.
    assert_eq!((state(used), state(unused)), (Some(PurchaseState::Redeeming), None));
}

/// The process ends after it has shown the permit: the next one shows the same header.
#[tokio::test(start_paused = true)]
async fn after_a_kill_the_same_header_is_shown() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| if shows == 0 { Reply::Hangs } else { charging(&chain, payment, 1_858) });
    let layer = market.layer().await;
    let call = tokio::time::timeout(Duration::from_secs(5), buy(&layer, &seller));
    assert!(call.await.is_err(), "the caller leaves");
    drop(layer);
    let layer = market.layer().await;
    assert_eq!((layer.unfinished().len(), layer.spent()), (1, units(MAXIMUM)));
    let mut request = question("{}");
    request.extensions_mut().insert(ResumeOnly);
    let got = ask(&layer, &seller, request).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().charged), ("the answer", Some(units(1_858))));
    let headers: Vec<_> = seller.asked().iter().filter_map(header).collect();
    assert_eq!((headers.len(), headers[0] == headers[1], market.wallet.permits_signed()), (2, true, 1));
    assert_eq!(layer.spent(), units(1_858));
}

/// It was settled, and there is no answer: nothing more is signed, whatever the seller says, for as long as the payment is kept.
#[tokio::test(start_paused = true)]
async fn one_that_was_settled_without_an_answer_is_never_followed_by_another() {
    let faults: [fn() -> Reply; 4] = [
        || settlement_failed("unexpected_settle_error"),
        || reply(502, &[("content-type", "application/json")], "{}"),
        || Reply::Broken,
        || demand(&[up_to(MAXIMUM)]),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let market = market().await;
        let chain = market.shop.chain.clone();
        let seller = seller(move |payment, _| {
            charge(&chain, payment, 1_858);
            fault()
        });
        let layer = market.layer().await;
        for call in 1..=5 {
            let error = buy(&layer, &seller).await.unwrap_err();
            assert!(error.is_resumable(), "{number} {call}: {error}");
            if call == 3 {
                expire(&market);
            }
        }
        assert_eq!((market.wallet.permits_signed(), layer.spent()), (1, units(MAXIMUM)), "{number}");
        let shown = permits(&seller);
        assert!(shown.iter().all(|one| *one == shown[0]));
        // A day later it is given up, by a quote that says that the clock is right.
        let first = layer.unfinished().remove(0).id;
        market.shop.clock.advance(Duration::from_secs(26 * 3_600));
        let _ = ask(&layer, &seller, another(1)).await;
        assert!(layer.unfinished().iter().any(|entry| entry.id == first), "{number}");
        let timed = Seller::new(|_| crate::rig::Bill { expiry: u64::MAX, ..Default::default() }.reply());
        let mut request = another(2);
        request.extensions_mut().insert(tower_x402::client::MaxPrice(units(1)));
        let _ = ask(&layer, &timed, request).await;
        assert!(layer.unfinished().iter().all(|entry| entry.id != first), "{number}");
    }
}

/// A seller's word for a passing fault: the same permit is shown until there is an answer.
#[tokio::test(start_paused = true)]
async fn a_passing_fault_is_waited_for() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => reply(503, &[("retry-after", "2")], ""),
        1 => settlement_failed("settlement_pending"),
        _ => charging(&chain, payment, 1_000),
    });
    assert_eq!(buy(&market.layer().await, &seller).await.unwrap().text, "the answer");
    assert_eq!((permits(&seller).len(), market.wallet.permits_signed()), (3, 1));
}

/// The service refuses the request itself: the permit is kept for that request, and another one has its own.
#[tokio::test(start_paused = true)]
async fn a_permit_is_for_its_own_request() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        None => demand(&[up_to(MAXIMUM)]),
        Some(_) if asked.body == "{}" && asked.proofs == 0 => reply(400, &[], "which?"),
        Some(payment) => charging(&chain, &payment, 1_000),
    });
    let layer = market.layer().await;
    let got = buy(&layer, &seller).await.unwrap();
    assert_eq!((got.status.as_u16(), got.purchase.unwrap().state), (400, PurchaseState::Unspent));
    ask(&layer, &seller, another(1)).await.unwrap();
    assert_eq!(market.wallet.permits_signed(), 2);
}

/// There is no transaction that a wallet could void it by: it ends by itself.
#[tokio::test(start_paused = true)]
async fn it_is_not_cancelled() {
    let market = market().await;
    let seller = seller(|_, _| refusal("permit2_insufficient_balance", &[up_to(MAXIMUM)]));
    let layer = market.layer().await;
    let purchase = buy(&layer, &seller).await.unwrap_err().purchase().unwrap();
    let error = layer.cancel(purchase).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.money()),
        (PayErrorKind::NotCancelled, Money::AtRisk { until: Some(ChainTime::from_unix(NOW + 61)) })
    );
    assert_eq!(market.wallet.sent(), 0);
    assert!(layer.abandon(purchase).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_human_sees_the_maximum() {
    let market = market().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| charging(&chain, payment, 1_000));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let proposals = seen.clone();
    let budget = Market::budget().approve(move |proposal| {
        proposals.lock().unwrap().push((proposal.amount, proposal.paid_by.name(), proposal.valid_for));
        std::future::ready(true)
    });
    let layer = PayLayer::builder(market.wallet.clone(), budget.build().unwrap(), market.journal.clone());
    let layer = layer.clock(market.shop.clock.clone()).build().await.unwrap();
    buy(&layer, &seller).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [(units(MAXIMUM), "permit", Some(Duration::from_secs(60)))]);
}
