//! A way to pay that the other modules do not know is offered, sold once, refused and left open like every other.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::{
    Merchant, RequestBody, X402Layer,
    ledger::MemoryLedger,
    protocol::{
        ChainTime, ProblemCode, SealingKeys,
        headers::{PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
        v2::{JsonObject, PaymentPayload, PaymentRequired, PaymentRequirements, SchemePayload, SettleResponse},
    },
    testing::ScriptedVerifier,
};

async fn layer() -> X402Layer {
    let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap())
        .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::random().unwrap())
        .contact("takes scripts")
        .build();
    merchant.await.unwrap().charge("scripted", "0.49 USDC").unwrap()
}

async fn ask(layer: &X402Layer, payment: Option<&PaymentPayload>) -> Response<()> {
    let service = service_fn(async |_: Request<RequestBody<Full<Bytes>>>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"an answer"))))
    });
    let mut request = Request::new(Full::new(Bytes::new()));
    if let Some(payment) = payment {
        request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    }
    layer.layer(service).oneshot(request).await.unwrap().map(drop)
}

async fn quoted(layer: &X402Layer) -> PaymentRequirements {
    let quote = ask(layer, None).await;
    assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED);
    let required = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
    let offered = required.accepts.iter().filter_map(|option| option.exact());
    let mut scripts = offered.filter(|offer| offer.extra.text("assetTransferMethod") == Some("script"));
    scripts.next().unwrap().clone()
}

fn pay(offer: &PaymentRequirements, script: &str, id: u8) -> PaymentPayload {
    let payload = SchemePayload::Other(JsonObject::new().with("script", script).with("id", id));
    PaymentPayload::new(offer.clone(), payload)
}

fn code(answer: &Response<()>) -> Option<ProblemCode> {
    answer.extensions().get().copied()
}

#[tokio::test]
async fn it_is_sold_once() {
    let layer = layer().await;
    let payment = pay(&quoted(&layer).await, "settle", 1);
    let sold = ask(&layer, Some(&payment)).await;
    assert_eq!(sold.status(), StatusCode::OK);
    let told = SettleResponse::from_headers(sold.headers()).unwrap().unwrap();
    assert!(told.success && sold.headers().contains_key(PAYMENT_RESPONSE));
    assert_eq!(code(&ask(&layer, Some(&payment)).await), Some(ProblemCode::AlreadyConsumed));
    // The same payment for another quote.
    let again = pay(&quoted(&layer).await, "settle", 1);
    assert_eq!(code(&ask(&layer, Some(&again)).await), Some(ProblemCode::TxAlreadyUsed));
}

#[tokio::test]
async fn it_is_refused_with_a_new_quote_or_left_open() {
    let layer = layer().await;
    let refused = ask(&layer, Some(&pay(&quoted(&layer).await, "refuse", 2))).await;
    assert_eq!(
        (refused.status(), code(&refused)),
        (StatusCode::PAYMENT_REQUIRED, Some(ProblemCode::AuthorizationRefused))
    );
    assert!(PaymentRequired::from_headers(refused.headers()).unwrap().is_some());
    let open = pay(&quoted(&layer).await, "lose sight", 3);
    assert_eq!(code(&ask(&layer, Some(&open)).await), Some(ProblemCode::OutcomeUnknown));
    // Its lease is left to run out.
    assert_eq!(code(&ask(&layer, Some(&open)).await), Some(ProblemCode::RedemptionInProgress));
}
