//! gRPC: a failure is HTTP 200 there, and must not be sold; a refusal has no body to be read.

use axum::body::Body;
use http::{HeaderValue, Request, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tower_x402::{
    Consumption, X402,
    protocol::{ProblemCode, Quote, RetryRule, TxHash},
    verify::VerifyError,
};

use crate::{
    support::faults::{Fault, Op},
    support::{
        Answer, Counter, Handler, Shop, answering, ask, assert_problem, echo, hanging, intent_of, layered, proof,
        quoted, redemption, status, with_status,
    },
};

/// A unary call: one message in its frame.
fn call(content_type: &str) -> Request<Body> {
    Request::post("/shop.Answers/Get")
        .header(header::CONTENT_TYPE, content_type)
        .header("te", "trailers")
        .body(Body::from(&b"\0\0\0\0\x02{}"[..]))
        .unwrap()
}

fn paid(content_type: &str, intent: &str, tx: TxHash) -> Request<Body> {
    let mut request = call(content_type);
    request.headers_mut().insert("x402-payment", proof(intent, tx).parse().unwrap());
    request
}

async fn called<S: Handler>(service: &X402<S>) -> String {
    let quote = ask(service, call("application/grpc")).await;
    let intent = intent_of(&quote);
    assert_told(quote, "application/grpc", ProblemCode::PaymentRequired).await;
    intent
}

/// All of it in the head, as gRPC calls an answer of trailers only.
async fn assert_told(answer: Answer, content_type: &str, code: ProblemCode) {
    let headers = answer.headers();
    let status = if code.retry() == RetryRule::AskAgain { "14" } else { "9" };
    assert_eq!(answer.status(), 200, "{code}");
    assert_eq!(headers["content-type"], content_type);
    assert_eq!(headers["grpc-status"], status, "{code}");
    assert_eq!(headers["grpc-message"], code.as_str());
    assert_eq!(headers["x402-error"], code.as_str());
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers.contains_key("pay"), code == ProblemCode::PaymentRequired, "{code}");
    assert!(!headers.contains_key("content-length"));
    assert!(answer.body().is_end_stream(), "the head ends it");
    let body = answer.into_body().collect().await.unwrap();
    assert!(body.trailers().is_none() && body.to_bytes().is_empty());
}

/// A handler that answers 200 with these statuses of gRPC in its headers.
fn speaking(statuses: &'static [&'static str]) -> impl Handler {
    answering(Counter::default(), move |_| {
        let mut response = with_status(200);
        for status in statuses {
            response.headers_mut().append("grpc-status", HeaderValue::from_static(status));
        }
        response
    })
}

async fn is_sold<S: Handler>(shop: &Shop, service: &X402<S>) -> bool {
    let (intent, tx) = (called(service).await, shop.pay(490_000));
    let answer = ask(service, paid("application/grpc", &intent, tx)).await;
    assert_eq!(answer.status(), 200);
    let sold = answer.headers().contains_key("payment-response");
    // What was not sold can be asked for again with the same pair, and what was cannot.
    let again = ask(service, paid("application/grpc", &intent, tx)).await;
    assert_eq!(again.headers().get("x402-error").is_some_and(|code| code == "already_consumed"), sold);
    sold
}

#[tokio::test]
async fn a_failure_in_the_headers_is_not_sold() {
    let shop = Shop::open().await;
    let cases: [(&'static [&'static str], bool); 8] = [
        (&[], true),
        (&["0"], true),
        (&["5"], false),
        (&["13"], false),
        (&["16"], false),
        (&[""], false),
        (&["0", "13"], false),
        (&["zero"], false),
    ];
    for (statuses, sold) in cases {
        assert_eq!(is_sold(&shop, &layered(&shop.layer(), speaking(statuses))).await, sold, "{statuses:?}");
    }
}

/// The seller's own rule and the handler's own word are theirs.
#[tokio::test]
async fn a_failure_is_sold_by_name_only() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when(|status, _| status.is_success());
    assert!(is_sold(&shop, &layered(&layer, speaking(&["5"]))).await);
    let service = answering(Counter::default(), |_| {
        let mut response = with_status(200);
        response.headers_mut().insert("grpc-status", HeaderValue::from_static("5"));
        response.extensions_mut().insert(Consumption::Consume);
        response
    });
    assert!(is_sold(&shop, &layered(&shop.layer(), service)).await);
}

/// The whole quote stands in the headers of what a client of gRPC reads as its status.
#[tokio::test]
async fn a_quote_is_a_status() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    for (content_type, answer) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("application/grpc+json", "application/grpc"),
        ("Application/GRPC; charset=utf-8", "application/grpc"),
        ("application/grpc-web", "application/grpc-web+proto"),
        ("application/grpc-web+proto", "application/grpc-web+proto"),
        ("application/grpc-web-text", "application/grpc-web-text+proto"),
    ] {
        let quote = ask(&service, call(content_type)).await;
        let read = Quote::from_headers(quote.headers()).unwrap();
        assert_eq!(read.recipient, shop.merchant.recipient());
        assert_told(quote, answer, ProblemCode::PaymentRequired).await;
        let sold = ask(&service, paid(content_type, read.intent.as_str(), shop.pay(490_000))).await;
        assert!(sold.headers().contains_key("payment-response") && sold.status() == 200);
    }
    for other in ["application/grpcx", "application/grpc-x", "text/grpc", "grpc"] {
        assert_problem(ask(&service, call(other)).await, 402, "payment_required").await;
    }
}

/// Whatever refuses, and wherever on the way: before the chain, after it, at the ledger, under the lease.
#[tokio::test(start_paused = true)]
async fn every_refusal_is_a_status() {
    use ProblemCode as Code;
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let told = async |request: Request<Body>, code| {
        assert_told(ask(&service, request).await, "application/grpc", code).await;
    };
    let by_header = |value: String| {
        let mut request = call("application/grpc");
        request.headers_mut().insert("x402-payment", value.parse().unwrap());
        request
    };
    let pair = |intent: &str, tx| by_header(proof(intent, tx));
    let intent = called(&service).await;
    told(by_header("nonsense".into()), Code::InvalidRedemption).await;
    told(by_header(format!(r#"{{"intentId":"{intent}"}}"#)), Code::TxRequired).await;
    told(by_header(format!(r#"{{"txHash":"{}"}}"#, shop.pay(1))), Code::IntentRequired).await;
    told(pair("made-up", shop.pay(490_000)), Code::IntentNotFound).await;
    told(pair(&intent, TxHash::new([1; 32])), Code::TxNotConfirmed).await;
    told(pair(&intent, shop.pay(1)), Code::InsufficientAmount).await;
    let tx = shop.pay(490_000);
    shop.chain.outage(VerifyError::unavailable());
    told(pair(&intent, tx), Code::VerificationUnavailable).await;
    shop.chain.outage(None);
    for (question, code) in [(Op::Reserve, Code::LedgerUnavailable), (Op::Commit, Code::OutcomeUnknown)] {
        shop.faults.always(question, Fault::Fail);
        told(pair(&intent, tx), code).await;
        shop.faults.heal();
    }
    let stuck = layered(&shop.layer(), hanging(Counter::default()));
    assert_told(ask(&stuck, pair(&intent, tx)).await, "application/grpc", Code::AnswerTimeout).await;
    let billing = layered(&shop.layer(), status(402));
    assert_told(ask(&billing, pair(&intent, tx)).await, "application/grpc", Code::UpstreamPaymentRequired).await;
    assert!(ask(&service, pair(&intent, tx)).await.headers().contains_key("payment-response"));
    told(pair(&intent, tx), Code::AlreadyConsumed).await;
    told(pair(&called(&service).await, tx), Code::TxAlreadyUsed).await;
}

/// Who shows a proof in a body that calls itself gRPC is still sent no bill.
#[tokio::test]
async fn an_object_under_the_type_of_grpc_is_looked_at() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let mut request = redemption(&quoted(&service).await, shop.pay(490_000));
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc+json"));
    assert!(ask(&service, request).await.headers().contains_key("payment-response"));
}
