//! What the answers to calls with a pass say of it, and whether another one is bought.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::{sync::Semaphore, time::advance};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::client::{Body, PassLayer};

use super::{
    Market,
    kept_passes::{Answer, PASS, answer, at_once, client, offer, quoting, to},
    paid_passes::bill,
    rig::{AnyBody, Reply, Seller, reply},
};

const ANSWER: &str = "https://shop.example/answer";

fn ten(token: usize, expires: Option<u64>) -> Answer {
    let expires = expires.map_or("null".to_owned(), |end| end.to_string());
    answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{expires}}}"#))
}

/// Other calls run in between.
async fn later(answer: Answer) -> Answer {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    answer
}

/// It charges each call, and answers none: by what its quote says it need not, or there is no quote.
#[tokio::test]
async fn a_pass_that_answers_no_call_is_bought_once() {
    for (is_quoted, left, is_later_process) in
        [(false, "0", false), (false, "9", false), (true, "0", false), (true, "9", false), (false, "9", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let passes =
                if is_quoted { PassLayer::new().preferring("ten") } else { PassLayer::new().buying(PASS).unwrap() };
            passes.kept_in(folder.path().join("passes.json")).unwrap()
        };
        let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
        let sells = move |call: super::kept_passes::Call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => {
                    showings.store(0, SeqCst);
                    ten(counted.fetch_add(1, SeqCst), None)
                }
                // Less than one answer costs.
                _ if call.looks => quoting("/pass").map(|_| offer("/pass").replace("0.49", "0.10").into()),
                (_, Some(_)) if showings.fetch_add(1, SeqCst) < 3 => answer(500, &[("x402-pass-remaining", left)], ""),
                (_, Some(_)) => answer(402, &[], r#"{"pass":"used_up"}"#),
                (_, None) => answer(402, &[], ""),
            })
        };
        let mut passes = open();
        for _ in 0..25 {
            let _ = client(&passes, sells.clone()).oneshot(to(ANSWER)).await.unwrap();
            if is_later_process {
                passes = open();
            }
        }
        assert_eq!(bought.load(SeqCst), 1, "{is_quoted} {left} {is_later_process}");
    }
}

/// Its time is over before the first answer, on whichever route, and whatever its seller says. An answer that costs nothing is one.
#[tokio::test]
async fn a_pass_that_fails_until_its_end_is_bought_once() {
    let cases = [(500, "", 1), (404, "", 1), (401, "invalid_pass", 1), (402, "", 1), (200, "9", 3), (200, "", 3)];
    let cases = cases.map(async |(status, word, purchases)| {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let bought = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&bought);
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => ten(counted.fetch_add(1, SeqCst), Some(unix_now() + 2)),
                (_, Some(_)) if word == "9" => answer(status, &[("x402-pass-remaining", word)], ""),
                (_, Some(_)) if word.is_empty() => answer(status, &[], ""),
                (_, Some(_)) => answer(status, &[("x402-error", word)], ""),
                (_, None) => answer(402, &[], ""),
            })
        });
        for path in ["/a", "/b", "/c"] {
            let _ = shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap();
            // By the clock of this machine.
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(bought.load(SeqCst), purchases, "{status} {word}");
    });
    futures_util::future::join_all(cases).await;
}

fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Nine calls are under way when it says that the pass is used up. It answers them, or says the same.
#[tokio::test]
async fn a_seller_does_not_keep_its_word_by_calls_that_it_refuses_later() {
    for (answers, purchases) in [(true, 3), (false, 2)] {
        let passes = PassLayer::new().preferring("ten");
        let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
        let released = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&released);
        let used_up = || answer(402, &[], r#"{"pass":"used_up"}"#);
        let shop = client(&passes, move |call| match (call.path.as_str(), call.pass.as_deref()) {
            ("/pass", _) => {
                showings.store(0, SeqCst);
                at_once(ten(counted.fetch_add(1, SeqCst), None))
            }
            _ if call.looks => at_once(quoting("/pass").map(|_| offer("/pass").replace("0.49", "4.90").into())),
            (_, Some(token)) => match (token, showings.fetch_add(1, SeqCst)) {
                ("x402p_0", 1..10) => {
                    let waits = Arc::clone(&waits);
                    Box::pin(async move {
                        waits.acquire().await.unwrap().forget();
                        if answers { answer(200, &[("x402-pass-remaining", "0")], "") } else { used_up() }
                    })
                }
                (_, 0) => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
                ("x402p_1", 1..10) => at_once(answer(200, &[("x402-pass-remaining", "8")], "")),
                _ => at_once(used_up()),
            },
            (_, None) => at_once(answer(402, &[], "")),
        });
        let ask = || shop.clone().oneshot(to(ANSWER));
        assert_eq!(ask().await.unwrap().status(), 200);
        let waiting: Vec<_> = (0..9).map(|_| tokio::spawn(ask())).collect();
        while shown.load(SeqCst) < 10 {
            tokio::task::yield_now().await;
        }
        assert_eq!((ask().await.unwrap().status().as_u16(), bought.load(SeqCst)), (200, 2));
        released.add_permits(9);
        for waits in waiting {
            let _ = waits.await.unwrap().unwrap();
        }
        for _ in 0..10 {
            let _ = ask().await.unwrap();
        }
        assert_eq!(bought.load(SeqCst), purchases, "{answers}");
    }
}

/// A third call is told that a new pass is used up, while two are under way. They are answered, or told the same.
#[tokio::test]
async fn a_new_pass_is_judged_once_its_first_calls_have_ended() {
    for (answers, purchases) in [(true, 2), (false, 1)] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
        let released = Arc::new(Semaphore::new(0));
        let waits = Arc::clone(&released);
        let used_up = || answer(402, &[], r#"{"pass":"used_up"}"#);
        let shop = client(&passes, move |call| match (call.path.as_str(), call.pass.as_deref()) {
            ("/pass", _) => at_once(ten(counted.fetch_add(1, SeqCst), None)),
            (_, Some("x402p_0")) if showings.fetch_add(1, SeqCst) < 2 => {
                let waits = Arc::clone(&waits);
                Box::pin(async move {
                    waits.acquire().await.unwrap().forget();
                    if answers { answer(200, &[("x402-pass-remaining", "0")], "") } else { used_up() }
                })
            }
            (_, Some("x402p_0")) => at_once(used_up()),
            (_, Some(_)) => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
            (_, None) => at_once(answer(402, &[], "")),
        });
        let ask = || shop.clone().oneshot(to(ANSWER));
        let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(ask())).collect();
        while shown.load(SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            (ask().await.unwrap().status().as_u16(), bought.load(SeqCst)),
            (402, 1),
            "nothing is bought meanwhile"
        );
        released.add_permits(2);
        for waits in waiting {
            let _ = waits.await.unwrap().unwrap();
        }
        for _ in 0..2 {
            assert_eq!(ask().await.unwrap().status(), if answers { 200 } else { 402 });
        }
        assert_eq!(bought.load(SeqCst), purchases, "{answers}");
    }
}

/// One gets the last call of a pass, and the others the next pass.
#[tokio::test]
async fn calls_at_once_at_the_end_of_a_pass_wait_for_the_next_one() {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let (bought, shown, singles) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let (counted, showings, paid) = (Arc::clone(&bought), shown, Arc::clone(&singles));
    let shop = client(&passes, move |call| match (call.path.as_str(), call.pass.as_deref()) {
        ("/pass", _) => Box::pin(later(ten(counted.fetch_add(1, SeqCst), None))),
        (_, Some("x402p_0")) => match showings.fetch_add(1, SeqCst) {
            before @ 0..10 => Box::pin(later(answer(200, &[("x402-pass-remaining", &(9 - before).to_string())], ""))),
            _ => Box::pin(later(answer(402, &[], r#"{"pass":"used_up"}"#))),
        },
        (_, Some(_)) => at_once(answer(200, &[("x402-pass-remaining", "5")], "")),
        (_, None) => {
            paid.fetch_add(1, SeqCst);
            at_once(answer(200, &[("payment-response", "e30=")], ""))
        }
    });
    for _ in 0..9 {
        assert_eq!(shop.clone().oneshot(to(ANSWER)).await.unwrap().status(), 200);
    }
    let calls = (0..5).map(|_| shop.clone().oneshot(to(ANSWER)));
    for got in futures_util::future::join_all(calls).await {
        assert_eq!(got.unwrap().status(), 200);
    }
    assert_eq!((bought.load(SeqCst), singles.load(SeqCst)), (2, 0));
}

/// What is left does not cover its price, or its seller says that the time is over. It is sent once, so the next request buys.
#[tokio::test(start_paused = true)]
async fn a_pass_that_covers_no_more_stops_one_request_that_is_sent_once() {
    for word in ["used_up", "expired"] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let layer = market.layer().await;
        let file = folder.path().join("passes.json");
        let old = format!(r#"[{{"url":"{PASS}","token":"x402p_old","remaining":"0.10","worth":"1.00"}}]"#);
        std::fs::write(&file, old).unwrap();
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let seller = Seller::new(move |asked| {
            let pass = asked.headers.get("x402-pass").map(|pass| pass.to_str().unwrap());
            match (asked.uri.path(), &asked.proof, pass) {
                ("/pass", Some(_), _) => {
                    let sold = r#"{"pass":"x402p_new","calls":null,"worth":"1.00","expires":null}"#;
                    reply(200, &[("payment-response", "e30=")], sold)
                }
                (_, None, Some("x402p_new")) => reply(200, &[("x402-pass-remaining", "0.70")], "by pass"),
                _ => bill("490000", asked, format!(r#"{{"error":"payment_required","pass":"{word}"}}"#)),
            }
        });
        let ask = async || {
            let seller = tower::ServiceBuilder::new()
                .map_response(|answer: Response<AnyBody>| answer.map(|body| body.map_err(std::io::Error::other)))
                .service(seller.clone());
            let once = Body::once(Full::new(bytes::Bytes::from_static(b"{}")));
            let request = Request::post(ANSWER).body(once).unwrap();
            let got = passes.layer(layer.layer(seller)).oneshot(request).await.unwrap();
            let status = got.status().as_u16();
            (status, got.into_body().collect().await.unwrap().to_bytes())
        };
        let (status, text) = ask().await;
        assert!(status == 402 && text.ends_with(format!(r#""pass":"{word}"}}"#).as_bytes()), "{status} {text:?}");
        assert_eq!(ask().await, (200, "by pass".into()), "{word}");
        assert_eq!(market.wallet.transfers(), 1, "{word}");
    }
}

/// One replica does not know the pass yet, on a path where it was taken, or where it was not.
#[tokio::test(start_paused = true)]
async fn a_stray_bill_is_forgotten_after_ten_minutes() {
    for stray in [0, 1] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let showings = Arc::new(AtomicUsize::new(0));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => ten(0, None),
                (_, Some(_)) if showings.fetch_add(1, SeqCst) == stray => answer(402, &[], "{}"),
                (_, Some(_)) => answer(200, &[("x402-pass-remaining", "9")], "by pass"),
                (_, None) => answer(200, &[("payment-response", "e30=")], "singly"),
            })
        });
        let ask = async || {
            let got = shop.clone().oneshot(to(ANSWER)).await.unwrap();
            got.into_body().collect().await.unwrap().to_bytes()
        };
        for _ in 0..stray {
            assert_eq!(ask().await, "by pass");
        }
        for (seconds, text) in [(0, "singly"), (590, "singly"), (11, "by pass"), (0, "by pass")] {
            advance(Duration::from_secs(seconds)).await;
            assert_eq!(ask().await, text, "{stray} {seconds}");
        }
    }
}

/// An earlier process began a purchase and paid nothing. The next one pays by a quote that says less, and is left before its answer.
#[tokio::test(start_paused = true)]
async fn a_pass_is_judged_by_the_quote_that_it_was_paid_by() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let layer = market.layer().await;
    let file = folder.path().join("passes.json");
    let begun =
        format!(r#"[{{"url":"{PASS}","name":"ten","token":"","is_unfinished":true,"promise":{{"calls":100}}}}]"#);
    std::fs::write(&file, begun).unwrap();
    let passes = PassLayer::new().preferring("ten").kept_in(&file).unwrap();
    let seller = super::kept_passes::seller(|asked| match asked.proofs {
        0 => Reply::Hangs,
        proofs => {
            let body = format!(r#"{{"pass":"x402p_{proofs}","calls":1,"expires":null}}"#);
            reply(200, &[("payment-response", "e30=")], body)
        }
    });
    let bought = super::kept_passes::bought;
    let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
    assert!(left.await.is_err());
    assert_eq!(bought(&passes, &layer, &seller, "/answer").await.unwrap().0, "by pass");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains(r#""promise":{"calls":1}"#), "{kept}");
}

/// GET is cheap. POST takes no pass, or costs more than is left.
#[tokio::test]
async fn a_pass_is_kept_where_one_path_has_two_prices() {
    for is_amount in [false, true] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let (bought, spent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, charged) = (Arc::clone(&bought), Arc::clone(&spent));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.method, call.pass) {
                ("/pass", ..) => match counted.fetch_add(1, SeqCst) {
                    token if is_amount => {
                        answer(200, &[], format!(r#"{{"pass":"x402p_{token}","worth":"1.00","expires":null}}"#))
                    }
                    token => ten(token, None),
                },
                (_, Method::GET, Some(_)) => {
                    let left = 9 - charged.fetch_add(1, SeqCst);
                    let left = if is_amount { format!("0.{left}0") } else { left.to_string() };
                    answer(200, &[("x402-pass-remaining", &left)], "")
                }
                (_, _, Some(_)) if is_amount => answer(402, &[], r#"{"pass":"used_up"}"#),
                (_, _, Some(_)) => answer(401, &[("x402-error", "invalid_pass")], ""),
                (_, _, None) => answer(200, &[("payment-response", "e30=")], ""),
            })
        });
        for left in ["9", "8", "7"] {
            for method in [Method::GET, Method::POST] {
                let request = Request::builder().method(method).uri("https://shop.example/items");
                let got = shop.clone().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
                assert_eq!(got.status(), 200);
            }
            let kept = passes.passes().first().and_then(|pass| pass.remaining.clone());
            let left = if is_amount { format!("0.{left}0") } else { left.to_owned() };
            assert_eq!((kept, bought.load(SeqCst)), (Some(left), 1), "{is_amount}");
        }
    }
}

/// Its price has risen above what is left.
#[tokio::test(start_paused = true)]
async fn an_amount_below_a_price_that_rose_is_given_up_at_the_second_word() {
    let passes = PassLayer::new().buying(PASS).unwrap();
    let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, showings) = (Arc::clone(&bought), shown);
    let shop = client(&passes, move |call| {
        at_once(match (call.path.as_str(), call.pass.as_deref()) {
            ("/pass", _) => {
                let token = counted.fetch_add(1, SeqCst);
                answer(200, &[], format!(r#"{{"pass":"x402p_{token}","worth":"1.00","expires":null}}"#))
            }
            (_, Some("x402p_0")) if showings.fetch_add(1, SeqCst) > 0 => answer(402, &[], r#"{"pass":"used_up"}"#),
            (_, Some(_)) => answer(200, &[("x402-pass-remaining", "0.60")], ""),
            (_, None) => answer(402, &[], ""),
        })
    });
    for (seconds, status, purchases) in [(0, 200, 1), (0, 402, 1), (590, 402, 1), (11, 200, 2)] {
        advance(Duration::from_secs(seconds)).await;
        let got = shop.clone().oneshot(to(ANSWER)).await.unwrap().status().as_u16();
        assert_eq!((got, bought.load(SeqCst)), (status, purchases), "{seconds}");
    }
}

/// It is to save money, and answers one call in its time. At this price that is too little, or enough.
#[tokio::test]
async fn a_pass_that_saves_nothing_is_bought_once_a_day() {
    let cases = [("48", 1), ("0.48", 3)].map(async |(price, purchases)| {
        let passes = PassLayer::new().expecting(100);
        let bought = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&bought);
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => {
                    let (token, end) = (counted.fetch_add(1, SeqCst), unix_now() + 2);
                    answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":null,"expires":{end}}}"#))
                }
                _ if call.looks => {
                    let offered = offer("/pass").replace("0.49", price);
                    quoting("/pass").map(|_| offered.replace(r#""calls":10"#, r#""seconds":2"#).into())
                }
                (_, Some(_)) => answer(200, &[], ""),
                (_, None) => answer(402, &[], ""),
            })
        });
        for _ in 0..3 {
            let _ = shop.clone().oneshot(to(ANSWER)).await.unwrap();
            // By the clock of this machine.
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        assert_eq!(bought.load(SeqCst), purchases, "{price}");
    });
    futures_util::future::join_all(cases).await;
}

/// What costs nothing is none of the calls that it was to answer.
#[tokio::test]
async fn a_seller_does_not_keep_its_word_by_answers_that_cost_nothing() {
    for (answers, purchases) in [("free", 1), ("counted", 2)] {
        let passes = PassLayer::new().preferring("ten");
        let bought = Arc::new(AtomicUsize::new(0));
        let (counted, showings) = (Arc::clone(&bought), Arc::new(AtomicUsize::new(0)));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass.as_deref()) {
                ("/pass", _) => ten(counted.fetch_add(1, SeqCst), None),
                _ if call.looks => quoting("/pass").map(|_| offer("/pass").replace("0.49", "3.90").into()),
                (_, Some("x402p_0")) => match showings.fetch_add(1, SeqCst) {
                    1..10 if answers == "free" => answer(200, &[], ""),
                    0..10 => answer(200, &[("x402-pass-remaining", "9")], ""),
                    _ => answer(402, &[], r#"{"pass":"used_up"}"#),
                },
                (_, Some(_)) => answer(200, &[("x402-pass-remaining", "9")], ""),
                (_, None) => answer(402, &[], ""),
            })
        });
        for _ in 0..12 {
            let _ = shop.clone().oneshot(to(ANSWER)).await.unwrap();
        }
        assert_eq!(bought.load(SeqCst), purchases, "{answers}");
    }
}

/// Its only call is left after its time. A later process knows that it bought nothing.
#[tokio::test]
async fn a_pass_that_bought_nothing_is_known_to_a_later_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passes.json");
    let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
    let shop = client(&passes, |call| match (call.path.as_str(), call.pass) {
        ("/pass", _) => at_once(ten(0, Some(unix_now() + 2))),
        (_, Some(_)) => Box::pin(std::future::pending()),
        (_, None) => at_once(answer(402, &[], "")),
    });
    let slow = tokio::spawn(shop.clone().oneshot(to(ANSWER)));
    // By the clock of this machine.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(shop.oneshot(to(ANSWER)).await.unwrap().status(), 402);
    let is_barred = || std::fs::read_to_string(&file).unwrap().contains("unusable_until");
    assert!(is_barred(), "the process may be killed before its call is answered");
    slow.abort();
    assert!(slow.await.is_err());
    assert!(is_barred());
}
