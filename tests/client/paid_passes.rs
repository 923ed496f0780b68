//! What a seller of passes can make of the money: one pass is paid for, however its purchase ends and however the pass does.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use http::Request;
use tokio::time::advance;
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{Body, MaxPrice, PassLayer, PayLayer},
    protocol::Amount,
    testing::Sending,
};

use super::{
    Market,
    kept_passes::{Call, PASS, answer, at_once, bought, bought_by, client, offer, quoting, seller, to, token},
    rig::{Asked, Bill, Reply, Seller, problem, reply, sold, text},
    signed::{delivered, demand, expire, settle, shown, signed, way},
};

/// How many payments were shown where passes are sold.
pub fn paid_for(seller: &Seller) -> usize {
    let asked = seller.asked();
    let passes = asked.iter().filter(|asked| asked.uri.path().starts_with("/pass"));
    passes
        .filter_map(|asked| asked.proof.as_ref())
        .map(|(_, transaction, _)| transaction)
        .collect::<BTreeSet<_>>()
        .len()
}

pub fn bill(amount: &str, asked: &Asked, body: String) -> Reply {
    let bill = Bill { intent: format!("intent-{}", asked.before + 1), ..Bill::of(amount) };
    let pay = bill.pay();
    let headers = [("pay", &*pay), ("x-price-intent", &*bill.intent), ("x-payment-contracts", &*bill.contracts)];
    reply(402, &headers, body)
}

/// The names of passes follow the paths of answers: `/a` offers `/pass-a`. They cost 0.90 at most, and an answer 0.49.
fn street(pass: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> Seller {
    Seller::new(move |asked| {
        let path = asked.uri.path();
        if path.starts_with("/pass") {
            // No payment for the one is a payment for another.
            let price = if path == "/pass-a" { "900000" } else { "890000" };
            return pass(asked).unwrap_or_else(|| bill(price, asked, "{}".to_owned()));
        }
        match (&asked.proof, asked.headers.contains_key("x402-pass")) {
            (Some(_), _) => sold(),
            (None, true) => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
            (None, false) => {
                let offered = offer(&format!("/pass-{}", path.trim_start_matches('/'))).replace("0.49", "0.90");
                bill("490000", asked, offered)
            }
        }
    })
}

async fn asks(passes: &PassLayer, layer: &PayLayer, seller: &Seller, path: &str) -> String {
    bought(passes, layer, seller, path).await.unwrap().0
}

/// The payment is refused for good, at once or after an answer was awaited in vain.
#[tokio::test(start_paused = true)]
async fn a_seller_that_refuses_a_paid_pass_is_paid_for_one_a_day() {
    for code in [(409, "tx_already_used"), (422, "payment_too_old"), (409, "already_consumed")] {
        for hangs in [false, true] {
            let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
            let layer = market.layer().await;
            let seller = seller(move |asked| match asked.proofs {
                0 if hangs => Reply::Hangs,
                _ => problem(code.0, code.1, &[]),
            });
            let open = || PassLayer::new().preferring("ten").kept_in(folder.path().join("passes.json")).unwrap();
            let mut passes = open();
            if hangs {
                let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
                assert!(left.await.is_err());
            }
            for call in 0..3 {
                let _ = bought(&passes, &layer, &seller, "/answer").await.unwrap();
                assert_eq!((paid_for(&seller), passes.passes().len()), (1, 0), "{code:?} {hangs} {call}");
                advance(Duration::from_secs(3_600)).await;
                // A later process knows of it, too.
                passes = open();
            }
        }
    }
}

/// The caller left before it came, and then it is worth nothing.
#[tokio::test(start_paused = true)]
async fn a_dud_that_comes_late_is_paid_for_once() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = Seller::new(|asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
        ("/pass", Some(_), _) if asked.proofs == 0 => Reply::Hangs,
        ("/pass", Some((_, transaction, _)), _) => {
            let body = format!(r#"{{"pass":"x402p_{}","calls":10,"expires":null}}"#, &transaction[..20]);
            reply(200, &[("payment-response", "e30=")], body)
        }
        (_, Some(_), _) => sold(),
        (path, None, true) if path != "/pass" => bill("490000", asked, r#"{"pass":"used_up"}"#.to_owned()),
        (_, None, _) => bill("490000", asked, offer("/pass")),
    });
    let passes = PassLayer::new().preferring("ten");
    let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
    assert!(left.await.is_err());
    for call in 0..3 {
        assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "the answer");
        assert_eq!(paid_for(&seller), 1, "{call}");
        advance(Duration::from_secs(3_600)).await;
    }
}

/// What was begun at `/pass-a` is paid and has no answer yet, whatever its seller says meanwhile: nothing is paid at `/pass-b`.
#[tokio::test(start_paused = true)]
async fn a_paid_pass_without_an_answer_keeps_others_from_being_bought() {
    for (status, text) in [(502, ""), (404, ""), (400, ""), (200, "<html>")] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let layer = market.layer().await;
        let stage = Arc::new(AtomicUsize::new(0));
        let now = Arc::clone(&stage);
        let seller = street(move |asked| match (asked.uri.path(), &asked.proof, now.load(SeqCst)) {
            ("/pass-a", Some(_), 0) => Some(Reply::Hangs),
            ("/pass-a", Some(_), 1) => Some(reply(status, &[], text)),
            (_, Some(_), _) => Some(token()),
            _ => None,
        });
        let open = || PassLayer::new().preferring("ten").kept_in(folder.path().join("passes.json")).unwrap();
        let mut passes = open();
        let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/a"));
        assert!(left.await.is_err());
        for later in [1, 1, 2] {
            stage.store(later, SeqCst);
            let text = asks(&passes, &layer, &seller, "/b").await;
            assert_eq!(text, if later == 1 { "the answer" } else { "by pass" }, "{status}");
            assert_eq!(paid_for(&seller), 1, "{status}");
            advance(Duration::from_secs(61)).await;
            if later == 1 {
                passes = open();
            }
        }
        assert!(layer.unfinished().is_empty(), "{status}");
    }
}

/// A proxy in between answers with a page of its own, before anything is paid.
#[tokio::test(start_paused = true)]
async fn a_page_in_place_of_a_bill_bars_no_pass() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let stage = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&stage);
    let seller = street(move |asked| match (&asked.proof, now.load(SeqCst)) {
        (_, 0) => Some(reply(200, &[], "<html>")),
        (Some(_), _) => Some(token()),
        (None, _) => None,
    });
    let passes = PassLayer::new().preferring("ten");
    for (later, text) in [(0, "the answer"), (1, "by pass")] {
        stage.store(later, SeqCst);
        assert_eq!(asks(&passes, &layer, &seller, "/a").await, text);
        assert_eq!(paid_for(&seller), later);
        advance(Duration::from_secs(61)).await;
    }
}

/// It answers a payment with a page, and says next time that it was used.
#[tokio::test(start_paused = true)]
async fn a_payment_that_bought_a_page_is_followed_by_no_other() {
    for status in [200, 201, 204] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let seen = std::sync::Mutex::new(BTreeSet::new());
        let seller = street(move |asked| {
            let (_, transaction, _) = asked.proof.as_ref()?;
            Some(match seen.lock().unwrap().insert(transaction.clone()) {
                true => reply(status, &[], "<html>"),
                false => problem(409, "tx_already_used", &[]),
            })
        });
        let passes = PassLayer::new().preferring("ten");
        for call in 0..5 {
            let _ = bought(&passes, &layer, &seller, "/a").await.unwrap();
            assert_eq!(paid_for(&seller), 1, "{status} {call}");
            advance(Duration::from_secs(61)).await;
        }
    }
}

fn saying(said: Reply, body: &str) -> Reply {
    match said {
        Reply::Answer(answer) => Reply::Answer(answer.map(|_| text(body))),
        other => other,
    }
}

/// What was signed for a pass bought a page, and is never used. Then the seller sells the token of before once more.
#[tokio::test(start_paused = true)]
async fn a_payment_that_lapsed_is_followed_by_one_other() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let layer = market.layer().await;
    let file = folder.path().join("passes.json");
    let passes = PassLayer::new().preferring("ten").kept_in(&file).unwrap();
    let stage = Arc::new(AtomicUsize::new(0));
    let (now, chain) = (Arc::clone(&stage), market.shop.chain.clone());
    let seller = Seller::new(move |asked| {
        let stage = now.load(SeqCst);
        match (asked.uri.path(), shown(asked), asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(_), _) if stage == 1 => reply(200, &[], "<html>"),
            ("/pass", Some(payment), _) => {
                let pass = r#"{"pass":"x402p_old","calls":1,"expires":null}"#;
                saying(delivered(settle(&chain, &payment)), pass)
            }
            (_, Some(payment), _) => delivered(settle(&chain, &payment)),
            (_, None, true) => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            // No payment for the one is a payment for the other.
            ("/pass", None, _) => demand(&[way("900000")]),
            _ => {
                let price = if stage == 2 { "0.98" } else { "0.90" };
                saying(demand(&[way("490000")]), &offer("/pass").replace("0.49", price))
            }
        }
    });
    for (number, text, paid) in [(0, "by pass", 1), (1, "the answer", 2), (2, "the answer", 3), (2, "the answer", 3)] {
        stage.store(number, SeqCst);
        assert_eq!(asks(&passes, &layer, &seller, "/answer").await, text, "{number}");
        let asked = seller.asked().into_iter().filter(|asked| asked.uri.path() == "/pass");
        let nonces: BTreeSet<_> = asked.filter_map(|asked| Some(signed(&shown(&asked)?).nonce)).collect();
        assert_eq!(nonces.len(), paid, "{number}");
        if number == 1 {
            expire(&market);
        }
        advance(Duration::from_secs(61)).await;
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains(r#""promise":{"calls":2}"#), "{kept}");
}

/// Ten calls are paid for. Meanwhile a quote names thirty, at three times the price.
#[tokio::test(start_paused = true)]
async fn a_pass_is_judged_by_its_own_quote_where_another_came_before_it() {
    let market = Market::open().await;
    let budget = Market::budget().per_payment("20").per_day("100").build().unwrap();
    let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
    let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
    let (stage, showings) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let now = Arc::clone(&stage);
    let seller = Seller::new(move |asked| {
        let stage = now.load(SeqCst);
        match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(_), _) if stage < 2 => reply(200, &[], "<html>"),
            ("/pass", Some((_, transaction, _)), _) => {
                let body = format!(r#"{{"pass":"x402p_{}","calls":10,"expires":null}}"#, &transaction[..20]);
                reply(200, &[("payment-response", "e30=")], body)
            }
            ("/pass", None, _) => bill(if stage == 1 { "14700000" } else { "4900000" }, asked, "{}".to_owned()),
            (_, Some(_), _) => sold(),
            (_, None, true) => {
                let left = 9 - showings.fetch_add(1, SeqCst) % 10;
                reply(200, &[("x402-pass-remaining", &left.to_string())], "by pass")
            }
            (_, None, false) if stage == 1 => {
                let offered = offer("/pass").replace("0.49", "14.70").replace(r#""calls":10"#, r#""calls":30"#);
                bill("490000", asked, offered)
            }
            (_, None, false) => bill("490000", asked, offer("/pass").replace("0.49", "4.90")),
        }
    });
    let passes = PassLayer::new().preferring("ten");
    for later in [0, 1] {
        stage.store(later, SeqCst);
        assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "the answer");
        advance(Duration::from_secs(61)).await;
    }
    stage.store(2, SeqCst);
    for calls in 1..=11 {
        assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass", "{calls}");
        assert_eq!(paid_for(&seller), if calls > 10 { 2 } else { 1 }, "{calls}");
    }
}

/// A proxy drops the header that says that the payment was taken. No payment is shown twice.
#[tokio::test(start_paused = true)]
async fn a_good_pass_closes_its_purchase_without_a_word_about_the_payment() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let (seen, shown) = (std::sync::Mutex::new(BTreeSet::new()), AtomicUsize::new(0));
    let seller = Seller::new(move |asked| {
        let path = asked.uri.path();
        match (path, &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some((_, transaction, _)), _) if seen.lock().unwrap().insert(transaction.clone()) => {
                let token = &transaction[..20];
                reply(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":null}}"#))
            }
            ("/pass", Some(_), _) => problem(409, "tx_already_used", &[]),
            (_, Some(_), _) => sold(),
            (_, None, true) if path != "/pass" => match shown.fetch_add(1, SeqCst) {
                10 => bill("490000", asked, r#"{"pass":"used_up"}"#.to_owned()),
                _ => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
            },
            _ => bill("490000", asked, offer("/pass")),
        }
    });
    let passes = PassLayer::new().preferring("ten");
    for calls in 1..=11 {
        assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass", "{calls}");
        assert_eq!(market.wallet.transfers(), if calls > 10 { 2 } else { 1 }, "{calls}");
        assert!(layer.unfinished().is_empty(), "{calls}");
    }
}

/// A process ended before it closed the purchase. With a file, its pass must have arrived, because the file would list a missing one.
/// Without a file that is unknown, and no other pass is paid for.
#[tokio::test(start_paused = true)]
async fn a_pass_of_long_ago_that_comes_again_bars_none_where_it_is_known_to_have_come() {
    for is_in_file in [true, false] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let layer = market.layer().await;
        let first = std::sync::Mutex::new(None);
        let seller = seller(move |asked| {
            let (_, transaction, _) = asked.proof.as_ref().unwrap();
            let mut first = first.lock().unwrap();
            let is_first = *first.get_or_insert(transaction.clone()) == *transaction;
            let expires = if is_first { "1" } else { "null" };
            let token = &transaction[..20];
            let body = format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{expires}}}"#);
            if asked.proofs == 0 { Reply::Hangs } else { reply(200, &[("payment-response", "e30=")], body) }
        });
        let passes = PassLayer::new().preferring("ten");
        let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
        assert!(left.await.is_err());
        // As if it had been kept.
        let mut passes = PassLayer::new().preferring("ten");
        if is_in_file {
            passes = passes.kept_in(folder.path().join("passes.json")).unwrap();
        }
        let (text, paid) = if is_in_file { ("by pass", 2) } else { ("the answer", 1) };
        for _ in 0..2 {
            assert_eq!(asks(&passes, &layer, &seller, "/answer").await, text, "{is_in_file}");
            assert_eq!((paid_for(&seller), layer.unfinished().len()), (paid, 0), "{is_in_file}");
        }
    }
}

/// An earlier process paid at `/pass-a`. This one had a pass of `/pass-b`, which says nothing of that payment.
#[tokio::test(start_paused = true)]
async fn a_pass_of_another_address_says_nothing_of_a_refused_one() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let first = std::sync::Mutex::new(None);
    let seller = Seller::new(move |asked| {
        let path = asked.uri.path();
        match (path, &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass-a" | "/pass-b", Some((_, transaction, _)), _) => {
                let mut first = first.lock().unwrap();
                let is_first = *first.get_or_insert(transaction.clone()) == *transaction;
                let token = &transaction[..20];
                let sold = format!(r#"{{"pass":"x402p_{token}","calls":1,"expires":null}}"#);
                match is_first {
                    true if asked.proofs == 0 => Reply::Hangs,
                    true => problem(409, "tx_already_used", &[]),
                    false => reply(200, &[("payment-response", "e30=")], sold),
                }
            }
            ("/pass-a", None, _) => bill("900000", asked, "{}".to_owned()),
            ("/pass-b", None, _) => bill("890000", asked, "{}".to_owned()),
            (_, Some(_), _) => sold(),
            (_, None, true) => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            (path, ..) => {
                let offered = offer(&format!("/pass-{}", path.trim_start_matches('/'))).replace("0.49", "0.90");
                bill("490000", asked, offered)
            }
        }
    });
    let passes = PassLayer::new().preferring("ten");
    let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/a"));
    assert!(left.await.is_err());
    let passes = PassLayer::new().preferring("ten");
    for (path, text, paid) in [("/b", "by pass", 2), ("/a", "the answer", 2)] {
        assert_eq!(asks(&passes, &layer, &seller, path).await, text, "{path}");
        assert_eq!(paid_for(&seller), paid, "{path}");
    }
}

/// An earlier process paid for ten calls. A quote for thirty, at three times the price, finds that payment, and
/// no answer to it: its seller has none, or its caller leaves.
#[tokio::test(start_paused = true)]
async fn a_pass_of_an_earlier_process_is_not_judged_by_a_quote_of_now() {
    for (is_in_file, leaves) in [(false, false), (false, true), (true, false), (true, true)] {
        let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
        let budget = Market::budget().per_payment("20").per_day("100").build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let (stage, showings) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let now = Arc::clone(&stage);
        let seller = Seller::new(move |asked| {
            let stage = now.load(SeqCst);
            match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
                ("/pass", Some(_), _) if stage == 0 || leaves && stage == 1 => Reply::Hangs,
                ("/pass", Some(_), _) if stage == 1 => reply(200, &[], "<html>"),
                ("/pass", Some((_, transaction, _)), _) => {
                    let body = format!(r#"{{"pass":"x402p_{}","calls":10,"expires":null}}"#, &transaction[..20]);
                    reply(200, &[("payment-response", "e30=")], body)
                }
                ("/pass", None, _) => bill(if stage == 1 { "14700000" } else { "4900000" }, asked, "{}".to_owned()),
                (_, Some(_), _) => sold(),
                (_, None, true) => {
                    let left = 9 - showings.fetch_add(1, SeqCst) % 10;
                    reply(200, &[("x402-pass-remaining", &left.to_string())], "by pass")
                }
                (_, None, false) if stage == 1 => {
                    let offered = offer("/pass").replace("0.49", "14.70").replace(r#""calls":10"#, r#""calls":30"#);
                    bill("490000", asked, offered)
                }
                (_, None, false) => bill("490000", asked, offer("/pass").replace("0.49", "4.90")),
            }
        });
        let earlier = PassLayer::new().preferring("ten");
        let left = tokio::time::timeout(Duration::from_secs(30), bought(&earlier, &layer, &seller, "/answer"));
        assert!(left.await.is_err());
        let file = folder.path().join("passes.json");
        let open = || {
            let passes = PassLayer::new().preferring("ten");
            if is_in_file { passes.kept_in(&file).unwrap() } else { passes }
        };
        let mut passes = open();
        stage.store(1, SeqCst);
        let asked = tokio::time::timeout(Duration::from_secs(30), asks(&passes, &layer, &seller, "/answer")).await;
        assert_eq!(asked.ok().as_deref(), (!leaves).then_some("the answer"));
        if is_in_file {
            passes = open();
        }
        advance(Duration::from_secs(61)).await;
        stage.store(2, SeqCst);
        for calls in 1..=11 {
            assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass", "{is_in_file} {leaves} {calls}");
            assert_eq!(paid_for(&seller), if calls > 10 { 2 } else { 1 }, "{is_in_file} {leaves} {calls}");
        }
    }
}

/// What came before could not be used, or another pass broke its seller's word meanwhile.
#[tokio::test(start_paused = true)]
async fn a_paid_pass_is_fetched_while_nothing_new_is_bought() {
    let (market, folder) = (Market::open().await, tempfile::tempdir().unwrap());
    let layer = market.layer().await;
    let file = folder.path().join("passes.json");
    let open = || PassLayer::new().preferring("ten").kept_in(&file).unwrap();
    let seller = seller(|asked| if asked.proofs == 0 { Reply::Hangs } else { token() });
    let passes = open();
    let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
    assert!(left.await.is_err());
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 3_600;
    let kept = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, kept.replace(r#""token":"""#, &format!(r#""token":"","unusable_until":{soon}"#))).unwrap();
    let passes = open();
    assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass");
    assert_eq!(paid_for(&seller), 1);
    assert!(std::fs::read_to_string(&file).unwrap().contains("unusable_until"), "the next one is not bought");
}

/// Its caller left while it was paid for. By now no quote would sell it to this request: the budget is used up, the seller does not name it
/// any more, it costs more than the request may, or the request is sent once.
#[tokio::test(start_paused = true)]
async fn a_paid_pass_is_fetched_whatever_the_quotes_of_now_say() {
    for now in ["used up", "renamed", "too dear", "sent once"] {
        let market = Market::open().await;
        let budget = Market::budget().per_day(if now == "used up" { "0.50" } else { "10" }).build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, market.journal.clone());
        let layer = builder.clock(market.shop.clock.clone()).build().await.unwrap();
        let seller =
            Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
                ("/pass", Some(_), _) if asked.proofs == 0 => Reply::Hangs,
                ("/pass", Some(_), _) => token(),
                (_, Some(_), _) => sold(),
                (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
                _ if now == "renamed" && asked.proofs > 0 => bill("490000", asked, "{}".to_owned()),
                _ => bill("490000", asked, offer("/pass")),
            });
        let passes = PassLayer::new().preferring("ten");
        let left = tokio::time::timeout(Duration::from_secs(30), bought(&passes, &layer, &seller, "/answer"));
        assert!(left.await.is_err());
        let mut request = to("https://shop.example/answer");
        match now {
            "too dear" => {
                request.extensions_mut().insert(MaxPrice(Amount::from_base_units(480_000)));
            }
            "sent once" => {
                *request.body_mut() = Body::once(http_body_util::Full::new(bytes::Bytes::from_static(b"{}")));
            }
            _ => {}
        }
        let (text, _) = bought_by(request, &passes, &layer, &seller).await.unwrap();
        assert_eq!((text.as_str(), market.wallet.transfers()), ("by pass", 1), "{now}");
        assert!(layer.unfinished().is_empty(), "{now}");
    }
}

/// What was signed for it was shown, and may still be used. It is too dear for a request, which does not go on with it.
#[tokio::test(start_paused = true)]
async fn a_pass_that_is_too_dear_to_go_on_with_costs_a_request_nothing() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let seller = Seller::new(|asked| match (asked.uri.path(), shown(asked), &asked.proof) {
        ("/pass", Some(_), _) => Reply::Hangs,
        ("/pass", None, _) => demand(&[way("900000")]),
        (_, _, Some(_)) => sold(),
        _ => bill("490000", asked, offer("/pass").replace("0.49", "0.90")),
    });
    for passes in [PassLayer::new().buying(PASS).unwrap(), PassLayer::new().preferring("ten")] {
        let left = tokio::time::timeout(Duration::from_secs(5), bought(&passes, &layer, &seller, "/answer"));
        assert!(left.await.is_err());
        let mut request = to("https://shop.example/answer");
        request.extensions_mut().insert(MaxPrice(Amount::from_base_units(490_000)));
        assert_eq!(bought_by(request, &passes, &layer, &seller).await.unwrap().0, "the answer");
        assert_eq!(layer.unfinished().len(), 1);
    }
}

/// What was signed for it brings the token of before once more. That is spent, whether quotes name a pass after that, or are asked for at all.
#[tokio::test(start_paused = true)]
async fn a_request_and_a_pass_that_was_fetched_for_nothing_cost_no_more_than_it_may() {
    for path in ["/answer", "/renamed", "/other"] {
        for (most, answered) in [(1_389_999, false), (1_390_000, true)] {
            let market = Market::open().await;
            let layer = market.layer().await;
            let stage = Arc::new(AtomicUsize::new(0));
            let seller = with_an_old_token(&market, &stage);
            let passes = PassLayer::new().preferring("ten");
            // No quote for it names a pass, and that is known.
            assert_eq!(asks(&passes, &layer, &seller, "/other").await, "the answer");
            assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass");
            stage.store(1, SeqCst);
            let left = tokio::time::timeout(Duration::from_secs(5), bought(&passes, &layer, &seller, "/answer"));
            assert!(left.await.is_err());
            stage.store(2, SeqCst);
            let mut request = to(&format!("https://shop.example{path}"));
            request.extensions_mut().insert(MaxPrice(Amount::from_base_units(most)));
            let got = bought_by(request, &passes, &layer, &seller).await;
            let paid = market.wallet.transfers() - 1;
            assert_eq!((got.is_ok(), paid), (answered, usize::from(answered)), "{path} {most}");
        }
    }
}

/// It sells the same token for each payment that is signed, after it stalled once. `/other` names no pass.
fn with_an_old_token(market: &Market, stage: &Arc<AtomicUsize>) -> Seller {
    let (now, chain) = (Arc::clone(stage), market.shop.chain.clone());
    Seller::new(move |asked| {
        let is_by_pass = asked.headers.contains_key("x402-pass");
        match (asked.uri.path(), shown(asked), &asked.proof) {
            ("/pass", Some(_), _) if now.load(SeqCst) == 1 => Reply::Hangs,
            ("/pass", Some(payment), _) => {
                saying(delivered(settle(&chain, &payment)), r#"{"pass":"x402p_old","calls":1,"expires":null}"#)
            }
            ("/pass", None, _) => demand(&[way("900000")]),
            (_, _, Some(_)) => sold(),
            _ if is_by_pass => reply(200, &[("x402-pass-remaining", "0")], "by pass"),
            ("/answer", ..) => bill("490000", asked, offer("/pass").replace("0.49", "0.90")),
            _ => bill("490000", asked, "{}".to_owned()),
        }
    })
}

/// Its payment bought nothing yet, and the seller fails.
#[tokio::test(start_paused = true)]
async fn a_pass_whose_payment_is_unspent_is_not_forgotten() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let stage = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&stage);
    let seller = street(move |asked| match (asked.uri.path(), &asked.proof, now.load(SeqCst)) {
        (_, Some(_), 0) => Some(reply(404, &[], "")),
        (_, _, 1) => Some(reply(503, &[], "")),
        (_, Some(_), _) => Some(token()),
        _ => None,
    });
    let passes = PassLayer::new().preferring("ten");
    for (later, path, text) in [(0, "/a", "the answer"), (1, "/a", "the answer"), (2, "/b", "by pass")] {
        stage.store(later, SeqCst);
        assert_eq!(asks(&passes, &layer, &seller, path).await, text, "{later}");
        assert_eq!(paid_for(&seller), 1, "{later}");
        advance(Duration::from_secs(61)).await;
    }
}

/// The quote says less than it did when the payment was made.
#[tokio::test(start_paused = true)]
async fn a_price_that_falls_does_not_bar_a_pass_that_was_paid_for() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held]);
    let layer = market.layer().await;
    let price = Arc::new(AtomicUsize::new(490_000));
    let now = Arc::clone(&price);
    let seller =
        Seller::new(move |asked| match (asked.uri.path(), &asked.proof, asked.headers.contains_key("x402-pass")) {
            ("/pass", Some(_), _) => token(),
            (_, Some(_), _) => sold(),
            (path, None, true) if path != "/pass" => reply(200, &[("x402-pass-remaining", "9")], "by pass"),
            (_, None, _) => {
                let price = now.load(SeqCst);
                bill(&price.to_string(), asked, offer("/pass").replace("0.49", &format!("0.{price}")))
            }
        });
    let passes = PassLayer::new().preferring("ten");
    let left = tokio::time::timeout(Duration::from_secs(5), bought(&passes, &layer, &seller, "/answer"));
    assert!(left.await.is_err());
    price.store(489_999, SeqCst);
    market.wallet.release();
    assert_eq!(asks(&passes, &layer, &seller, "/answer").await, "by pass");
    assert_eq!((market.wallet.transfers(), passes.passes().len()), (1, 1));
}

/// Nine of ten callers leave. The seller holds their calls for a while, and says that none is left.
#[tokio::test]
async fn a_pass_is_kept_where_calls_that_were_left_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passes.json");
    let open = || PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
    let bought = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&bought);
    let sells = move |call: Call| match (call.path.as_str(), call.pass) {
        ("/pass", _) => {
            let token = counted.fetch_add(1, SeqCst);
            at_once(answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":null}}"#)))
        }
        ("/slow", Some(_)) => Box::pin(std::future::pending()),
        (_, Some(_)) => at_once(answer(200, &[("x402-pass-remaining", "0")], "")),
        (_, None) => at_once(answer(402, &[], "")),
    };
    let passes = open();
    for _ in 0..9 {
        let slow = client(&passes, sells.clone()).oneshot(to("https://shop.example/slow"));
        assert!(tokio::time::timeout(Duration::from_millis(5), slow).await.is_err());
    }
    for passes in [passes, open()] {
        for _ in 0..3 {
            let got = client(&passes, sells.clone()).oneshot(to("https://shop.example/answer")).await.unwrap();
            assert_eq!((got.status().as_u16(), bought.load(SeqCst), passes.passes().len()), (200, 1, 1));
        }
    }
}

/// What is sold has far fewer calls, or ends far earlier, than the quote said.
#[tokio::test]
async fn a_pass_that_is_less_than_its_quote_said_is_bought_once_a_day() {
    let calls = r#""calls":10"#;
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 2;
    for (terms, expires, said, purchases) in [
        (calls, None, Ok((200, "0")), 1),
        // After a good answer, or after none.
        (calls, None, Err("used_up"), 1),
        (calls, None, Err("expired"), 1),
        (r#""seconds":86400"#, Some(soon), Ok((200, "9")), 1),
        // As many as the quote said, be they redirects. A failure is no answer.
        (r#""calls":1"#, None, Ok((200, "0")), 5),
        (r#""calls":1"#, None, Ok((303, "0")), 5),
        (r#""calls":1"#, None, Ok((404, "0")), 1),
    ] {
        let passes = PassLayer::new().preferring("ten");
        let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
        let shop = client(&passes, move |call| {
            at_once(match (call.path.as_str(), call.pass) {
                ("/pass", _) => {
                    let token = counted.fetch_add(1, SeqCst);
                    let expires = expires.map_or("null".to_owned(), |end| end.to_string());
                    answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":{expires}}}"#))
                }
                _ if call.looks => {
                    let body = offer("/pass").replace("0.49", "3.90").replace(calls, terms);
                    quoting("/pass").map(|_| body.into())
                }
                (_, Some(_)) => match said {
                    Ok((status, left)) => answer(status, &[("x402-pass-remaining", left)], ""),
                    Err(_) if showings.fetch_add(1, SeqCst) == 0 => answer(200, &[("x402-pass-remaining", "9")], ""),
                    Err(word) => answer(402, &[], format!(r#"{{"pass":"{word}"}}"#)),
                },
                (_, None) => answer(402, &[], ""),
            })
        });
        for call in 0..5 {
            let _ = shop.clone().oneshot(to("https://shop.example/answer")).await.unwrap();
            if expires.is_some() && call == 0 {
                // By the clock of this machine.
                std::thread::sleep(Duration::from_secs(3));
            }
        }
        assert_eq!(bought.load(SeqCst), purchases, "{terms} {expires:?} {said:?}");
    }
}

/// The request may have acted before it failed.
#[tokio::test]
async fn a_request_that_failed_is_sent_once() {
    for passes in [PassLayer::new().expecting(50), PassLayer::new().preferring("ten")] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let seller = Seller::new(|_| Reply::Broken);
        assert!(bought(&passes, &layer, &seller, "/answer").await.is_err());
        assert_eq!(seller.asked().len(), 1);
    }
}

/// The caller pays for one itself, in a header or in the body.
#[tokio::test]
async fn a_payment_of_the_callers_own_says_nothing_of_the_pass() {
    let proof = r#"{"intentId":"i","txHash":"0x0101010101010101010101010101010101010101010101010101010101010101"}"#;
    for in_body in [false, true] {
        let passes = PassLayer::new().buying(PASS).unwrap();
        let shown = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = Arc::clone(&shown);
        let shop = passes.layer(tower::service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                let (parts, body) = request.into_parts();
                let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
                let is_paid = parts.headers.contains_key("x402-payment") || body.starts_with(br#"{"intentId"#);
                let by_pass = parts.headers.contains_key("x402-pass");
                log.lock().unwrap().push((is_paid, by_pass));
                Ok::<_, std::convert::Infallible>(match parts.uri.path() {
                    "/pass" => answer(200, &[], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#),
                    _ if is_paid => answer(200, &[("payment-response", "e30=")], ""),
                    _ => answer(200, &[("x402-pass-remaining", "9")], ""),
                })
            }
        }));
        for paid in [false, true, true, false] {
            let mut request = Request::post("https://shop.example/answer").header("content-type", "application/json");
            if paid && !in_body {
                request = request.header("x402-payment", proof);
            }
            let body = if paid && in_body { proof } else { "{}" };
            assert_eq!(shop.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap().status(), 200);
        }
        assert_eq!(shown.lock().unwrap().last(), Some(&(false, true)), "{in_body}");
        assert!(in_body || !shown.lock().unwrap().contains(&(true, true)), "a proof in a header goes alone");
    }
}

/// The clock was ten years ahead when a pass could not be used.
#[tokio::test]
async fn a_clock_that_was_ahead_bars_no_pass() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (until, purchases) in [(now + 3_600, 0), (now + 10 * 365 * 86_400, 1), (now - 1, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passes.json");
        std::fs::write(&file, format!(r#"[{{"url":"{PASS}","token":"","unusable_until":{until}}}]"#)).unwrap();
        let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
        let shop = client(&passes, |call| match call.path.as_str() {
            "/pass" => at_once(answer(200, &[], r#"{"pass":"x402p_ten","calls":10,"expires":null}"#)),
            _ => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
        });
        let _ = shop.oneshot(to("https://shop.example/answer")).await.unwrap();
        assert_eq!(passes.passes().len(), purchases, "{until}");
    }
}

/// A quote counts calls by its own price. What the amount buys where answers are dearer says nothing against its seller.
#[tokio::test]
async fn an_amount_that_is_spent_where_answers_are_dearer_is_bought_again() {
    let passes = PassLayer::new().preferring("ten");
    let (bought, spent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, charged) = (Arc::clone(&bought), Arc::clone(&spent));
    let shop = client(&passes, move |call| {
        at_once(match (call.path.as_str(), call.pass) {
            ("/pass", _) => {
                let token = counted.fetch_add(1, SeqCst);
                charged.store(0, SeqCst);
                answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":null,"worth":"50","expires":null}}"#))
            }
            _ if call.looks => {
                let offered = offer("/pass").replace("0.49", "45").replace(r#""calls":10"#, r#""worth":"50""#);
                quoting("/pass").map(|_| offered.into())
            }
            (_, Some(_)) if charged.fetch_add(1, SeqCst) < 5 => answer(200, &[("x402-pass-remaining", "9")], ""),
            (_, Some(_)) => answer(402, &[], r#"{"pass":"used_up"}"#),
            (_, None) => answer(402, &[], ""),
        })
    });
    for path in ["/cheap", "/dear", "/dear", "/dear", "/dear", "/dear", "/dear"] {
        let got = shop.clone().oneshot(to(&format!("https://shop.example{path}"))).await.unwrap();
        assert_eq!(got.status(), 200, "{path}");
    }
    assert_eq!(bought.load(SeqCst), 2);
}

/// It answers one call and fails all others that it says to have charged.
#[tokio::test]
async fn a_seller_does_not_keep_its_word_by_calls_that_fail() {
    let passes = PassLayer::new().preferring("ten");
    let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
    let shop = client(&passes, move |call| {
        at_once(match (call.path.as_str(), call.pass) {
            ("/pass", _) => {
                showings.store(0, SeqCst);
                let token = counted.fetch_add(1, SeqCst);
                answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":null}}"#))
            }
            _ if call.looks => quoting("/pass").map(|_| offer("/pass").replace("0.49", "3.90").into()),
            (_, Some(_)) => match showings.fetch_add(1, SeqCst) {
                0 => answer(200, &[("x402-pass-remaining", "9")], ""),
                1..9 => answer(500, &[("x402-pass-remaining", "1")], ""),
                _ => answer(402, &[], r#"{"pass":"used_up"}"#),
            },
            (_, None) => answer(402, &[], ""),
        })
    });
    for _ in 0..25 {
        let _ = shop.clone().oneshot(to("https://shop.example/answer")).await.unwrap();
    }
    assert_eq!(bought.load(SeqCst), 1);
}

/// Calls are under way when their seller says that all are charged: it keeps its word by them.
#[tokio::test]
async fn calls_under_way_count_for_the_word_of_a_seller() {
    let passes = PassLayer::new().preferring("ten");
    let (bought, shown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, showings) = (Arc::clone(&bought), Arc::clone(&shown));
    let shop = client(&passes, move |call| match (call.path.as_str(), call.pass) {
        ("/pass", _) => {
            showings.store(0, SeqCst);
            let token = counted.fetch_add(1, SeqCst);
            at_once(answer(200, &[], format!(r#"{{"pass":"x402p_{token}","calls":10,"expires":null}}"#)))
        }
        _ if call.looks => at_once(quoting("/pass").map(|_| offer("/pass").replace("0.49", "4.90").into())),
        (_, Some(_)) => match showings.fetch_add(1, SeqCst) {
            0 => at_once(answer(200, &[("x402-pass-remaining", "9")], "")),
            1..10 => Box::pin(std::future::pending()),
            _ => at_once(answer(402, &[], r#"{"pass":"used_up"}"#)),
        },
        (_, None) => at_once(answer(402, &[], "")),
    });
    let ask = || shop.clone().oneshot(to("https://shop.example/answer"));
    assert_eq!(ask().await.unwrap().status(), 200);
    let waiting: Vec<_> = (0..9).map(|_| tokio::spawn(ask())).collect();
    while shown.load(SeqCst) < 10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((ask().await.unwrap().status().as_u16(), bought.load(SeqCst)), (200, 2));
    waiting.into_iter().for_each(|waits| waits.abort());
}

/// A request whose body is sent once cannot find out whether lost calls came back: it buys the next pass.
#[tokio::test]
async fn a_pass_that_is_said_to_be_empty_stops_no_request_that_is_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passes.json");
    std::fs::write(&file, format!(r#"[{{"url":"{PASS}","token":"x402p_old","remaining":"0"}}]"#)).unwrap();
    let passes = PassLayer::new().buying(PASS).unwrap().kept_in(&file).unwrap();
    let shop = client(&passes, |call| {
        at_once(match (call.path.as_str(), call.pass.as_deref()) {
            ("/pass", _) => answer(200, &[], r#"{"pass":"x402p_new","calls":10,"expires":null}"#),
            (_, Some("x402p_new")) => answer(200, &[("x402-pass-remaining", "9")], ""),
            _ => answer(402, &[], r#"{"pass":"used_up"}"#),
        })
    });
    for _ in 0..2 {
        let once = Body::once(http_body_util::Full::new(bytes::Bytes::from_static(b"{}")));
        let got = shop.clone().oneshot(Request::post("https://shop.example/answer").body(once).unwrap()).await.unwrap();
        assert_eq!(got.status(), 200);
    }
}
