//! Faults around a pass: clocks that run on, replicas that differ, processes that end, answers that stall.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{
    sync::Notify,
    time::{advance, timeout},
};
use tower::ServiceExt as _;
use tower_x402::{
    client::{MaxPrice, PassLayer},
    protocol::{Amount, ChainTime},
};

use super::{
    Market,
    kept_passes::{Answer, Call, PASS, answer, at_once, bought, bought_by, client, offer, quoting, seller, to, token},
    paid_passes::{bill, paid_for},
    rig::{Asked, Bill, Reply, Seller, any, problem, reply, sold},
    signed::{delivered, demand, settle, shown, signed, way},
};
use crate::support::NOW;

const ANSWER: &str = "https://shop.example/answer";

fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn ten(token: usize, expires: Option<u64>) -> Answer {
    let expires = expires.map_or("null".to_owned(), |end| end.to_string());
    answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{expires}}}"#))
}

async fn settled() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Two requests ask for the price at once. The second one has its quote when the pass of the first one is over, long before its time.
#[tokio::test]
async fn a_pass_that_ends_while_others_ask_for_its_price_is_bought_once() {
    let cases = [true, false].map(async |answers| {
        let passes = PassLayer::new().preferring("ten");
        let (purchases, looks, quoted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), Arc::new(Notify::new()));
        let (counted, looks, waits) = (Arc::clone(&purchases), Arc::new(looks), Arc::clone(&quoted));
        let shop = client(&passes, move |call| match (call.path.as_str(), call.pass) {
            ("/pass", _) => at_once(ten(counted.fetch_add(1, SeqCst), Some(unix_now() + 2))),
            _ if call.looks => {
                let offered = offer("/pass").replace("0.49", "3.90").replace(r#""calls":10"#, r#""seconds":3600"#);
                let (quote, waits) = (quoting("/pass").map(|_| offered.into()), Arc::clone(&waits));
                match looks.fetch_add(1, SeqCst) {
                    1 => Box::pin(async move {
                        waits.notified().await;
                        quote
                    }),
                    // The other one asks meanwhile.
                    _ => Box::pin(async move {
                        settled().await;
                        quote
                    }),
                }
            }
            (_, Some(_)) if !answers => Box::pin(std::future::pending()),
            (_, Some(_)) => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
            (_, None) => at_once(answer(402, &[], "")),
        });
        let calls = [(), ()].map(|()| tokio::spawn(shop.clone().oneshot(to(ANSWER))));
        // By the clock of this machine.
        tokio::time::sleep(Duration::from_secs(3)).await;
        quoted.notify_one();
        let [first, second] = calls;
        assert_eq!((second.await.unwrap().unwrap().status().as_u16(), purchases.load(SeqCst)), (402, 1), "{answers}");
        first.abort();
        let _ = first.await;
        assert_eq!(shop.oneshot(to(ANSWER)).await.unwrap().status(), 402);
        assert_eq!(purchases.load(SeqCst), 1, "{answers}");
    });
    futures_util::future::join_all(cases).await;
}

/// A client was off when the time was over that its quote had named. It may have ended much earlier.
#[tokio::test]
async fn a_pass_is_judged_by_its_end_however_late_that_is_seen() {
    for (early, purchases) in [(5_000, 0), (50, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let (file, now) = (folder.path().join("passes.json"), unix_now());
        let (end, until) = (now - early, now - 100);
        let kept = format!(
            r#"[{{"url":"{PASS}","token":"x402p_old","expires":{end},"calls":1,"promise":{{"calls":10,"until":{until}}}}}]"#
        );
        std::fs::write(&file, kept).unwrap();
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let bought = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&bought);
        let shop = client(&passes, move |call| match call.path.as_str() {
            "/pass" => at_once(ten(counted.fetch_add(1, SeqCst), None)),
            _ => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
        });
        let _ = shop.oneshot(to(ANSWER)).await.unwrap();
        assert_eq!(bought.load(SeqCst), purchases, "{early}");
    }
}

/// Quotes whose time is not over by a clock that goes on for weeks.
fn lasting(asked: &Asked) -> Reply {
    let bill = Bill { intent: format!("intent-{}", asked.before + 1), expiry: NOW + 100_000_000, ..Bill::default() };
    let (pay, contracts) = (bill.pay(), &*bill.contracts);
    reply(402, &[("pay", &pay), ("x-price-intent", &bill.intent), ("x-payment-contracts", contracts)], offer("/pass"))
}

/// Its answer is lost, or the seller fails. For days the client asks for other things, which cost the same.
#[tokio::test(start_paused = true)]
async fn a_paid_pass_is_kept_for_as_long_as_its_seller_keeps_it() {
    for fails in [false, true] {
        for (days, transfers) in [(3, 2), (29, 2), (31, 3)] {
            let market = Market::open().await;
            let layer = market.layer().await;
            let seller = Seller::new(move |asked| {
                match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
                    ("/pass", Some(_), _) if asked.proofs > 0 => token(),
                    ("/pass", Some(_), _) if fails => reply(404, &[], ""),
                    ("/pass", Some(_), _) => Reply::Hangs,
                    (_, Some(_), _) => sold(),
                    (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
                    _ => lasting(asked),
                }
            });
            let passes = PassLayer::new().buying(PASS).unwrap();
            let _ = timeout(Duration::from_secs(30), client_that_leaves(&passes, &layer, &seller)).await;
            let paid_singly = market.wallet.transfers() - 1;
            market.shop.clock.advance(Duration::from_secs(days * 86_400));
            assert!(bought(&PassLayer::new(), &layer, &seller, "/other").await.unwrap().1);
            advance(Duration::from_secs(61)).await;
            assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass", "{fails} {days}");
            assert_eq!(market.wallet.transfers() - paid_singly, transfers, "{fails} {days}");
            assert!(layer.unfinished().is_empty(), "{fails} {days}");
        }
    }
}

/// It was signed for and settled, and its body was lost.
#[tokio::test(start_paused = true)]
async fn a_pass_that_was_signed_for_is_kept_as_long_as_any() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let chain = market.shop.chain.clone();
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), shown(asked), asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(payment), _) => {
                let Reply::Answer(sold) = delivered(settle(&chain, &payment)) else { panic!("it hangs") };
                let Reply::Answer(body) = (if asked.before < 5 { stalled(200, &[]) } else { token() }) else {
                    panic!("it hangs")
                };
                Reply::Answer(sold.map(|_| body.into_body()))
            }
            ("/pass", None, _) => demand(&[way("900000")]),
            _ if asked.proof.is_some() => sold(),
            (_, _, true) => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
            _ => lasting(asked),
        });
    let passes = PassLayer::new().buying(PASS).unwrap();
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "the answer");
    market.shop.clock.advance(Duration::from_secs(3 * 86_400));
    market.shop.chain.set_head(ChainTime::from_unix(NOW + 3 * 86_400));
    assert!(bought(&PassLayer::new(), &layer, &seller, "/other").await.unwrap().1);
    assert!(seller.asked().len() > 5, "it sells the pass again");
    advance(Duration::from_secs(61)).await;
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    let asked = seller.asked().into_iter().filter(|asked| asked.uri.path() == "/pass");
    let nonces: BTreeSet<_> = asked.filter_map(|asked| Some(signed(&shown(&asked)?).nonce)).collect();
    assert_eq!(nonces.len(), 1);
}

/// A proxy strips the proof for a while: bills that name no pass, and are none for a payment of a day.
#[tokio::test(start_paused = true)]
async fn bills_for_a_paid_pass_close_no_purchase_of_it() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let bills = AtomicUsize::new(0);
    let seller = seller(move |asked| match bills.fetch_add(1, SeqCst) {
        0..=9 => bill("490000", asked, offer("/pass")),
        _ => token(),
    });
    let passes = PassLayer::new().buying(PASS).unwrap();
    for _ in 0..12 {
        if bought(&passes, &layer, &seller, "/answer").await.unwrap().0 == "by pass" {
            break;
        }
        advance(Duration::from_secs(61)).await;
    }
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    assert_eq!(paid_for(&seller), 1);
}

async fn client_that_leaves(passes: &PassLayer, layer: &tower_x402::client::PayLayer, seller: &Seller) {
    let _ = bought(passes, layer, seller, "/answer").await;
}

/// One replica does not know the pass yet, where another one took it.
#[tokio::test(start_paused = true)]
async fn a_stray_refusal_ends_no_pass() {
    for is_quoted in [false, true] {
        let passes = if is_quoted { PassLayer::new().expecting(10) } else { PassLayer::new().buying(PASS).unwrap() };
        let (bought, showings) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let (counted, showings) = (Arc::clone(&bought), Arc::new(showings));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => ten(counted.fetch_add(1, SeqCst), None),
                _ if call.looks => quoting("/pass"),
                (_, Some(_)) if [1, 3].contains(&showings.fetch_add(1, SeqCst)) => {
                    answer(401, &[("x402-error", "invalid_pass")], "")
                }
                (_, Some(_)) => answer(200, &[("x402-pass-remaining", "9")], "by pass"),
                (_, None) => answer(200, &[("payment-response", "e30=")], "singly"),
            })
        });
        let ask = async || {
            let got = shop.clone().oneshot(to(ANSWER)).await.unwrap();
            got.into_body().collect().await.unwrap().to_bytes()
        };
        // The second one follows an answer, so it is a stray one, too.
        let first = [(0, "by pass"), (0, "singly"), (590, "singly"), (11, "by pass")];
        for (seconds, text) in first.into_iter().chain([(0, "singly"), (590, "singly"), (11, "by pass")]) {
            advance(Duration::from_secs(seconds)).await;
            assert_eq!(ask().await, text, "{is_quoted} {seconds}");
        }
        assert_eq!((bought.load(SeqCst), passes.passes().len()), (1, 1), "{is_quoted}");
    }
}

/// Of several routes where it was taken, each refuses it in the same minute; or one of them again later.
#[tokio::test(start_paused = true)]
async fn a_pass_that_is_refused_again_later_is_given_up() {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let (bought, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, is_closed) = (Arc::clone(&bought), Arc::clone(&closed));
    let shop = client(&passes, move |call| {
        at_once(match (call.path.as_str(), call.pass.as_deref()) {
            ("/pass", _) => ten(counted.fetch_add(1, SeqCst), None),
            (_, Some("x402p_0")) if is_closed.load(SeqCst) == 1 => answer(401, &[("x402-error", "invalid_pass")], ""),
            (_, Some(_)) => answer(200, &[("x402-pass-remaining", "9")], ""),
            (_, None) => answer(402, &[], ""),
        })
    });
    let status = async |path: &str| {
        shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap().status().as_u16()
    };
    assert_eq!((status("/a").await, status("/b").await), (200, 200));
    closed.store(1, SeqCst);
    assert_eq!((status("/a").await, status("/b").await, passes.passes().len()), (402, 402, 1));
    advance(Duration::from_secs(601)).await;
    assert_eq!((status("/b").await, passes.passes().len()), (402, 0));
    advance(Duration::from_secs(61)).await;
    assert_eq!((status("/a").await, bought.load(SeqCst)), (200, 2));
}

/// Processes that end soon each see one refusal.
#[tokio::test]
async fn a_refusal_is_known_to_a_later_process() {
    let now = unix_now();
    for (refused_at, held) in [(now - 601, 0), (now - 10, 1), (now + 1_000, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passes.json");
        let kept = format!(
            r#"[{{"url":"{PASS}","token":"x402p_old","taken":["POST /answer"],"calls":1,"refused_at":{refused_at}}}]"#
        );
        std::fs::write(&file, kept).unwrap();
        let open = || PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let passes = open();
        let shop = client(&passes, |call| {
            at_once(match call.pass {
                Some(_) => answer(401, &[("x402-error", "invalid_pass")], ""),
                None => answer(402, &[], ""),
            })
        });
        assert_eq!(shop.oneshot(to(ANSWER)).await.unwrap().status(), 402);
        assert_eq!((passes.passes().len(), open().passes().len()), (held, held), "{refused_at} {now}");
    }
}

/// A pass costs as much as the request may. Then it does not count there, or does not come.
#[tokio::test(start_paused = true)]
async fn a_request_and_its_pass_cost_no_more_than_it_may() {
    for comes in [true, false] {
        for (most, transfers) in [(490_000, 1), (979_999, 1), (980_000, 2)] {
            let market = Market::open().await;
            let layer = market.layer().await;
            let seller = Seller::new(move |asked| {
                match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
                    ("/pass", Some(_), _) if comes => token(),
                    ("/pass", Some(_), _) => problem(409, "tx_already_used", &[]),
                    (_, Some(_), _) => sold(),
                    (path, None, true) if path != "/pass" => reply(401, &[("x402-error", "invalid_pass")], ""),
                    _ => bill("490000", asked, offer("/pass")),
                }
            });
            for passes in [PassLayer::new().buying(PASS).unwrap(), PassLayer::new().preferring("ten")] {
                let before = market.wallet.transfers();
                let mut request = to(ANSWER);
                request.extensions_mut().insert(MaxPrice(Amount::from_base_units(most)));
                let answered =
                    bought_by(request, &passes, &layer, &seller).await.is_ok_and(|(text, _)| text == "the answer");
                let paid = market.wallet.transfers() - before;
                assert_eq!((paid, answered), (transfers, transfers == 2), "{comes} {most}");
            }
        }
    }
}

pub fn stalled(status: u16, headers: &[(&str, &str)]) -> Reply {
    let never = futures_util::stream::pending::<Result<Frame<Bytes>, String>>();
    match reply(status, headers, "") {
        Reply::Answer(answer) => Reply::Answer(answer.map(|_| any(StreamBody::new(never)))),
        other => other,
    }
}

/// Its body never ends: other requests go on, and the pass is fetched later.
#[tokio::test(start_paused = true)]
async fn an_answer_that_stalls_holds_up_no_other_request() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = seller(|asked| match asked.proofs {
        0 => stalled(200, &[("payment-response", "e30=")]),
        _ => token(),
    });
    let passes = PassLayer::new().buying(PASS).unwrap();
    let first = timeout(Duration::from_secs(300), bought(&passes, &layer, &seller, "/answer")).await;
    assert_eq!(first.expect("it does not wait for ever").unwrap().0, "the answer");
    advance(Duration::from_secs(61)).await;
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    assert_eq!(paid_for(&seller), 1);
}

#[tokio::test(start_paused = true)]
async fn a_bill_that_stalls_is_no_word_of_the_pass() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(_), _) => token(),
            (_, Some(_), _) => sold(),
            (path, None, true) if path != "/pass" => stalled(402, &[]),
            _ => bill("490000", asked, offer("/pass")),
        });
    let passes = PassLayer::new().buying(PASS).unwrap();
    let first = timeout(Duration::from_secs(3_600), bought(&passes, &layer, &seller, "/answer")).await;
    assert_eq!(first.expect("it does not wait for ever").unwrap().0, "the answer");
    assert_eq!((market.wallet.transfers(), passes.passes().len()), (2, 1));
}

/// What was paid for an answer bought nothing, and buys a pass. That is of no use, and is followed by no other.
#[tokio::test(start_paused = true)]
async fn a_pass_for_a_payment_that_was_left_over_is_judged_like_any_other() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = seller_with_unsold(|transaction| {
        let body = format!(r#"{{"pass":"x402p_{transaction}","calls":10,"expires":1}}"#);
        reply(200, &[("payment-response", "e30=")], body)
    });
    assert_eq!(bought(&PassLayer::new(), &layer, &seller, "/unsold").await.unwrap().0, "no");
    let passes = PassLayer::new().preferring("ten");
    for call in 1..=3 {
        assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "the answer");
        assert_eq!((paid_for(&seller), market.wallet.transfers()), (1, 1 + call));
        advance(Duration::from_secs(3_600)).await;
    }
}

/// `/unsold` answers no payment.
fn seller_with_unsold(pass: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Seller {
    Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
        ("/unsold", Some(_), _) => reply(400, &[], "no"),
        ("/pass", Some((_, transaction, _)), _) => pass(&transaction[..20]),
        (_, Some(_), _) => sold(),
        (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
        _ => bill("490000", asked, offer("/pass")),
    })
}

/// A request finishes what it paid for singly, and does not use the pass. Nothing else does, until its time is over.
#[tokio::test(start_paused = true)]
async fn a_purchase_that_goes_on_says_nothing_against_a_pass() {
    let market = Market::open().await;
    let layer = market.layer_with(|builder| builder.patience(Duration::from_secs(5))).await;
    let seller = seller(|asked| {
        let (_, transaction, _) = asked.proof.as_ref().unwrap();
        let (token, end) = (&transaction[..20], unix_now() + 2);
        reply(200, &[("payment-response", "e30=")], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{end}}}"#))
    });
    let _ = bought(&PassLayer::new(), &layer, &seller, "/broken").await.unwrap_err();
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 1));
    let passes = PassLayer::new().buying(PASS).unwrap();
    while layer.unfinished().len() == 1 {
        let _ = bought(&passes, &layer, &seller, "/broken").await;
    }
    assert_eq!((market.wallet.transfers(), passes.passes().len()), (2, 1));
    // By the clock of this machine.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    assert_eq!(market.wallet.transfers(), 3);
}

/// Its caller closes purchases, and has not done so yet. Its seller delivers nothing twice.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_what_was_delivered_bars_no_pass() {
    let market = Market::open().await;
    let layer = market.layer_with(|builder| builder.acknowledged_by_caller()).await;
    let passes = PassLayer::new().buying(PASS).unwrap();
    let seen = std::sync::Mutex::new(BTreeSet::new());
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some((_, transaction, _)), _) if seen.lock().unwrap().insert(transaction.clone()) => {
                let body = format!(r#"{{"pass":"x402p_{}","calls":1,"expires":null}}"#, &transaction[..20]);
                reply(200, &[("payment-response", "e30=")], body)
            }
            ("/pass", Some(_), _) => problem(409, "tx_already_used", &[]),
            (_, Some(_), _) => sold(),
            (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            _ => bill("490000", asked, offer("/pass")),
        });
    for transfers in 1..=3 {
        assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
        assert_eq!(market.wallet.transfers(), transfers);
    }
}

/// Its first call has no answer when the process is killed. An answer that costs nothing leaves no such trace.
#[tokio::test]
async fn a_call_under_way_is_known_after_a_process_is_killed() {
    for is_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (file, left) = (folder.path().join("passes.json"), folder.path().join("left.json"));
        let bought = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&bought);
        let sells = move |call: Call| match (call.path.as_str(), call.pass) {
            ("/pass", _) => at_once(ten(counted.fetch_add(1, SeqCst), None)),
            ("/slow", Some(_)) => Box::pin(std::future::pending()),
            ("/free", Some(_)) => at_once(answer(200, &[], "")),
            (_, Some(_)) => at_once(answer(402, &[], r#"{"pass":"used_up"}"#)),
            (_, None) => at_once(answer(402, &[], "")),
        };
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let shop = client(&passes, sells.clone());
        if !is_first {
            let free = shop.clone().oneshot(to("https://shop.example/free")).await.unwrap();
            assert_eq!(free.status(), 200);
            assert!(!std::fs::read_to_string(&file).unwrap().contains("has_failed"));
        }
        let slow = tokio::spawn(shop.oneshot(to("https://shop.example/slow")));
        settled().await;
        std::fs::copy(&file, &left).unwrap();
        slow.abort();
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&left).unwrap();
        for _ in 0..2 {
            let got: Response<_> = client(&passes, sells.clone()).oneshot(to(ANSWER)).await.unwrap();
            assert_eq!((got.status().as_u16(), bought.load(SeqCst)), (402, 1), "{is_first}");
        }
    }
}

/// The pass was over while its first call had no answer. Where that comes, nothing bars the next pass.
#[tokio::test]
async fn a_call_under_way_with_a_pass_that_is_over_is_known_after_a_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, left) = (folder.path().join("passes.json"), folder.path().join("left.json"));
    let (bought, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, waits) = (Arc::clone(&bought), Arc::clone(&answers));
    let sells = move |call: Call| match (call.path.as_str(), call.pass) {
        ("/pass", _) => at_once(ten(counted.fetch_add(1, SeqCst), Some(unix_now() + 2))),
        (_, Some(_)) => {
            let waits = Arc::clone(&waits);
            Box::pin(async move {
                waits.notified().await;
                answer(200, &[("x402-pass-remaining", "9")], "")
            })
        }
        (_, None) => at_once(answer(402, &[], "")),
    };
    let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
    let shop = client(&passes, sells.clone());
    let slow = tokio::spawn(shop.clone().oneshot(to(ANSWER)));
    // By the clock of this machine.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((shop.oneshot(to(ANSWER)).await.unwrap().status().as_u16(), bought.load(SeqCst)), (402, 1));
    std::fs::copy(&file, &left).unwrap();
    let killed = PassLayer::new().buying(PASS).unwrap().kept_in(&left).unwrap();
    let later = timeout(Duration::from_secs(5), client(&killed, sells).oneshot(to(ANSWER))).await;
    assert_eq!((later.is_ok_and(|got| got.unwrap().status() == 402), bought.load(SeqCst)), (true, 1));
    answers.notify_one();
    assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("unusable_until"));
}
