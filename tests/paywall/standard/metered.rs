//! Metered answers on a scripted chain: what a quote asks for, what the handler's word does, and what becomes of a permit whose settlement
//! is not known.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tower_x402::{
    Charge, Receipt, RequestBody, X402, X402Layer,
    protocol::{
        Binding, ByPermit, ChainTime, Transfer, TxHash,
        headers::PAYMENT_SIGNATURE,
        permit2::{PERMIT2, Permit, PermitScheme, SignedPermit},
        v2::{PaymentOption, PaymentPayload, Reason, UpToRequirements},
    },
    testing::Settling,
};

use super::{NONCE, Stall, paid, pays, required, requirements, settled, units};
use crate::support::{Answer, Counter, Handler, NOW, answering, ask, assert_problem, layered, payer, post};

const MAXIMUM: u128 = 100_000;

async fn open() -> Stall {
    Stall::open_with_permits().await
}

fn layer(stall: &Stall) -> X402Layer {
    stall.shop.merchant.charge_up_to("words", "0.10 USDC").unwrap()
}

fn up_to(answer: &Answer) -> UpToRequirements {
    match &required(answer).accepts[0] {
        PaymentOption::UpTo(offer) => offer.clone(),
        other => panic!("{other:?}"),
    }
}

/// An honest client's permit.
pub fn permits(offer: &UpToRequirements, nonce: [u8; 32]) -> Request<Body> {
    permits_for(r#"{"query":"why"}"#, offer, nonce)
}

/// The same for another question.
fn permits_for(question: &str, offer: &UpToRequirements, nonce: [u8; 32]) -> Request<Body> {
    let permit = Permit::new(PermitScheme::UpTo, payer(), nonce)
        .paying(offer.pay_to, offer.asset, offer.amount)
        .by_facilitator(offer.facilitator().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300));
    let signature = format!("0x{}", "11".repeat(65)).parse().unwrap();
    let payment = PaymentPayload::new(offer.clone(), SignedPermit::new(permit, signature));
    let mut request = post(question);
    request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    request
}

pub async fn offered<S: Handler>(service: &X402<S>) -> UpToRequirements {
    up_to(&ask(service, post(r#"{"query":"why"}"#)).await)
}

/// Says this of its charge, in the extensions and in the header.
pub fn saying(charge: Option<u128>, header: Option<&'static str>) -> impl Handler {
    answering(Counter::default(), move |_: &Request<RequestBody<Body>>| {
        let mut answer = Response::new(Body::from("an answer"));
        if let Some(charge) = charge {
            answer.extensions_mut().insert(Charge(units(charge)));
        }
        if let Some(header) = header {
            answer.headers_mut().insert("settlement-overrides", header.parse().unwrap());
        }
        answer
    })
}

#[tokio::test(start_paused = true)]
async fn a_quote_asks_for_a_permit_alone_unless_it_says_otherwise() {
    let stall = open().await;
    let metered = layered(&layer(&stall), saying(None, None));
    let quote = ask(&metered, post("{}")).await;
    assert_eq!(quote.status(), 402);
    assert!(!quote.headers().contains_key("pay"), "no transfer is asked for");
    let accepts = required(&quote).accepts;
    assert!(matches!(&accepts[..], [PaymentOption::UpTo(offer)] if offer.amount == units(MAXIMUM)), "{accepts:?}");
    let either = layered(&layer(&stall).or_fixed(), saying(None, None));
    let quote = ask(&either, post("{}")).await;
    assert!(quote.headers().contains_key("pay"));
    let accepts = required(&quote).accepts;
    assert!(matches!(&accepts[..], [PaymentOption::UpTo(_), PaymentOption::Exact(_)]), "{accepts:?}");
    // A fixed price is paid as ever.
    let fixed = layered(&stall.shop.layer(), saying(None, None));
    let accepts = required(&ask(&fixed, post("{}")).await).accepts;
    assert!(matches!(&accepts[..], [PaymentOption::Exact(_)]), "{accepts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_handlers_word_is_charged_or_nothing_is_sold() {
    for (charge, header, reads, expected) in [
        (None, None, false, Some(MAXIMUM)),
        (Some(1_858), None, false, Some(1_858)),
        (Some(MAXIMUM), None, false, Some(MAXIMUM)),
        (Some(0), None, false, Some(0)),
        (Some(MAXIMUM + 1), None, false, None),
        // The header counts only where it is read, and behind the extension.
        (None, Some(r#"{"amount":"7"}"#), false, Some(MAXIMUM)),
        (None, Some(r#"{"amount":"7"}"#), true, Some(7)),
        (Some(9), Some(r#"{"amount":"7"}"#), true, Some(9)),
        (None, Some(r#"{"amount":"33.33%"}"#), true, Some(33_330)),
        (None, Some(r#"{"amount":"$0.05"}"#), true, Some(50_000)),
        (None, Some(r#"{"amount":"100001"}"#), true, None),
        (None, Some(r#"{"amount":"-7"}"#), true, None),
        (None, Some("7"), true, None),
    ] {
        let what = format!("{charge:?} {header:?} {reads}");
        let stall = open().await;
        let layer = if reads { layer(&stall).charge_by_header() } else { layer(&stall) };
        let service = layered(&layer, saying(charge, header));
        let request = permits(&offered(&service).await, NONCE);
        let answer = ask(&service, request).await;
        assert!(!answer.headers().contains_key("settlement-overrides"), "{what}");
        match expected {
            Some(expected) => {
                assert_eq!(answer.status(), 200, "{what}");
                let told = settled(&answer);
                assert_eq!((told.amount, told.transaction.is_some()), (Some(units(expected)), expected > 0), "{what}");
                assert_eq!(told.extra.text("maximum"), Some(&*MAXIMUM.to_string()), "{what}");
                assert_eq!(stall.settler.settlements(), usize::from(expected > 0), "{what}");
            }
            None => {
                assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{what}");
                assert!(!answer.headers().contains_key("payment-response"), "{what}");
                assert_eq!(stall.settler.settlements(), 0, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_a_fixed_price_the_handlers_word_is_the_price_or_nothing_is_sold() {
    for (charge, status) in [(490_000, 200), (489_999, 500), (0, 500), (490_001, 500)] {
        let stall = open().await;
        let service = layered(&stall.shop.layer(), saying(Some(charge), None));
        let offer = requirements(&ask(&service, post(r#"{"query":"why"}"#)).await);
        let answer = ask(&service, paid(&pays(&offer))).await;
        assert_eq!(answer.status(), status, "{charge}");
        assert_eq!(stall.settler.settlements(), usize::from(status == 200), "{charge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payment_of_the_whole_maximum_is_taken_in_full_where_it_is_offered() {
    let stall = open().await;
    let either = layered(&layer(&stall).or_fixed(), saying(Some(1_858), None));
    let accepts = required(&ask(&either, post(r#"{"query":"why"}"#)).await).accepts;
    let exact = accepts.iter().find_map(PaymentOption::exact).unwrap().clone();
    let answer = ask(&either, paid(&pays(&exact))).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).amount), (200, Some(units(MAXIMUM))));
    // Elsewhere it is refused, and not used.
    let stall = open().await;
    let metered = layered(&layer(&stall), saying(None, None));
    let mut offer = exact;
    offer.extra = Default::default();
    let offer = offer.with_token_domain("USD Coin", "2");
    assert_problem(ask(&metered, paid(&pays(&offer))).await, 402, "authorization_refused").await;
    assert_eq!(stall.settler.settlements(), 0);
}

/// Whatever the settler says: what is charged buys its answer, and is not charged again.
#[tokio::test(start_paused = true)]
async fn what_is_charged_is_found_whatever_the_settler_says() {
    let poor = Reason::INSUFFICIENT_FUNDS;
    for (settling, first, again) in [
        (Settling::Settled, 200, 409),
        (Settling::SettledUnsure, 200, 409),
        (Settling::SettledUnheard, 200, 409),
        (Settling::SettledDenied(poor.clone()), 200, 409),
        (Settling::SettledHanging, 200, 409),
        // Nothing is charged: the same header goes on.
        (Settling::Refused(poor), 402, 200),
        (Settling::Unknown, 503, 200),
        (Settling::Hanging, 503, 200),
        (Settling::Invented, 503, 200),
    ] {
        let stall = open().await;
        let service = layered(&layer(&stall), saying(Some(1_858), None));
        let offer = offered(&service).await;
        stall.settler.script([settling.clone()]);
        let answer = ask(&service, permits(&offer, NONCE)).await;
        assert_eq!(answer.status(), first, "{settling:?}");
        if first == 503 {
            assert_eq!(answer.headers()["x402-error"], "outcome_unknown", "{settling:?}");
        }
        stall.lease_runs_out();
        let answer = ask(&service, permits(&offer, NONCE)).await;
        assert_eq!(answer.status(), again, "{settling:?}");
        if again == 200 {
            assert_eq!(settled(&answer).amount, Some(units(1_858)), "{settling:?}");
        }
        assert_eq!(ask(&service, permits(&offer, NONCE)).await.status(), 409, "{settling:?}");
    }
}

/// A settlement that was begun with the charge of one question buys no other one: that could cost more.
#[tokio::test(start_paused = true)]
async fn what_was_charged_for_one_question_answers_no_other() {
    let (stall, counter) = (open().await, Counter::default());
    let service = layered(
        &layer(&stall),
        answering(counter.clone(), |_: &Request<RequestBody<Body>>| {
            let mut answer = Response::new(Body::from("an answer"));
            answer.extensions_mut().insert(Charge(units(5)));
            answer
        }),
    );
    let offer = offered(&service).await;
    stall.settler.script([Settling::Unknown]);
    assert_eq!(ask(&service, permits(&offer, NONCE)).await.status(), 503);
    stall.lease_runs_out();
    let other = ask(&service, permits_for(r#"{"query":"everything"}"#, &offer, NONCE)).await;
    assert_eq!((other.status().as_u16(), &other.headers()["x402-error"]), (503, &"outcome_unknown".parse().unwrap()));
    assert_eq!(counter.runs(), 1, "it is not even made");
    let answer = ask(&service, permits(&offer, NONCE)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).amount), (200, Some(units(5))));
}

/// The permit is used, and nothing tells by what: no bill, no second settlement.
#[tokio::test(start_paused = true)]
async fn a_permit_that_is_used_by_nothing_that_is_known_is_left_to_people() {
    let stall = open().await;
    let counter = Counter::default();
    let service =
        layered(&layer(&stall), answering(counter.clone(), |_: &Request<RequestBody<Body>>| Response::default()));
    let offer = offered(&service).await;
    stall.shop.chain.cancel(PERMIT2, payer(), NONCE);
    for _ in 0..2 {
        let answer = ask(&service, permits(&offer, NONCE)).await;
        let problem = assert_problem(answer, 503, "outcome_unknown").await;
        assert!(problem["detail"].as_str().unwrap().contains("used"), "{problem}");
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}

/// The handler knows how much it may charge.
#[tokio::test(start_paused = true)]
async fn a_receipt_tells_the_maximum() {
    let stall = open().await;
    let handler = answering(Counter::default(), |request: &Request<RequestBody<Body>>| {
        let receipt = request.extensions().get::<Receipt>().unwrap();
        assert_eq!((receipt.maximum(), receipt.transaction()), (Some(units(MAXIMUM)), None));
        Response::default()
    });
    let service = layered(&layer(&stall), handler);
    let offer = offered(&service).await;
    assert_eq!(ask(&service, permits(&offer, NONCE)).await.status(), 200);
}

/// A settler that settles several permits in one transaction leaves untold which is which: what it names then counts for a permit that is
/// used, and for no other.
#[tokio::test(start_paused = true)]
async fn what_another_permit_paid_is_not_taken_for_this_one() {
    let stall = open().await;
    let service = layered(&layer(&stall), saying(Some(5), None));
    let offer = offered(&service).await;
    let transaction = TxHash::new([0xaa; 32]);
    let paid = Transfer::new(offer.network, transaction, 0)
        .with_token(offer.asset)
        .with_payer(payer())
        .with_recipient(offer.pay_to)
        .with_amount(units(5))
        .with_block(1, ChainTime::from_unix(NOW + 1))
        .with_binding(Binding::none().with_permit(ByPermit::Untold));
    stall.shop.chain.mine(transaction, [paid]);
    stall.settler.always(Settling::Claimed(transaction));
    let answer = ask(&service, permits(&offer, NONCE)).await;
    assert_problem(answer, 503, "outcome_unknown").await;
}

/// Before the answer nobody knows its charge.
#[tokio::test(start_paused = true)]
async fn what_is_metered_is_not_settled_first() {
    let stall = open().await;
    let service = layered(&layer(&stall).settle_first(), saying(Some(1_858), None));
    let answer = ask(&service, permits(&offered(&service).await, NONCE)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).amount), (200, Some(units(1_858))));
}
