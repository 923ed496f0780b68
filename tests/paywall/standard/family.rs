//! The client-submitted family: a transfer that its payer sent, shown in the standard's header. Each rule of the guide
//! `payment_proof` has its test here.

use std::time::Duration;

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, Response, header};
use serde_json::{Value, json};
use tower_x402::{
    BuildError, Merchant, MerchantBuilder, Price, Receipt, Redelivery, RequestBody, X402,
    ledger::MemoryLedger,
    protocol::{
        Address, Asset, Binding, ChainTime, Network, PaymentTag, ProvedBy, SealingKeys, Transfer, TxHash,
        headers::{PAYMENT_REQUIRED, PAYMENT_SIGNATURE},
        redemption_message,
        v2::{PaymentFlow, PaymentPayload, PaymentRequirements, TransferMethod},
    },
    testing::{ScriptedSettler, ScriptedVerifier, scripted_signature},
};

use super::{Stall, by_hash, intent, paid, pays, required, requirements, settled, units};
use crate::support::faults::settle;
use crate::support::{
    Answer, Counter, Handler, NOW, Shop, answering, ask, assert_problem, echo, fresh_intent, hanging, intent_of,
    layered, payer, post, read, recipient, with_status,
};

const SECRET: &str = "a-secret-of-the-payer";
const THIEF: Address = Address::new([0xee; 20]);

/// A seller who takes transfers in the standard's header, and holds none that is unbound.
async fn shop() -> Shop {
    shop_with(|builder| builder).await
}

async fn shop_with(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Shop {
    Shop::open_with(|builder| set(builder.accept_submitted_transfers())).await
}

/// The entry of the family in a quote.
fn entry(quote: &Answer) -> PaymentRequirements {
    let required = required(quote);
    let mut entries = required.accepts.iter().filter_map(|option| option.exact());
    entries.find(|entry| entry.transfer_method() == TransferMethod::TxId).unwrap().clone()
}

async fn offered<S: Handler>(service: &X402<S>) -> PaymentRequirements {
    entry(&ask(service, post(r#"{"query":"why"}"#)).await)
}

fn transfer(binding: Binding) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([0; 32]), 0)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(units(490_000))
        .with_block(7, ChainTime::from_unix(NOW))
        .with_binding(binding)
}

fn tagged(secret: &str) -> Binding {
    Binding::none().with_call_data([&[0; 68][..], &PaymentTag::of(secret).to_call_data()].concat())
}

fn by_nonce(secret: &str) -> Binding {
    Binding::none().with_nonce(*PaymentTag::of(secret).as_bytes())
}

/// A transaction's hash has letters, so that its case can be told.
fn tx(byte: u8) -> TxHash {
    let mut hash = [0xfa; 32];
    hash[0] = byte;
    TxHash::new(hash)
}

/// Mines the transfer that the entry asks for, bound to its intent.
fn pay(shop: &Shop, offer: &PaymentRequirements, byte: u8) -> TxHash {
    shop.chain.mine(tx(byte), [transfer(tagged(&intent(offer)))]);
    tx(byte)
}

/// The request again, with this in its header.
pub fn showing(message: &Value) -> Request<Body> {
    use base64::Engine as _;
    let header = base64::engine::general_purpose::STANDARD.encode(message.to_string());
    let mut request = post(r#"{"query":"why"}"#);
    request.headers_mut().insert(PAYMENT_SIGNATURE, header.parse().unwrap());
    request
}

/// What an honest client sends, with more members in the payload.
fn message(offer: &PaymentRequirements, transaction: TxHash, more: Value) -> Value {
    let mut payload = json!({ "type": "payment-proof", "txRef": transaction.to_string() });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "x402Version": 2, "accepted": offer, "payload": payload })
}

fn shown(offer: &PaymentRequirements, transaction: TxHash) -> Request<Body> {
    showing(&message(offer, transaction, json!({})))
}

fn shown_with(offer: &PaymentRequirements, transaction: TxHash, more: Value) -> Request<Body> {
    showing(&message(offer, transaction, more))
}

fn signed(by: Address, offer: &PaymentRequirements, transaction: TxHash) -> Value {
    let message = redemption_message(Network::BASE, transaction, &offer.intent().unwrap().unwrap());
    json!({ "paymentSignature": scripted_signature(by, &message).to_string() })
}

/// A service that says how its payment was proved.
fn proving() -> impl Handler {
    answering(Counter::default(), |request: &Request<RequestBody<Body>>| {
        let receipt = request.extensions().get::<Receipt>().unwrap();
        Response::new(Body::from(format!("{:?}", receipt.proved_by())))
    })
}

fn header_bytes(answer: &Answer) -> usize {
    answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

#[tokio::test]
async fn the_requirements_declare_method_flow_binding_and_age() {
    let another = Asset::new(Network::BASE, Address::new([9; 20]), 6, "OTHER");
    let shop = shop_with(|builder| {
        let builder = builder.asset(Asset::USDC_BASE).asset(another);
        builder.quote_ttl(Duration::from_secs(1_800)).max_payment_age(Duration::from_secs(7_200))
    })
    .await;
    let quote = ask(&layered(&shop.layer(), echo(Counter::default())), post("{}")).await;
    let required = required(&quote);
    let entries: Vec<_> = required.accepts.iter().map(|option| option.exact().unwrap()).collect();
    assert_eq!([entries[0].asset, entries[1].asset], [Asset::USDC_BASE.contract(), Address::new([9; 20])]);
    for entry in entries {
        assert_eq!((entry.transfer_method(), entry.payment_flow()), (TransferMethod::TxId, PaymentFlow::Upfront));
        assert_eq!((entry.amount, entry.pay_to, entry.max_timeout_seconds), (units(490_000), recipient(), 1_800));
        assert_eq!(entry.extra.get("binding"), Some(&json!(["tag", "nonce", "signature"])));
        assert_eq!(entry.extra.get("maxProofAge"), Some(&json!(7_200)));
        assert_eq!(intent(entry), intent_of(&quote));
    }
}

#[tokio::test]
async fn headers_stay_within_what_platforms_pass_on() {
    for known in [1, 2, 9] {
        let tokens = (1..known).map(|byte| Asset::new(Network::BASE, Address::new([byte; 20]), 6, "USDC"));
        let stall = Stall::open_with(|b| {
            tokens.fold(b.accept_submitted_transfers().asset(Asset::USDC_BASE), |b, t| b.asset(t))
        })
        .await;
        for letter in ["ü", "l"] {
            let layer = stall.shop.merchant.charge(letter, "0.49 USDC").unwrap().label(&letter.repeat(100)).unwrap();
            let service = layered(&layer, echo(Counter::default()));
            let request = Request::post(format!("/{}", "p".repeat(3_000))).header(header::HOST, "h".repeat(300));
            let answer = ask(&service, request.body(Body::empty()).unwrap()).await;
            let bytes = header_bytes(&answer);
            assert!(answer.status() == 402 && bytes <= 2_900, "{known}: {bytes}");
            // What official clients know comes first, and stays.
            assert_eq!(requirements(&answer).transfer_method(), TransferMethod::Eip3009, "{known}");
            let is_common = known == 1 && letter.is_ascii();
            assert!(!is_common || entry(&answer).asset == Asset::USDC_BASE.contract());
        }
    }
}

#[tokio::test]
async fn each_binding_buys_one_answer() {
    let shop = shop_with(|builder| builder.hold_unbound(Duration::from_secs(5))).await;
    let service = layered(&shop.layer(), proving());
    let mut byte = 0;
    for (bind, proved_by) in [(tagged as fn(&str) -> Binding, ProvedBy::Tag), (by_nonce, ProvedBy::Nonce)] {
        // To the intent, or to a secret of the payer's own.
        for own in [false, true] {
            byte += 1;
            let offer = offered(&service).await;
            let secret = if own { SECRET.to_owned() } else { intent(&offer) };
            shop.chain.mine(tx(byte), [transfer(bind(&secret))]);
            let more = if own { json!({ "paymentSecret": SECRET }) } else { json!({}) };
            let answer = ask(&service, shown_with(&offer, tx(byte), more.clone())).await;
            let told = settled(&answer);
            assert_eq!((told.success, told.transaction, told.payer), (true, Some(tx(byte)), Some(payer())));
            assert_eq!(told.network, Some(Network::BASE));
            assert_eq!(answer.headers()["cache-control"], "private, no-store");
            assert_eq!(read(answer).await, (http::StatusCode::OK, format!("{proved_by:?}").into()));
            assert_problem(ask(&service, shown_with(&offer, tx(byte), more)).await, 409, "already_consumed").await;
        }
    }
    let offer = offered(&service).await;
    shop.chain.mine(tx(9), [transfer(Binding::none())]);
    let answer = ask(&service, shown_with(&offer, tx(9), signed(payer(), &offer, tx(9)))).await;
    assert_eq!(read(answer).await.1, "Signature");
}

#[tokio::test]
async fn an_unbound_transfer_is_refused_whatever_the_hold() {
    for hold in [0, 5] {
        let shop = shop_with(|builder| builder.hold_unbound(Duration::from_secs(hold))).await;
        let counter = Counter::default();
        let service = layered(&shop.layer(), echo(counter.clone()));
        let offer = offered(&service).await;
        shop.chain.mine(tx(1), [transfer(Binding::none())]);
        shop.chain.set_head(ChainTime::from_unix(NOW + 60));
        for more in [json!({}), json!({ "paymentSecret": SECRET })] {
            let refused = ask(&service, shown_with(&offer, tx(1), more)).await;
            let body = assert_problem(refused, 403, "payer_proof_required").await;
            let message = redemption_message(Network::BASE, tx(1), &offer.intent().unwrap().unwrap());
            assert_eq!(body["message"], message.as_str());
        }
        assert_eq!((counter.runs(), shop.ledger.counts().unwrap().reserved), (0, 0));
        // In our own header it is whose it was.
        assert_eq!(ask(&service, by_hash(&intent(&offer), tx(1))).await.status(), 200);
    }
}

#[tokio::test]
async fn what_is_public_buys_a_stranger_nothing() {
    let shop = shop().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    let (own, thief) = (offered(&service).await, offered(&service).await);
    let transaction = pay(&shop, &own, 1);
    for more in [json!({}), json!({ "paymentSecret": "what-a-thief-made-up" })] {
        let refused = ask(&service, shown_with(&thief, transaction, more)).await;
        assert_problem(refused, 403, "payer_proof_required").await;
    }
    // Neither a signature of his own, nor the payer's over another intent.
    for forged in [signed(THIEF, &thief, transaction), signed(payer(), &own, transaction)] {
        let refused = ask(&service, shown_with(&thief, transaction, forged)).await;
        assert_problem(refused, 403, "invalid_signature").await;
    }
    assert_eq!((counter.runs(), shop.ledger.counts().unwrap().reserved), (0, 0));
    assert_eq!(ask(&service, shown(&own, transaction)).await.status(), 200);
}

#[tokio::test]
async fn five_at_once_run_the_handler_once() {
    let shop = shop().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let transaction = pay(&shop, &offer, 1);
    shop.chain.delay(Duration::from_millis(5));
    // At both doors.
    let answers = join_all((0..10).map(|number| match number % 2 {
        0 => ask(&service, shown(&offer, transaction)),
        _ => ask(&service, by_hash(&intent(&offer), transaction)),
    }))
    .await;
    let sold = answers.iter().filter(|answer| answer.status() == 200).count();
    assert_eq!((sold, counter.runs()), (1, 1));
    for answer in answers.iter().filter(|answer| answer.status() != 200) {
        let code = answer.headers()["x402-error"].to_str().unwrap();
        assert!(["redemption_in_progress", "already_consumed"].contains(&code), "{code}");
    }
}

/// The key is chain, transaction and the transfer's place in it, or the authorization, however it is written and shown.
#[tokio::test]
async fn one_transfer_buys_one_answer_at_whichever_door() {
    let stall = Stall::open_with(MerchantBuilder::accept_submitted_transfers).await;
    let (shop, counter) = (&stall.shop, Counter::default());
    let service = layered(&shop.layer(), echo(counter.clone()));
    let secret = json!({ "paymentSecret": SECRET });
    let in_our_header = |offer: &PaymentRequirements, transaction: TxHash| {
        let mut request = by_hash(&intent(offer), transaction);
        let proof = json!({ "intentId": intent(offer), "txHash": transaction.to_string(), "paymentSecret": SECRET });
        request.headers_mut().insert("x402-payment", proof.to_string().parse().unwrap());
        request
    };
    shop.chain.mine(tx(1), [transfer(tagged(SECRET))]);
    assert_eq!(ask(&service, shown_with(&offered(&service).await, tx(1), secret.clone())).await.status(), 200);
    // Written in other digits, it is the same.
    let mut upper = message(&offered(&service).await, tx(1), secret.clone());
    upper["payload"]["txRef"] = format!("0x{}", tx(1).to_string()[2..].to_uppercase()).into();
    assert_problem(ask(&service, showing(&upper)).await, 409, "tx_already_used").await;
    assert_problem(ask(&service, in_our_header(&offered(&service).await, tx(1))).await, 409, "tx_already_used").await;
    // The other way round.
    shop.chain.mine(tx(2), [transfer(tagged(SECRET))]);
    assert_eq!(ask(&service, in_our_header(&offered(&service).await, tx(2))).await.status(), 200);
    let again = ask(&service, shown_with(&offered(&service).await, tx(2), secret.clone())).await;
    assert_problem(again, 409, "tx_already_used").await;
    // What a settler settled and sold is no transfer to be shown, not even by its payer.
    let sold = ask(&service, paid(&pays(&super::offered(&service).await))).await;
    let transaction = settled(&sold).transaction.unwrap();
    let offer = offered(&service).await;
    let again = ask(&service, shown_with(&offer, transaction, signed(payer(), &offer, transaction))).await;
    assert_problem(again, 409, "tx_already_used").await;
    assert_eq!(counter.runs(), 3);
}

#[tokio::test]
async fn a_proof_counts_for_its_declared_age_and_is_remembered_as_long() {
    let age = 600;
    let shop = shop_with(|b| b.max_payment_age(Duration::from_secs(age)).quote_ttl(Duration::from_secs(3_600))).await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (sold, unsold) = (offered(&service).await, offered(&service).await);
    assert_eq!(sold.extra.get("maxProofAge"), Some(&json!(age)));
    let (first, second) = (pay(&shop, &sold, 1), pay(&shop, &unsold, 2));
    assert_eq!(ask(&service, shown(&sold, first)).await.status(), 200);
    let at = |time: u64| {
        shop.chain.set_head(ChainTime::from_unix(time));
        shop.clock.set_unix(time);
    };
    at(NOW + age);
    let secret = json!({ "paymentSecret": intent(&sold) });
    let again = ask(&service, shown_with(&offered(&service).await, first, secret.clone())).await;
    assert_problem(again, 409, "tx_already_used").await;
    assert_problem(ask(&service, shown(&sold, first)).await, 409, "already_consumed").await;
    at(NOW + age + 1);
    assert_problem(ask(&service, shown(&unsold, second)).await, 422, "payment_too_old").await;
    let again = ask(&service, shown_with(&offered(&service).await, first, secret)).await;
    assert_problem(again, 422, "payment_too_old").await;
}

#[tokio::test]
async fn below_is_refused_and_above_is_taken_whole() {
    let shop = shop().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let of = |amount| transfer(tagged(&intent(&offer))).with_amount(units(amount));
    shop.chain.mine(tx(1), [of(489_999)]);
    let body = assert_problem(ask(&service, shown(&offer, tx(1))).await, 422, "insufficient_amount").await;
    assert_eq!((body["paid"].as_str(), body["required"].as_str()), (Some("489999"), Some("490000")));
    // Nothing is added up.
    let mut second = of(300_000);
    second.position = 1;
    shop.chain.mine(tx(2), [of(300_000), second]);
    assert_problem(ask(&service, shown(&offer, tx(2))).await, 422, "insufficient_amount").await;
    assert_eq!(counter.runs(), 0);
    shop.chain.mine(tx(3), [of(1_000_000)]);
    let answer = ask(&service, shown(&offer, tx(3))).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).amount), (200, Some(units(1_000_000))));
}

#[tokio::test]
async fn a_failed_resource_consumes_nothing_and_the_proof_stays_good() {
    let shop = shop().await;
    let counter = Counter::default();
    let failing = answering(counter.clone(), {
        let counter = counter.clone();
        move |_| with_status(if counter.runs() < 3 { 500 } else { 200 })
    });
    let service = layered(&shop.layer(), failing);
    let offer = offered(&service).await;
    let transaction = pay(&shop, &offer, 1);
    for _ in 0..2 {
        let answer = ask(&service, shown(&offer, transaction)).await;
        assert!(answer.status() == 500 && !answer.headers().contains_key("payment-response"));
        assert_eq!(shop.ledger.counts().unwrap().held, 0);
    }
    let answer = ask(&service, shown(&offer, transaction)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).transaction), (200, Some(transaction)));
}

#[tokio::test]
async fn what_is_not_final_is_named_and_nothing_is_claimed() {
    let shop = shop().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    // Unknown, mined ahead of the head, and gone again by a reorganisation.
    let later = transfer(tagged(&intent(&offer))).with_block(8, ChainTime::from_unix(NOW + 2));
    for step in 0..3 {
        match step {
            1 => shop.chain.mine(tx(1), [later.clone()]),
            _ => shop.chain.forget(tx(1)),
        }
        let refused = ask(&service, shown(&offer, tx(1))).await;
        assert!(refused.headers().contains_key("retry-after"), "{step}");
        assert_problem(refused, 409, "tx_not_confirmed").await;
        assert_eq!((counter.runs(), shop.ledger.counts().unwrap().reserved), (0, 0), "{step}");
    }
    shop.chain.mine(tx(1), [later]);
    shop.chain.set_head(ChainTime::from_unix(NOW + 2));
    assert_eq!(ask(&service, shown(&offer, tx(1))).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_redemption_leaves_no_claim() {
    let shop = shop().await;
    let counter = Counter::default();
    let hung = layered(&shop.layer(), hanging(counter.clone()));
    let offer = offered(&hung).await;
    let transaction = pay(&shop, &offer, 1);
    let left = tokio::time::timeout(Duration::from_secs(1), ask(&hung, shown(&offer, transaction))).await;
    assert!(left.is_err() && counter.runs() == 1);
    settle().await;
    let service = layered(&shop.layer(), echo(counter.clone()));
    assert_eq!(ask(&service, shown(&offer, transaction)).await.status(), 200);
}

/// A process that dies says nothing to the ledger any more: its claim ends by itself.
#[tokio::test(start_paused = true)]
async fn a_claim_ends_by_itself_after_a_crash() {
    let shop = shop().await;
    let counter = Counter::default();
    let hung = layered(&shop.layer(), hanging(counter.clone()));
    let service = layered(&shop.layer(), echo(counter.clone()));
    let offer = offered(&hung).await;
    let transaction = pay(&shop, &offer, 1);
    let dying = tokio::spawn({
        let request = shown(&offer, transaction);
        async move { ask(&hung, request).await.status() }
    });
    while counter.runs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_problem(ask(&service, shown(&offer, transaction)).await, 409, "redemption_in_progress").await;
    // Nothing is released, and nothing renewed.
    shop.clock.advance(Duration::from_secs(61));
    assert_eq!(ask(&service, shown(&offer, transaction)).await.status(), 200);
    dying.abort();
}

/// A quote is for one resource, and where it binds them for one request.
#[tokio::test]
async fn a_proof_is_good_for_what_was_quoted_alone() {
    let shop = shop().await;
    let by_length = shop.merchant.price_with("by-length", |_, body| Price::Charge(units(body.len() as u128)));
    let priced = layered(&by_length.unwrap(), echo(Counter::default()));
    let other = layered(&shop.merchant.charge("other", "0.49 USDC").unwrap(), echo(Counter::default()));
    let offer = entry(&ask(&priced, post("{}")).await);
    assert_eq!(offer.amount, units(2));
    shop.chain.mine(tx(1), [transfer(tagged(&intent(&offer))).with_amount(units(15))]);
    assert_problem(ask(&other, shown(&offer, tx(1))).await, 404, "intent_not_found").await;
    // A dearer request than the one that was quoted. The price of this one was paid, too, as it happens.
    let fresh = fresh_intent(ask(&priced, shown(&offer, tx(1))).await, 404, "intent_not_found").await;
    let mut renewed = message(&offer, tx(1), json!({ "paymentSecret": intent(&offer) }));
    renewed["accepted"]["extra"]["intentId"] = fresh.into();
    renewed["accepted"]["amount"] = "15".into();
    assert_eq!(ask(&priced, showing(&renewed)).await.status(), 200);
}

type Spoil = fn(&mut Value);

const SPOILT: &[(&str, u16, &str, Spoil)] = &[
    ("another network", 404, "intent_not_found", |m| m["accepted"]["network"] = "eip155:84532".into()),
    ("another token", 404, "intent_not_found", |m| {
        m["accepted"]["asset"] = "0x0000000000000000000000000000000000000000".into();
    }),
    ("another recipient", 404, "intent_not_found", |m| {
        m["accepted"]["payTo"] = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".into();
    }),
    ("less", 404, "intent_not_found", |m| m["accepted"]["amount"] = "489999".into()),
    ("more", 404, "intent_not_found", |m| m["accepted"]["amount"] = "490001".into()),
    ("an unknown intent", 404, "intent_not_found", |m| m["accepted"]["extra"]["intentId"] = "AUbX-9_k".into()),
    ("another flow", 404, "intent_not_found", |m| m["accepted"]["extra"]["paymentFlow"] = "escrow".into()),
    ("no flow", 404, "intent_not_found", |m| {
        drop(m["accepted"]["extra"].as_object_mut().unwrap().remove("paymentFlow"))
    }),
    ("no binding", 404, "intent_not_found", |m| m["accepted"]["extra"]["binding"] = Value::Null),
    ("no intent", 400, "intent_required", |m| m["accepted"]["extra"]["intentId"] = Value::Null),
    ("an intent that is none", 400, "invalid_redemption", |m| m["accepted"]["extra"]["intentId"] = 7.into()),
    ("no method", 400, "invalid_redemption", |m| m["accepted"]["extra"]["assetTransferMethod"] = Value::Null),
    ("another method", 400, "invalid_redemption", |m| m["accepted"]["extra"]["assetTransferMethod"] = "bolt11".into()),
    ("another scheme", 400, "invalid_redemption", |m| m["accepted"]["scheme"] = "upto".into()),
    ("an entry to sign a permit for", 400, "invalid_redemption", |m| {
        m["accepted"]["extra"]["assetTransferMethod"] = "permit2".into();
    }),
    ("an entry of a metered answer", 400, "invalid_redemption", |m| {
        m["accepted"]["scheme"] = "upto".into();
        m["accepted"]["extra"]["assetTransferMethod"] = "permit2".into();
    }),
    ("an entry of channels", 400, "invalid_redemption", |m| {
        m["accepted"]["scheme"] = "batch-settlement".into();
        m["accepted"]["extra"]["assetTransferMethod"] = "eip3009".into();
    }),
    ("another kind of chain", 400, "invalid_redemption", |m| m["accepted"]["network"] = "solana:x".into()),
    ("another type", 400, "invalid_redemption", |m| m["payload"]["type"] = "receipt".into()),
    ("no type", 400, "invalid_redemption", |m| m["payload"]["type"] = Value::Null),
    ("no transaction", 400, "invalid_redemption", |m| m["payload"]["txRef"] = Value::Null),
    ("half a transaction", 400, "invalid_redemption", |m| m["payload"]["txRef"] = "0xabab".into()),
    ("a secret that is none", 400, "invalid_redemption", |m| m["payload"]["paymentSecret"] = "short".into()),
    ("a signature that is none", 400, "invalid_redemption", |m| m["payload"]["paymentSignature"] = "0x".into()),
    ("an empty payload", 400, "invalid_redemption", |m| m["payload"] = json!({})),
];

/// Whoever may have sent a transfer is never asked for another.
#[tokio::test]
async fn what_does_not_echo_is_refused_and_never_billed() {
    let accepting = MerchantBuilder::accept_submitted_transfers;
    for stall in [Stall::open_with(accepting).await, Stall::open_with_permits_and(accepting).await] {
        never_billed(&stall).await;
    }
}

async fn never_billed(stall: &Stall) {
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    for (byte, (name, status, code, spoil)) in (1..).zip(SPOILT) {
        let offer = offered(&service).await;
        let transaction = pay(&stall.shop, &offer, byte);
        let mut spoilt = message(&offer, transaction, json!({}));
        spoil(&mut spoilt);
        let answer = ask(&service, showing(&spoilt)).await;
        assert_eq!(answer.headers()["x402-error"], *code, "{name}");
        assert!(!answer.headers().contains_key(PAYMENT_REQUIRED), "{name}");
        if ["intent_not_found", "intent_required"].contains(code) {
            let mut fresh = message(&offer, transaction, json!({ "paymentSecret": intent(&offer) }));
            fresh["accepted"]["extra"]["intentId"] = fresh_intent(answer, *status, code).await.into();
            assert_eq!(ask(&service, showing(&fresh)).await.status(), 200, "{name}");
        } else {
            assert_problem(answer, *status, code).await;
            assert_eq!(ask(&service, shown(&offer, transaction)).await.status(), 200, "{name}");
        }
        assert_eq!(counter.runs(), usize::from(byte), "{name}");
    }
    assert_eq!(stall.settler.verifications(), 0);
}

/// How long a quote can be paid and how long a proof counts are told, and may be changed; what was paid for stays so.
#[tokio::test]
async fn a_change_of_settings_costs_no_payer_his_payment() {
    let shop = shop().await;
    let present = Address::new([0x0f; 20]);
    let before = shop
        .sibling(|builder| {
            let builder = builder.accept_submitted_transfers().asset(Asset::USDC_BASE);
            builder.quote_ttl(Duration::from_secs(60)).max_payment_age(Duration::from_secs(3_600))
        })
        .await;
    let now = shop
        .sibling(|builder| {
            let other = Asset::new(Network::BASE, present, 6, "USDC");
            builder.accept_submitted_transfers().asset(other).former_asset(Asset::USDC_BASE)
        })
        .await;
    let offer = offered(&layered(&before.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()))).await;
    let service = layered(&now.charge("answer", "0.60 USDC").unwrap(), echo(Counter::default()));
    assert_eq!(offered(&service).await.asset, present);
    // At the former price, in the former token.
    assert_eq!(ask(&service, shown(&offer, pay(&shop, &offer, 1))).await.status(), 200);
}

#[tokio::test]
async fn a_sold_answer_is_delivered_again() {
    let shop = shop().await;
    let counter = Counter::default();
    let layer = shop.merchant.price_with("kept", |_, _| Price::Charge(units(490_000))).unwrap();
    let layer = layer.redeliver(Redelivery::lasting(Duration::from_secs(900)));
    let service = layered(&layer, echo(counter.clone()));
    let offer = offered(&service).await;
    let transaction = pay(&shop, &offer, 1);
    let first = ask(&service, shown(&offer, transaction)).await;
    let told = settled(&first);
    let sold = read(first).await;
    // Whatever becomes of node and body: one that is too long for a price to be made of it is none of a sold answer's business.
    let mut long = shown(&offer, transaction);
    *long.body_mut() = Body::from(vec![b' '; 70 * 1024]);
    shop.chain.outage(tower_x402::verify::VerifyError::unavailable());
    for again in [shown(&offer, transaction), long, by_hash(&intent(&offer), transaction)] {
        let again = ask(&service, again).await;
        assert_eq!(again.headers()["idempotent-replayed"], "true");
        assert_eq!((settled(&again), read(again).await), (told.clone(), sold.clone()));
    }
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn without_the_setting_it_is_neither_offered_nor_taken() {
    let (with, without) = (Stall::open_with(MerchantBuilder::accept_submitted_transfers).await, Stall::open().await);
    let offer = offered(&layered(&with.shop.layer(), echo(Counter::default()))).await;
    let counter = Counter::default();
    let service = layered(&without.shop.layer(), echo(counter.clone()));
    let quote = ask(&service, post("{}")).await;
    assert_eq!((required(&quote).accepts.len(), requirements(&quote).transfer_method()), (1, TransferMethod::Eip3009));
    let transaction = pay(&without.shop, &offer, 1);
    let body = assert_problem(ask(&service, shown(&offer, transaction)).await, 400, "invalid_redemption").await;
    assert!(body["detail"].as_str().unwrap().contains("x402-payment"), "{body}");
    assert_eq!(counter.runs(), 0);
    // There it is good.
    assert_eq!(ask(&service, by_hash(&intent(&offer), transaction)).await.status(), 200);
}

#[tokio::test]
async fn without_a_settler_it_is_all_that_is_offered() {
    let shop = shop().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post("{}")).await;
    assert_eq!(required(&quote).accepts.len(), 1);
    assert!(quote.headers().contains_key("pay"));
    let offer = entry(&quote);
    let signed = PaymentPayload::from_json(pays(&offer).to_json()).unwrap();
    assert_problem(ask(&service, paid(&signed)).await, 400, "invalid_redemption").await;
    assert_eq!(ask(&service, shown(&offer, pay(&shop, &offer, 1))).await.status(), 200);
}

/// Transfers do not wait for a settler that is down.
#[tokio::test]
async fn it_is_offered_while_the_settler_is_down() {
    let mut settler = None;
    let shop = Shop::open_on(|builder, chain| {
        let scripted = ScriptedSettler::new(chain.clone());
        scripted.outage(tower_x402::settle::SettleError::unavailable());
        settler = Some(scripted.clone());
        builder.settler(scripted).accept_submitted_transfers()
    })
    .await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let offer = requirements(&ask(&service, post("{}")).await);
    assert_eq!(offer.transfer_method(), TransferMethod::TxId);
    assert_eq!(ask(&service, shown(&offer, pay(&shop, &offer, 1))).await.status(), 200);
    settler.unwrap().outage(None);
    shop.clock.advance(Duration::from_secs(6));
    ask(&service, post("{}")).await;
    tokio::task::yield_now().await;
    let quote = ask(&service, post("{}")).await;
    assert_eq!((required(&quote).accepts.len(), requirements(&quote).transfer_method()), (2, TransferMethod::Eip3009));
}

#[tokio::test]
async fn it_needs_what_reads_the_chain() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
    let builder = || {
        Merchant::builder(recipient())
            .settler(ScriptedSettler::new(chain.clone()))
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::new([7; 32]))
    };
    let refused = builder().accept_submitted_transfers().build().await;
    assert!(matches!(&refused, Err(BuildError::NoVerifierForTransfers)), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains(".verifier("));
    let merchant = builder().build().await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    let offer = super::offered(&service).await.with_client_submitted_transfer();
    let body = assert_problem(ask(&service, shown(&offer, tx(1))).await, 400, "invalid_redemption").await;
    assert!(body["detail"].as_str().unwrap().contains("signed payments only"), "{body}");
}
