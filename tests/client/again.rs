//! The same request again after a payment that bought nothing: one transfer in all, whatever the seller asks by then.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use tower_x402::{
    client::{Body, BudgetDenial, PayErrorKind, PayLayer, PurchaseState, ResumeOnly},
    protocol::ProblemCode,
    testing::Sending,
};

use super::{
    Market, question,
    rig::{Asked, Bill, Reply, Seller, ask, problem, reply, sold},
};
use crate::support::NOW;

/// A seller whose price is another at each question, and who meets proofs with this.
fn moving(step: i64, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Seller {
    let questions = Mutex::new(0);
    Seller::new(move |asked| {
        if asked.proof.is_some() {
            return script(asked);
        }
        let mut questions = questions.lock().unwrap();
        *questions += 1;
        Bill { intent: format!("intent-{questions}"), ..Bill::of(&(490_000 + step * (*questions - 1)).to_string()) }
            .reply()
    })
}

/// A payment that the seller took no notice of.
async fn left_over(market: &Market) -> PayLayer {
    let layer = market.layer().await;
    ask(&layer, &Seller::paid(|_| reply(400, &[], "no")), question("{}")).await.unwrap();
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Unspent);
    layer
}

type Refusal = fn(&Asked) -> Reply;

#[tokio::test(start_paused = true)]
async fn five_identical_requests_make_one_transfer_whatever_the_price_does() {
    let refusals: [(&str, Refusal); 4] = [
        ("too large", |_| problem(413, "body_too_large", &[])),
        ("the layer cannot read it", |_| problem(400, "invalid_body", &[])),
        ("the service's own", |_| reply(400, &[], "no")),
        ("it fails", |_| reply(500, &[], "oh")),
    ];
    for (name, refusal) in refusals {
        for step in [-1, 0, 1] {
            for restarts in [false, true] {
                let context = format!("{name}, {step}, restarts: {restarts}");
                let market = Market::open().await;
                let (mut layer, seller) = (market.layer().await, moving(step, refusal));
                for _ in 0..5 {
                    if restarts {
                        layer = market.layer().await;
                    }
                    let resumable = match ask(&layer, &seller, question("{}")).await {
                        Ok(got) => got.purchase.unwrap().state.is_open(),
                        Err(error) => error.transaction().is_some() && error.is_resumable(),
                    };
                    assert!(resumable, "{context}");
                    assert_eq!(market.wallet.transfers(), 1, "{context}");
                }
                assert_eq!(layer.unfinished().len(), 1, "{context}");
            }
        }
    }
}

/// The price fell: what was paid is enough, and is put to the new quote.
#[tokio::test(start_paused = true)]
async fn a_payment_that_covers_the_new_price_buys_the_answer() {
    let market = Market::open().await;
    let seller = moving(-1, |asked| if asked.proofs == 0 { reply(400, &[], "no") } else { sold() });
    let layer = market.layer().await;
    ask(&layer, &seller, question("{}")).await.unwrap();
    let got = ask(&layer, &seller, question("{}")).await.unwrap();
    let (intent, ..) = seller.asked().pop().unwrap().proof.unwrap();
    assert_eq!((got.text.as_str(), intent.as_str(), market.wallet.transfers()), ("the answer", "intent-2", 1));
    assert!(layer.unfinished().is_empty());
}

/// It did not cover the new quote: that is said, with what is needed to do something about it.
#[tokio::test(start_paused = true)]
async fn a_dearer_quote_is_an_error_that_says_what_was_paid_and_what_is_asked() {
    let another = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".to_owned();
    let token = "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA".to_lowercase();
    let quotes = [
        (Bill::of("490001"), "the new price of 0.490001"),
        (Bill { recipient: another, ..Bill::default() }, "another recipient, on another chain or in another token"),
        (Bill { contracts: token, ..Bill::default() }, "another recipient, on another chain or in another token"),
        (Bill { chain: "1".into(), ..Bill::default() }, "another recipient, on another chain or in another token"),
    ];
    for (bill, says) in quotes {
        let market = Market::open().await;
        let layer = left_over(&market).await;
        let paid = market.journal.entries().remove(0);
        let seller = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { bill.reply() });
        for _ in 0..2 {
            let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
            assert!(error.is_resumable() && error.transaction() == paid.transaction, "{error}");
            let text = error.to_string();
            assert!(text.contains("nothing more was paid") && text.contains(&paid.transaction.unwrap().to_string()));
            assert_eq!((error.kind(), error.purchase()), (PayErrorKind::NotCovered, Some(paid.id)));
            assert!(text.contains(" of 0.49 bought nothing") && text.contains(says), "{text}");
            assert_eq!((market.wallet.transfers(), seller.proofs()), (1, 0));
        }
        // Under the quote that it was made for it can be shown all the same.
        let mut resume = question("{}");
        resume.extensions_mut().insert(ResumeOnly);
        assert_eq!(ask(&layer, &seller, resume).await.unwrap().text, "the answer");
    }
    let market = Market::open().await;
    let layer = left_over(&market).await;
    let dearer = Seller::new(|asked| if asked.proof.is_some() { sold() } else { Bill::of("490001").reply() });
    ask(&layer, &dearer, question("{}")).await.unwrap_err();
    assert!(layer.abandon(market.journal.entries()[0].id).await.unwrap());
    ask(&layer, &dearer, question("{}")).await.unwrap();
    assert_eq!(market.wallet.transfers(), 2);
}

/// The seller said that the request could be sent again with the payment: that it was used by then is an error, not a
/// reason to pay within the same call.
#[tokio::test(start_paused = true)]
async fn what_was_promised_to_go_on_and_is_refused_is_an_error() {
    for code in [ProblemCode::TxAlreadyUsed, ProblemCode::PaymentTooOld] {
        let market = Market::open().await;
        let layer = left_over(&market).await;
        let refusing = Seller::paid(move |_| problem(code.status().as_u16(), code.as_str(), &[]));
        let error = ask(&layer, &refusing, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Refused && !error.is_resumable(), "{error}");
        assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 0));
    }
}

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 60 * 60)
}

/// No seller takes a payment for ever: what bought nothing is closed, and the journal and its indexes stay small.
#[tokio::test(start_paused = true)]
async fn a_payment_that_bought_nothing_is_closed_when_no_seller_takes_it_any_more() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let quoting = |price: &str| {
        let bill = Bill { expiry: u64::MAX, ..Bill::of(price) };
        Seller::new(move |asked| if asked.proof.is_some() { reply(400, &[], "no") } else { bill.reply() })
    };
    let declining = |price: usize| quoting(&price.to_string());
    for price in 1..=10 {
        ask(&layer, &declining(price), question(&format!("[{price}]"))).await.unwrap();
    }
    market.shop.clock.advance(hours(25));
    ask(&layer, &declining(1), question("[1]")).await.unwrap();
    assert_eq!((layer.unfinished().len(), market.wallet.transfers()), (10, 10), "kept for a day and an hour");
    market.shop.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        ask(&layer, &declining(1), question("[1]")).await.unwrap();
    }
    let open = layer.unfinished();
    assert_eq!((open.len(), market.wallet.transfers()), (1, 11), "{open:?}");
    market.shop.clock.advance(hours(26));
    ask(&layer, &quoting("2000000"), question("[other]")).await.unwrap_err();
    assert_eq!(layer.unfinished().len(), 0);
    assert!(market.journal.entries().iter().all(|entry| !entry.state.is_open()), "closed in the journal, too");

    // A seller that accepts older ones.
    let market = Market::open().await;
    let layer = market.layer_with(|builder| builder.payment_age(hours(100))).await;
    ask(&layer, &declining(1), question("[1]")).await.unwrap();
    market.shop.clock.advance(hours(100));
    ask(&layer, &declining(1), question("[1]")).await.unwrap();
    assert_eq!(market.wallet.transfers(), 1);
}

/// By the seller's quote, which would be over long ago, it is this machine's clock that is fast: what was paid is kept.
#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_wrong_closes_no_paid_transfer() {
    let market = Market::open().await;
    let (layer, busy) = (market.layer().await, Seller::paid(|_| reply(503, &[], "busy")));
    ask(&layer, &busy, question("{}")).await.unwrap();
    market.shop.clock.advance(hours(30 * 24));
    let error = ask(&layer, &busy, question("[1]")).await.unwrap_err();
    assert_eq!(error.denial(), Some(BudgetDenial::Expired), "{error}");
    market.shop.clock.set_unix(NOW);
    assert_eq!(ask(&layer, &Seller::honest(), question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.transfers(), 1);
}

/// A seller that only ever bills again ends the purchase, and the error no longer says that it goes on.
#[tokio::test(start_paused = true)]
async fn bills_without_end_come_to_an_end() {
    let market = Market::open().await;
    let seller = Seller::paid(|_| reply(402, &[], "pay me"));
    for calls in 1..=5 {
        // Counted across restarts.
        let layer = market.layer().await;
        let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::BilledAgain, "{error}");
        let is_last = !error.is_resumable();
        assert_eq!(
            (is_last, error.is_resumable(), layer.unfinished().len()),
            (calls == 5, calls < 5, usize::from(calls < 5))
        );
        assert_eq!(error.to_string().contains("given up"), is_last);
    }
    assert_eq!((market.wallet.transfers(), seller.proofs()), (1, 5));
}

/// Who shows several purchases at once can tell whose step it is.
#[tokio::test(start_paused = true)]
async fn events_name_their_purchase() {
    let market = Market::open().await;
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let layer =
        market.layer_with(|builder| builder.on_progress(move |event| seen.lock().unwrap().push(event.clone()))).await;
    let seller = Seller::paid(|asked| if asked.proofs < 2 { reply(400, &[], "no") } else { sold() });
    for text in ["[1]", "[2]", "[2]"] {
        let before = events.lock().unwrap().len();
        let request = Request::post("https://seller.example:8443/answer?secret").body(Body::from(text)).unwrap();
        let id = ask(&layer, &seller, request).await.unwrap().purchase.unwrap().id;
        let events = events.lock().unwrap();
        let of_call = &events[before..];
        assert!(of_call.len() >= 3, "{of_call:?}");
        for event in of_call {
            assert_eq!((event.host.as_str(), event.request.as_str()), ("seller.example:8443", "POST /answer"));
            assert!(event.purchase == id || event.event.name() == "quoted", "{event:?}");
        }
    }
    let names: HashSet<_> = events.lock().unwrap().iter().map(|event| event.purchase).collect();
    assert_eq!((names.len(), market.wallet.transfers()), (2, 1), "one quote was for a purchase that was not made");
}

/// An adopted payment is at work for the request that it was shown for: nobody else takes it meanwhile.
#[tokio::test(start_paused = true)]
async fn an_adopted_payment_whose_answer_is_not_known_is_nobody_elses() {
    let market = Market::open().await;
    let layer = left_over(&market).await;
    let hanging = Seller::paid(|_| Reply::Hangs);
    let mut second = Box::pin(ask(&layer, &hanging, question("[2]")));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err());
    drop(second);
    assert_eq!((hanging.proofs(), market.journal.entries()[0].state), (1, PurchaseState::Redeeming));
    let third = Bill { intent: "intent-3".into(), ..Bill::default() };
    let third = Seller::new(move |asked| if asked.proof.is_some() { sold() } else { third.reply() });
    ask(&layer, &third, question("[3]")).await.unwrap();
    assert_eq!(market.wallet.transfers(), 2);
    ask(&layer, &Seller::honest(), question("[2]")).await.unwrap();
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (2, 0));
}

/// Of several the oldest is gone on with: it is the first that the seller will no longer take.
#[tokio::test(start_paused = true)]
async fn the_oldest_is_gone_on_with_first() {
    for declined in [false, true] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let failing = Seller::paid(move |_| if declined { reply(400, &[], "no") } else { reply(500, &[], "oh") });
        market.wallet.script([Sending::Held; 2]);
        let mut both = Vec::new();
        for wait in [3, 1] {
            // Begun while the other is at work, they are two purchases.
            both.push(Box::pin(ask(&layer, &failing, question("{}"))));
            let _ = futures_util::poll!(both.last_mut().unwrap());
            market.shop.clock.advance(Duration::from_secs(wait));
        }
        market.wallet.release();
        for call in both {
            call.await.unwrap();
        }
        let mut paid = market.journal.entries();
        paid.sort_by_key(|entry| entry.at);
        assert_eq!(paid.len(), 2);
        for entry in paid {
            let seller = Seller::honest();
            let request = if declined { question("[other]") } else { question("{}") };
            ask(&layer, &seller, request).await.unwrap();
            let (_, transaction, _) = seller.asked().pop().unwrap().proof.unwrap();
            assert_eq!(Some(transaction.parse().unwrap()), entry.transaction, "declined: {declined}");
        }
        assert_eq!(market.wallet.transfers(), 2);
    }
}

/// Two fresh intents are none: whoever added the second may own it.
#[tokio::test(start_paused = true)]
async fn two_fresh_intents_are_none() {
    for (status, code) in [(400, "intent_required"), (404, "intent_not_found"), (410, "intent_expired")] {
        let market = Market::open().await;
        let two = [("x-price-intent", "first"), ("x-price-intent", "second")];
        let seller = Seller::paid(move |_| problem(status, code, &two));
        let _ = ask(&market.layer().await, &seller, question("{}")).await;
        assert_eq!((seller.proofs(), market.journal.entries()[0].intent.as_str()), (1, "intent-1"), "{code}");
    }
}

/// Logs of HTTP clients leave sensitive headers out.
#[tokio::test(start_paused = true)]
async fn a_proof_is_a_sensitive_header() {
    let (market, seller) = (Market::open().await, Seller::honest());
    ask(&market.layer().await, &seller, question("{}")).await.unwrap();
    let headers = seller.asked().pop().unwrap().headers;
    assert!(headers["x402-payment"].is_sensitive() && !headers["content-type"].is_sensitive());
}
