//! Tests of the seller alone, with a scripted service, no wallet and no journal.

use std::{convert::Infallible, future::pending};

use http_body_util::{BodyExt as _, Full};
use tower::service_fn;

use super::*;
use crate::{
    client::{Body as RequestBody, ProofIn, dialect::TransferProof, http::CarriedProof},
    protocol::TxHash,
};

type Answer = Response<Full<Bytes>>;

fn request(body: RequestBody) -> ReplayRequest<RequestBody> {
    ReplayRequest::new(Request::post("https://seller.example/x").body(body).unwrap())
}

fn proof() -> CarriedProof {
    TransferProof::plain("intent", TxHash::new([1; 32])).placed(ProofIn::Header)
}

fn bill() -> Answer {
    let pay = r#"{"recipient":"0x0202020202020202020202020202020202020202","chainId":8453,"label":"x","expiry":9,"amount":"490000","decimals":6,"symbol":"USDC"}"#;
    let builder = Response::builder().status(402).header("pay", pay).header("x-price-intent", "intent");
    builder.header("x-payment-contracts", "0x0303030303030303030303030303030303030303").body(Full::default()).unwrap()
}

/// Returns the result of a request without proof to a service with this answer.
async fn offered(answer: fn() -> Answer, body: RequestBody) -> Result<Offered<Full<Bytes>>, Failure> {
    let service = service_fn(move |_: Request<RequestBody>| std::future::ready(Ok::<_, Infallible>(answer())));
    Seller::new(service, request(body)).bill(None, &Budget::nothing(), ChainTime::from_unix(1)).await
}

#[tokio::test]
async fn a_bill_with_a_price_is_a_quote_and_anything_else_an_answer() {
    let Offered::Billed(read, _) = offered(bill, "x".into()).await.unwrap() else { panic!("a bill") };
    let quote = read.transfers[0].quote.clone();
    assert_eq!((quote.amount.to_decimal(6).as_str(), quote.intent.as_str()), ("0.49", "intent"));
    let free = offered(|| Response::new(Full::from("free")), "x".into()).await.unwrap();
    assert!(matches!(free, Offered::Answered(answer) if answer.status() == 200));
    let foreign = || Response::builder().status(402).body(Full::default()).unwrap();
    let foreign = offered(foreign, "x".into()).await.unwrap();
    assert!(matches!(foreign, Offered::Answered(answer) if answer.status() == 402));
}

#[tokio::test]
async fn a_body_that_cannot_be_sent_again_buys_nothing() {
    let once = || RequestBody::once(Full::<Bytes>::from("x"));
    assert!(matches!(offered(bill, once()).await, Err(Failure::NotReplayable)));
    assert!(matches!(offered(|| Response::new(Full::default()), once()).await, Ok(Offered::Answered(_))));
    let seller = Seller::new(service_fn(async |_: Request<RequestBody>| Ok::<_, Infallible>(bill())), request(once()));
    assert!(seller.request().proven(&proof()).is_none());
}

#[tokio::test]
async fn a_proof_travels_beside_the_same_body_and_its_reply_is_judged() {
    let service = service_fn(async |request: Request<RequestBody>| {
        let (parts, body) = request.into_parts();
        let proof = parts.headers["x402-payment"].to_str().unwrap().to_owned();
        assert!(proof.contains(r#""intentId":"intent""#) && proof.contains("0x0101"), "{proof}");
        assert_eq!(body.collect().await.unwrap().to_bytes(), "x");
        let refusal = Response::builder().status(409).header("content-type", "application/problem+json");
        Ok::<_, Infallible>(refusal.body(Full::<Bytes>::from(r#"{"error":"tx_already_used"}"#)).unwrap())
    });
    let mut seller = Seller::new(service, request("x".into()));
    let proven = seller.request().proven(&proof()).unwrap();
    let replied = seller.present(proven, Duration::from_secs(1)).await.unwrap();
    assert!(matches!(replied.reply, SellerReply::Refused(code) if code.as_str() == "tx_already_used"));
    assert!(replied.body.collect().await.unwrap().to_bytes().starts_with(b"{"), "what was read of it is still there");
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_hangs_has_not_replied() {
    let service = service_fn(async |_: Request<RequestBody>| pending::<Result<Answer, Infallible>>().await);
    let mut seller = Seller::new(service, request("x".into()));
    let proven = seller.request().proven(&proof()).unwrap();
    assert!(seller.present(proven, Duration::from_secs(600)).await.is_none());
}
