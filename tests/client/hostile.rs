//! Sellers that lie, change their mind, never end or never begin: at most what was agreed is paid, once, and the error
//! says why.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::time::{Instant, timeout};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{BudgetDenial, PayError, PayErrorKind, Purchase, PurchaseState},
    protocol::ProblemCode,
};

use super::{
    Market, question,
    rig::{AnyBody, Asked, Bill, Got, Reply, Seller, any, ask, problem, reply, sold},
};
use crate::support::NOW;

/// The longest that a call lasts: its patience, and what one attempt may take beyond it.
const LONGEST: Duration = Duration::from_secs(15 * 60 + 60);
/// A request every half second, all the time.
const MOST_REQUESTS: usize = 1_900;

/// One call, and whatever must hold of any: then the seller comes to its senses, and the same request, in another
/// process, gets its answer, without a second transfer where the error said so.
async fn meets(
    name: &str,
    script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    transfers: usize,
) -> Result<Got, PayError> {
    let market = Market::open().await;
    let sane = Arc::new(AtomicBool::new(false));
    let seller = {
        let sane = Arc::clone(&sane);
        Seller::new(move |asked| match (sane.load(Ordering::SeqCst), &asked.proof) {
            (false, _) => script(asked),
            (true, Some(_)) => sold(),
            (true, None) => Bill::default().reply(),
        })
    };
    let started = Instant::now();
    let got = ask(&market.layer().await, &seller, question("{}")).await;
    assert!(started.elapsed() <= LONGEST, "{name}: took {:?}", started.elapsed());
    assert!(seller.asked().len() <= MOST_REQUESTS, "{name}: {} requests", seller.asked().len());
    assert_eq!(market.wallet.transfers(), transfers, "{name}: {got:?}");
    let open = market.journal.entries().iter().any(|entry| entry.state.is_open());
    let resumable = match &got {
        Err(error) => {
            assert_eq!(error.transaction().is_some(), transfers > 0, "{name}: {error:?}");
            assert_eq!(error.is_resumable(), open, "{name}: {error:?}");
            error.is_resumable()
        }
        Ok(got) => {
            let state = got.purchase.as_ref().map(|purchase| purchase.state);
            assert_eq!(state.is_some_and(PurchaseState::is_open), open, "{name}: {state:?}");
            open
        }
    };
    sane.store(true, Ordering::SeqCst);
    let again = ask(&market.layer().await, &seller, question("{}")).await.unwrap();
    assert_eq!(again.text, "the answer", "{name}");
    assert_eq!(market.wallet.transfers(), transfers + usize::from(!resumable), "{name}: {got:?}");
    got
}

/// A seller that quotes as usual, and meets every proof with this.
async fn meets_proof(name: &str, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Result<Got, PayError> {
    let quoting = move |asked: &Asked| if asked.proof.is_some() { script(asked) } else { Bill::default().reply() };
    meets(name, quoting, 1).await
}

#[tokio::test(start_paused = true)]
async fn quotes_beyond_what_is_allowed_are_not_paid() {
    let declined = |bill: Bill| async move {
        match meets("a quote", move |_| bill.reply(), 0).await {
            Err(error) => error.denial().unwrap_or_else(|| panic!("{error}")),
            Ok(answer) => panic!("{answer:?}"),
        }
    };
    let usual = Bill::default;
    let max = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    for amount in ["1000001", "490000000000", max] {
        assert!(declined(Bill::of(amount)).await == BudgetDenial::PerPayment, "{amount}");
    }
    assert!(declined(Bill { chain: "1".into(), ..usual() }).await == BudgetDenial::Network);
    let other_token = "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA";
    assert_eq!(declined(Bill { contracts: other_token.into(), ..usual() }).await, BudgetDenial::Asset);
    for decimals in ["0", "5", "7", "18", "255"] {
        assert_eq!(declined(Bill { decimals: decimals.into(), ..usual() }).await, BudgetDenial::Asset, "{decimals}");
    }
    for expiry in [0, NOW - 1, NOW] {
        assert_eq!(declined(Bill { expiry, ..usual() }).await, BudgetDenial::Expired, "{expiry}");
    }
}

#[tokio::test(start_paused = true)]
async fn quotes_that_cannot_be_read_are_not_paid() {
    let usual = Bill::default;
    let unreadable = [
        Bill::of(""),
        Bill::of("-1"),
        Bill::of("0x77a10"),
        Bill::of("490000.0"),
        Bill::of("4.9e5"),
        Bill::of("0490000"),
        Bill::of("115792089237316195423570985008687907853269984665640564039457584007913129639936"),
        Bill { decimals: "256".into(), ..usual() },
        Bill { decimals: "-6".into(), ..usual() },
        Bill { chain: "\"8453\"".into(), ..usual() },
        Bill { chain: "18446744073709551616".into(), ..usual() },
        Bill { recipient: "0x".into(), ..usual() },
        Bill { recipient: "0x70997970c51812dc3A010C7d01b50e0d17dc79C8".into(), ..usual() },
        Bill { contracts: String::new(), ..usual() },
        Bill { contracts: "USDC".into(), ..usual() },
        Bill { intent: String::new(), ..usual() },
        Bill { intent: "i".repeat(193), ..usual() },
        Bill { label: "\",\"amount\":\"1\",\"label\":\"".into(), ..usual() },
    ];
    for bill in unreadable {
        let shown = bill.pay();
        let got = meets(&shown, move |_| bill.reply(), 0).await;
        assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Quote), "{shown}: {got:?}");
    }
    let pay = usual().pay();
    let contracts = usual().contracts;
    let headers: [&[(&str, &str)]; 4] = [
        &[("pay", &pay)],
        &[("pay", &pay), ("x-price-intent", "i")],
        &[("pay", &pay), ("pay", &pay), ("x-price-intent", "i"), ("x-payment-contracts", &contracts)],
        &[("pay", &pay), ("x-price-intent", "i"), ("x-price-intent", "j"), ("x-payment-contracts", &contracts)],
    ];
    for headers in headers {
        let owned: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let answer = move |_: &Asked| {
            let headers: Vec<(&str, &str)> = owned.iter().map(|(name, value)| (&**name, &**value)).collect();
            reply(402, &headers, "")
        };
        let got = meets("headers", answer, 0).await;
        assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Quote), "{headers:?}: {got:?}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let got = meets("nesting", move |_| reply(402, &[("pay", &deep), ("x-price-intent", "i")], ""), 0).await;
    assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Quote), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_label_does_no_harm() {
    let bill = Bill { label: "long ".repeat(200_000), ..Bill::default() };
    let sells = move |asked: &Asked| if asked.proof.is_some() { sold() } else { bill.reply() };
    let got = meets("a megabyte of label", sells, 1).await.unwrap();
    assert_eq!(got.text, "the answer");
}

#[tokio::test(start_paused = true)]
async fn a_price_that_rises_with_every_question_is_paid_as_first_quoted() {
    let rising = |asked: &Asked| match &asked.proof {
        Some(_) => sold(),
        None => Bill::of(&format!("{}", 490_000 + 100_000 * asked.before)).reply(),
    };
    let purchase = meets("rising", rising, 1).await.unwrap().purchase.unwrap();
    assert_eq!(purchase.amount.to_string(), "490000");
}

/// Whoever has paid pays no other bill, whatever it says.
#[tokio::test(start_paused = true)]
async fn bills_after_the_payment_are_not_paid() {
    let usual = Bill::default;
    let bills = [
        usual(),
        Bill::of("1"),
        Bill::of("980000"),
        Bill { recipient: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".into(), ..usual() },
        Bill { chain: "1".into(), ..usual() },
        Bill { intent: "intent-2".into(), ..usual() },
        Bill { decimals: "0".into(), ..usual() },
        Bill { expiry: 0, ..usual() },
    ];
    for bill in bills {
        let got = meets_proof("billed again", move |_| bill.reply()).await;
        assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::BilledAgain), "{got:?}");
    }
    for (name, bill) in [("no quote", reply as fn(u16, &[(&str, &str)], _) -> Reply)] {
        let got = meets_proof(name, move |_| bill(402, &[], "pay me")).await;
        assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::BilledAgain), "{got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_reasons_to_wait_end_with_the_patience() {
    let afters = [
        "0",
        "1",
        "7",
        "100000000000000000000",
        "18446744073709551615",
        "-1",
        "1.5",
        "Fri, 31 Dec 1999 23:59:59 GMT",
        "",
    ];
    for after in afters {
        for (code, status) in [
            (ProblemCode::TxNotConfirmed, 409),
            (ProblemCode::RedemptionInProgress, 409),
            (ProblemCode::LedgerUnavailable, 503),
            (ProblemCode::OutcomeUnknown, 503),
            (ProblemCode::TooManyAttempts, 429),
        ] {
            let name = format!("{code} after {after:?}");
            let got = meets_proof(&name, move |_| problem(status, code.as_str(), &[("retry-after", after)])).await;
            let error = got.unwrap_err();
            assert_eq!((error.kind(), error.reason()), (PayErrorKind::Unanswered, Some(code.as_str())), "{name}");
        }
    }
    let got = meets_proof("busy", |_| reply(503, &[("retry-after", "2")], "busy")).await;
    assert!(
        got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Unanswered && error.reason().is_none()),
        "{got:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_or_hang_end_with_the_patience() {
    for reply in [|| Reply::Broken, || Reply::Hangs] {
        let got = meets_proof("no answer", move |_| reply()).await;
        assert!(
            got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Unanswered && error.reason().is_none()),
            "{got:?}"
        );
    }
    let got = meets("never there", |_| Reply::Broken, 0).await;
    assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Http), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_without_a_reason_are_handed_over_after_three() {
    for status in [500, 502, 503, 504, 599, 408, 429] {
        let got = meets_proof("failing", move |_| reply(status, &[], "oh")).await.unwrap();
        let purchase = got.purchase.unwrap();
        assert_eq!((got.status.as_u16(), got.text.as_str()), (status, "oh"));
        assert_eq!(
            (purchase.state, purchase.confirmed, purchase.attempts),
            (PurchaseState::Redeeming, false, 3),
            "{status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fresh_intents_without_end_are_not_taken() {
    for (status, code) in [(400, "intent_required"), (404, "intent_not_found"), (410, "intent_expired"), (404, "else")]
    {
        let fresh = move |asked: &Asked| {
            let intent = format!("fresh-{}", asked.proofs);
            problem(status, code, &[("x-price-intent", &intent)])
        };
        let got = meets_proof(code, fresh).await;
        let error = got.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Misunderstood, "{error}");
        assert!(error.to_string().contains(&format!("rejected the request with {status}")), "{error}");
    }
}

/// The proof goes to the seller and nowhere else; where the seller says that it sold, its redirection is the answer.
#[tokio::test(start_paused = true)]
async fn redirections_are_not_followed_with_the_proof() {
    for status in [300, 301, 302, 303, 307, 308, 399] {
        let away = [("location", "https://elsewhere.example/")];
        let got = meets_proof("away", move |_| reply(status, &away, "")).await;
        assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Redirected), "{got:?}");
        let sold = [("location", "https://elsewhere.example/"), ("payment-response", "e30=")];
        let got = meets_proof("sold, and away", move |_| reply(status, &sold, "")).await.unwrap();
        let purchase = got.purchase.unwrap();
        assert_eq!((purchase.state, purchase.confirmed, purchase.attempts), (PurchaseState::Answered, true, 1));
    }
}

/// What is neither sale nor refusal is the service's own word: it is handed over, and the payment is kept.
#[tokio::test(start_paused = true)]
async fn any_other_status_leaves_the_payment_unspent() {
    for status in [101, 103, 199, 304, 400, 401, 403, 404, 405, 406, 409, 410, 422, 451, 499, 600, 999] {
        let got = meets_proof("odd", move |_| reply(status, &[], "odd")).await.unwrap();
        let purchase = got.purchase.unwrap();
        assert_eq!((purchase.state, purchase.confirmed), (PurchaseState::Unspent, false), "{status}");
        let got = meets_proof("odd, and sold", move |_| reply(status, &[("payment-response", "?")], "odd")).await;
        assert_eq!(got.unwrap().purchase.unwrap().state, PurchaseState::Answered, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_name_the_transaction_and_end_the_purchase() {
    for code in
        ProblemCode::ALL.iter().copied().filter(|code| code.retry() == tower_x402::protocol::RetryRule::Investigate)
    {
        let got = meets_proof(code.as_str(), move |_| problem(code.status().as_u16(), code.as_str(), &[])).await;
        let error = got.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (PayErrorKind::Refused, Some(code.as_str())));
    }
}

/// Every code under every status: `meets` asserts what must hold of all of them.
#[tokio::test(start_paused = true)]
async fn no_code_under_any_status_pays_twice() {
    for code in ProblemCode::ALL {
        for status in [101, 302, 304, 400, 402, 404, 408, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504] {
            for headers in [&[][..], &[("retry-after", "30")], &[("x-price-intent", "other"), ("pay", "{}")]] {
                let lie = move |_: &Asked| problem(status, code.as_str(), headers);
                let _ = meets_proof(&format!("{code} under {status}, {headers:?}"), lie).await;
            }
        }
    }
}

fn with_body(body: AnyBody) -> Reply {
    let response = Response::builder().status(400).header("content-type", "application/json");
    Reply::Answer(response.body(body).unwrap())
}

type Piece = Result<Frame<Bytes>, String>;

#[tokio::test(start_paused = true)]
async fn bodies_that_stall_or_break_are_no_answer() {
    let stalls = || StreamBody::new(stream::pending::<Piece>());
    let got = meets_proof("stalls", move |_| with_body(any(stalls()))).await;
    assert!(
        got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Unanswered && error.reason().is_none()),
        "{got:?}"
    );
    let breaks = || StreamBody::new(stream::iter([Ok(Frame::data(Bytes::from("{"))), Err("broken".to_owned())]));
    let got = meets_proof("breaks", move |_| with_body(any(breaks()))).await;
    assert!(
        got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Unanswered && error.reason().is_none()),
        "{got:?}"
    );
}

/// Only a refusal's few hundred bytes are read ahead: what goes on for ever is handed over as it is.
#[tokio::test(start_paused = true)]
async fn bodies_without_end_are_handed_over_unread() {
    for piece in [Bytes::from(vec![b' '; 4096]), Bytes::from_static(b"{"), Bytes::new()] {
        for trailers in [false, true] {
            let market = Market::open().await;
            let piece = piece.clone();
            let frame = move || -> Piece {
                Ok(if trailers && piece.is_empty() {
                    Frame::trailers(http::HeaderMap::new())
                } else {
                    Frame::data(piece.clone())
                })
            };
            let seller = Seller::paid(move |_| {
                let frame = frame.clone();
                with_body(any(StreamBody::new(stream::repeat_with(frame))))
            });
            let client = market.layer().await.layer(seller);
            let answer = timeout(Duration::from_secs(60), client.oneshot(question("{}"))).await.unwrap().unwrap();
            assert_eq!(answer.extensions().get::<Purchase>().unwrap().state, PurchaseState::Unspent);
            assert_eq!(market.wallet.transfers(), 1);
        }
    }
}
