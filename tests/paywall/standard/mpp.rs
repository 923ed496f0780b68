//! Clients of MPP, method `evm`, intent `charge`.

use std::convert::Infallible;

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_LENGTH, WWW_AUTHENTICATE},
};
use serde_json::{Value, json};
use tower_x402::{
    BuildError, Mpp, Redelivery, RequestBody,
    protocol::{
        Address, Asset, Binding, ChainTime, Network, Transfer, TxHash,
        headers::{ACCEPT_PAYMENT, PAYMENT_AUTHORIZATION, PAYMENT_RECEIPT, PAYMENT_REQUIRED, PAYMENT_SIGNATURE},
        mpp::challenge_hashes,
        v2::PaymentPayload,
    },
    testing::Settling,
};

use super::{Stall, authorization, paid, requirements, sign, units};
use crate::support::{
    Answer, Counter, Handler, NOW, answering, ask, assert_problem, echo,
    faults::{failed, ok},
    layered, payer, post, recipient,
};

const QUESTION: &str = r#"{"query":"why"}"#;
const REALM: &str = "api.example.com";

async fn stall() -> Stall {
    Stall::open_with(|builder| builder.mpp(REALM)).await
}

/// The challenges of a quote, as objects of their parameters.
fn challenges(answer: &Answer) -> Vec<Value> {
    let parameters = |line: &str| {
        let parameters = line.strip_prefix("Payment ").unwrap().split(", ").map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap();
            (name.to_owned(), Value::from(value.trim_matches('"')))
        });
        Value::Object(parameters.collect())
    };
    answer.headers().get_all(WWW_AUTHENTICATE).iter().map(|line| parameters(line.to_str().unwrap())).collect()
}

async fn challenge(service: &tower_x402::X402<impl Handler>) -> Value {
    challenges(&ask(service, post(QUESTION)).await).remove(0)
}

fn decoded(text: &Value) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text.as_str().unwrap()).unwrap()).unwrap()
}

/// A credential by authorization, with one of the two nonces of its challenge.
fn signed(challenge: &Value, form: usize) -> Value {
    let asked = decoded(&challenge["request"]);
    let nonce = challenge_hashes(challenge["id"].as_str().unwrap(), challenge["realm"].as_str().unwrap())[form];
    json!({
        "challenge": challenge,
        "payload": {
            "type": "authorization", "from": payer(), "to": asked["recipient"], "value": asked["amount"],
            "validAfter": "0", "validBefore": (NOW + 300).to_string(), "nonce": const_hex::encode_prefixed(nonce),
            "signature": format!("0x{}", "11".repeat(65)),
        },
        "source": format!("did:pkh:eip155:8453:{}", payer()),
    })
}

/// A request with a credential for a new challenge.
pub(super) async fn credential(service: &tower_x402::X402<impl Handler>) -> Request<Body> {
    shown(&signed(&challenge(service).await, 1))
}

fn by_hash(challenge: &Value, transaction: TxHash) -> Value {
    json!({ "challenge": challenge, "payload": { "type": "hash", "hash": transaction } })
}

fn token(credential: &Value) -> String {
    format!("Payment {}", URL_SAFE_NO_PAD.encode(credential.to_string()))
}

fn shown(credential: &Value) -> Request<Body> {
    let mut request = post(QUESTION);
    request.headers_mut().insert(AUTHORIZATION, token(credential).parse().unwrap());
    request
}

/// A refusal that asks for no other payment.
async fn refused(answer: Answer, status: u16, code: &str) -> Value {
    let length = answer.headers()[CONTENT_LENGTH].to_str().unwrap().parse::<usize>().unwrap();
    assert_eq!(http_body::Body::size_hint(answer.body()).exact(), Some(length as u64));
    let asks = [WWW_AUTHENTICATE, PAYMENT_REQUIRED, PAYMENT_RECEIPT].map(|name| answer.headers().contains_key(name));
    assert_eq!(asks, [false; 3], "{answer:?}");
    let problem = assert_problem(answer, status, code).await;
    let named = match code {
        "invalid_redemption" => Some("malformed-credential"),
        "payment_bound" => Some("verification-failed"),
        "insufficient_amount" => Some("payment-insufficient"),
        "already_consumed" | "tx_already_used" => Some("invalid-challenge"),
        _ => None,
    };
    // Only clients of MPP are told its names.
    let named = named.map(|name| format!("https://paymentauth.org/problems/{name}"));
    assert!(problem["type"].is_null() || problem["type"].as_str() == named.as_deref(), "{problem}");
    problem
}

#[tokio::test]
async fn a_quote_has_a_challenge_for_each_token() {
    let other = Asset::new(Network::BASE, Address::new([7; 20]), 6, "EURC");
    let stall = Stall::open_with(|builder| builder.mpp(REALM).asset(Asset::USDC_BASE).asset(other.clone())).await;
    let layer = stall
        .shop
        .layer()
        .label("A label that is as long as a label may be, so that little room is left for others")
        .unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let mut request = post(QUESTION);
    request.headers_mut().insert("host", "shop.example".parse().unwrap());
    let answer = ask(&service, request).await;
    let headers = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    assert!(headers < 2900, "{headers}");
    assert!(answer.headers()["access-control-expose-headers"].to_str().unwrap().contains("WWW-Authenticate"));
    let [first, ..] = &challenges(&answer)[..] else { panic!("{answer:?}") };
    let offer = requirements(&answer);
    assert_eq!((&first["id"], &first["realm"]), (&json!(super::intent(&offer)), &json!(REALM)));
    assert_eq!((&first["method"], &first["intent"]), (&json!("evm"), &json!("charge")));
    assert_eq!(
        decoded(&first["request"]),
        json!({
            "amount": "490000", "currency": Asset::USDC_BASE.contract(), "recipient": recipient(),
            "methodDetails": { "chainId": 8453, "credentialTypes": ["authorization", "hash"], "decimals": 6 },
        })
    );
}

/// The names of the draft stand beside those of this crate, and the body is as long as it says.
#[tokio::test]
async fn problems_have_the_names_of_the_draft() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post(QUESTION)).await;
    let (challenge, intent) = (challenges(&quote).remove(0), super::intent(&requirements(&quote)));
    let mut late = signed(&challenge, 0);
    late["payload"]["validBefore"] = json!((NOW + 1).to_string());
    let refused = ask(&service, shown(&late)).await;
    let mut strange = signed(&challenge, 0);
    strange["payload"]["nonce"] = json!(format!("0x{}", "42".repeat(32)));
    let malformed = ask(&service, shown(&strange)).await;
    for (answer, name) in
        [(quote, "payment-required"), (refused, "verification-failed"), (malformed, "malformed-credential")]
    {
        let length = answer.headers()[CONTENT_LENGTH].to_str().unwrap().parse::<usize>().unwrap();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        assert_eq!(body.len(), length);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["type"], format!("https://paymentauth.org/problems/{name}"));
        assert!(name != "payment-required" || body["intentId"] == intent);
    }
}

#[tokio::test]
async fn discovery_has_an_offer_for_each_token() {
    for (stall, offered) in [(stall().await, true), (Stall::open().await, false)] {
        let endpoint = tower_x402::discovery::Endpoint::post("/answer");
        let _layer = stall.shop.layer().label("Answers").unwrap().describe(endpoint).unwrap();
        let openapi = stall.shop.merchant.discovery().openapi("https://shop.example");
        let offer = json!([{
            "intent": "charge", "method": "evm", "amount": "490000", "currency": Asset::USDC_BASE.contract(),
            "description": "Answers",
        }]);
        let info = &openapi["paths"]["/answer"]["post"]["x-payment-info"];
        assert_eq!(
            (&info["offers"], info["price"]["amount"].as_str()),
            (if offered { &offer } else { &Value::Null }, Some("0.49"))
        );
    }
}

#[tokio::test]
async fn who_did_not_say_so_asks_for_no_credential_and_reads_none() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let mut request = post(QUESTION);
    request.headers_mut().insert(AUTHORIZATION, "Payment e30".parse().unwrap());
    let answer = ask(&service, request).await;
    assert!(!answer.headers().contains_key(WWW_AUTHENTICATE));
    assert_problem(answer, 402, "payment_required").await;
}

#[tokio::test]
async fn a_client_that_cannot_pay_so_is_not_asked_to() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    for (accepts, asked) in [("evm/charge", 1), ("*/*", 1), ("tempo/*", 0), ("evm/charge;q=0", 0)] {
        let mut request = post(QUESTION);
        request.headers_mut().insert(ACCEPT_PAYMENT, accepts.parse().unwrap());
        assert_eq!(challenges(&ask(&service, request).await).len(), asked, "{accepts}");
    }
}

#[tokio::test]
async fn a_signed_payment_of_either_nonce_buys_one_answer() {
    for form in [0, 1] {
        let stall = stall().await;
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let challenge = challenge(&service).await;
        let answer = ask(&service, shown(&signed(&challenge, form))).await;
        assert_eq!(answer.status(), 200);
        let settled = super::settled(&answer);
        let receipt = decoded(&json!(answer.headers()[PAYMENT_RECEIPT].to_str().unwrap()));
        let expected = json!({
            "method": "evm", "challengeId": challenge["id"], "reference": settled.transaction.unwrap(),
            "status": "success", "timestamp": receipt["timestamp"], "chainId": 8453,
        });
        assert_eq!(receipt, expected);
        assert!(answer.headers()["cache-control"].to_str().unwrap().contains("private"));
        // Not again, with either nonce, and no other payment is asked for.
        for again in [form, 1 - form] {
            refused(ask(&service, shown(&signed(&challenge, again))).await, 409, "already_consumed").await;
        }
        assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
    }
}

/// What one dialect sold the other refuses, and twenty at once are one.
#[tokio::test]
async fn one_authorization_is_one_payment_in_every_dialect() {
    let stall = stall().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let first = ask(&service, post(QUESTION)).await;
    let (challenge, offer) = (challenges(&first).remove(0), requirements(&first));
    let nonce = challenge_hashes(challenge["id"].as_str().unwrap(), REALM)[0];
    let same = || paid(&sign(&offer, authorization(&offer, nonce)));
    let mut running = tokio::task::JoinSet::new();
    for at in 0..20 {
        let request = if at % 2 == 0 { same() } else { shown(&signed(&challenge, 0)) };
        let service = service.clone();
        running.spawn(async move { ask(&service, request).await });
    }
    let answers = running.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.status() == 200).count(), 1);
    assert!(answers.iter().all(|answer| [200, 409].contains(&answer.status().as_u16())), "{answers:?}");
    assert!(answers.iter().all(|answer| !answer.headers().contains_key(WWW_AUTHENTICATE)));
    refused(ask(&service, same()).await, 409, "already_consumed").await;
    refused(ask(&service, shown(&signed(&challenge, 0))).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

#[tokio::test]
async fn every_parameter_is_repeated_to_the_letter() {
    let stall = stall().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let challenge = challenge(&service).await;
    let asked = decoded(&challenge["request"]);
    let request = |name: &str, value: Value| {
        let mut other = asked.clone();
        *other.pointer_mut(name).unwrap() = value;
        json!(URL_SAFE_NO_PAD.encode(other.to_string()))
    };
    let changes = [
        ("realm", json!("api.example.org")),
        ("method", json!("tempo")),
        ("intent", json!("session")),
        ("expires", json!("2030-01-01T00:00:00Z")),
        ("expires", Value::Null),
        ("digest", json!("sha-256=:AAAA:")),
        ("opaque", json!("e30")),
        ("description", json!("cheap")),
        ("header", json!("Payment-Authorization")),
        ("request", request("/amount", json!("1"))),
        ("request", request("/amount", json!(490_000))),
        ("request", request("/currency", json!(Address::new([7; 20])))),
        ("request", request("/recipient", json!(payer()))),
        ("request", request("/methodDetails/chainId", json!(84_532))),
        ("request", request("/methodDetails/chainId", json!("8453"))),
        ("request", request("/methodDetails/decimals", json!(18))),
        ("request", request("/methodDetails/credentialTypes", json!(["permit2"]))),
        ("request", json!(format!("{}=", challenge["request"].as_str().unwrap()))),
        ("request", json!("e30")),
    ];
    for (name, value) in changes {
        let mut changed = challenge.clone();
        changed[name] = value;
        for credential in [signed_for(&challenge, &changed), by_hash(&changed, stall.shop.pay(490_000))] {
            refused(ask(&service, shown(&credential)).await, 400, "invalid_redemption").await;
        }
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
    assert_eq!(ask(&service, shown(&signed(&challenge, 0))).await.status(), 200);
}

/// A credential that pays one challenge, and shows another.
fn signed_for(challenge: &Value, shown: &Value) -> Value {
    let mut credential = signed(challenge, 0);
    credential["challenge"] = shown.clone();
    credential
}

#[tokio::test]
async fn a_nonce_or_a_source_of_others_pays_nothing() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let (mine, other) = (challenge(&service).await, challenge(&service).await);
    let mut strange = signed(&mine, 0);
    strange["payload"]["nonce"] = json!(format!("0x{}", "42".repeat(32)));
    let mut sourced = signed(&mine, 0);
    sourced["source"] = json!(format!("did:pkh:eip155:8453:{}", recipient()));
    let mut permit = signed(&mine, 0);
    permit["payload"]["type"] = json!("permit2");
    for credential in [signed_for(&other, &mine), strange, sourced, permit] {
        refused(ask(&service, shown(&credential)).await, 400, "invalid_redemption").await;
    }
    assert_eq!(stall.settler.settlements(), 0);
}

#[tokio::test]
async fn two_proofs_are_none() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let first = ask(&service, post(QUESTION)).await;
    let (challenge, offer) = (challenges(&first).remove(0), requirements(&first));
    let credential = signed(&challenge, 0);
    let mut twice = shown(&credential);
    twice.headers_mut().append(AUTHORIZATION, token(&credential).parse().unwrap());
    let mut beside = shown(&credential);
    beside.headers_mut().insert(PAYMENT_SIGNATURE, PaymentPayload::to_header(&super::pays(&offer)));
    let mut broken = post(QUESTION);
    broken.headers_mut().insert(AUTHORIZATION, "payment e30".parse().unwrap());
    let mut long = credential.clone();
    long["payload"]["more"] = json!("m".repeat(8 * 1024));
    // No member is given twice, wherever it stands.
    let json = credential.to_string();
    let nonce = credential["payload"]["nonce"].to_string();
    let doubled = [
        json.replacen("{", r#"{"source":"","#, 1).replacen(
            r#""source":"","#,
            r#""source":"did:pkh:eip155:8453:0x","#,
            1,
        ),
        json.replacen(r#""challenge":{"#, r#""challenge":{"realm":"api.example.org","#, 1),
        json.replacen(r#""payload":{"#, &format!(r#""payload":{{"nonce":{nonce},"#), 1),
    ];
    let doubled = doubled.map(|json| {
        let mut request = post(QUESTION);
        let token = format!("Payment {}", URL_SAFE_NO_PAD.encode(json));
        request.headers_mut().insert(AUTHORIZATION, token.parse().unwrap());
        request
    });
    for request in [twice, beside, broken, shown(&long)].into_iter().chain(doubled) {
        refused(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    assert_eq!(stall.settler.settlements(), 0);
}

/// Who shows the hash of a transfer has paid: what is there and cannot be read is no absence of a payment.
#[tokio::test]
async fn a_credential_that_cannot_be_read_is_never_billed() {
    let own = Stall::open_with(|builder| builder.mpp(Mpp::new(REALM).own_header())).await;
    let shared = stall().await;
    for (stall, name) in [(&own, PAYMENT_AUTHORIZATION), (&shared, AUTHORIZATION)] {
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let challenge = challenge(&service).await;
        let hash = json!({ "challenge": challenge, "payload": { "type": "hash", "hash": stall.shop.pay(490_000) } });
        let good = token(&hash);
        let showing = |value: &str| {
            let mut request = post(QUESTION);
            request.headers_mut().insert(&name, value.parse().unwrap());
            request
        };
        // A proxy makes one line of two, in either order.
        let mut unread = vec![
            format!("Bearer abc, {good}"),
            format!("Bearer abc,{}", good.replace("Payment", "pAYMENT")),
            format!("Digest realm=\"a, b\", {good}"),
            format!("{good}, Bearer abc"),
            "Payment".to_owned(),
        ];
        let others = [good.trim_start_matches("Payment ").to_owned(), "Bearer abc".to_owned(), String::new()];
        let other_scheme = r#"Digest username="a, Payment b", realm="c""#.to_owned();
        if name == PAYMENT_AUTHORIZATION {
            unread.extend(others.into_iter().chain([other_scheme]));
        } else {
            for other in others.into_iter().chain([other_scheme]) {
                assert_problem(ask(&service, showing(&other)).await, 402, "payment_required").await;
            }
        }
        for value in unread {
            refused(ask(&service, showing(&value)).await, 400, "invalid_redemption").await;
        }
        assert_eq!(ask(&service, showing(&good)).await.status(), 200);
    }
}

/// Other schemes of `Authorization` are the service's own, and stay where the credential goes.
#[tokio::test]
async fn other_schemes_pass_untouched() {
    let seen = tower::service_fn(async |request: Request<RequestBody<Body>>| {
        let shown: Vec<_> = request.headers().get_all(AUTHORIZATION).iter().cloned().collect();
        assert_eq!(shown, ["Bearer abc"]);
        Ok::<_, Infallible>(ok())
    });
    let stall = stall().await;
    let service = layered(&stall.shop.layer().strip_proof(), seen);
    let mut own = post(QUESTION);
    own.headers_mut().insert(AUTHORIZATION, "Bearer abc".parse().unwrap());
    let challenge = challenges(&ask(&service, own).await).remove(0);
    let mut request = shown(&signed(&challenge, 0));
    request.headers_mut().append(AUTHORIZATION, "Bearer abc".parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
}

#[tokio::test]
async fn the_credential_is_marked_as_a_secret() {
    let seen = tower::service_fn(async |request: Request<RequestBody<Body>>| {
        assert!(request.headers()[AUTHORIZATION].is_sensitive());
        Ok::<_, Infallible>(ok())
    });
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), seen);
    let challenge = challenge(&service).await;
    assert_eq!(ask(&service, shown(&signed(&challenge, 0))).await.status(), 200);
}

#[tokio::test]
async fn a_header_of_its_own_is_the_only_one_that_is_read() {
    let stall = Stall::open_with(|builder| builder.mpp(Mpp::new(REALM).own_header())).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let challenge = challenge(&service).await;
    assert_eq!(challenge["header"], "Payment-Authorization");
    let credential = signed(&challenge, 0);
    assert_problem(ask(&service, shown(&credential)).await, 402, "payment_required").await;
    let mut request = post(QUESTION);
    request.headers_mut().insert(PAYMENT_AUTHORIZATION, token(&credential).parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
}

#[tokio::test]
async fn the_hash_of_a_transfer_buys_one_answer() {
    let stall = Stall::open_with(|builder| builder.mpp(REALM).hold_unbound(std::time::Duration::ZERO)).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let (challenge, transaction) = (challenge(&service).await, stall.shop.pay(490_000));
    let answer = ask(&service, shown(&by_hash(&challenge, transaction))).await;
    assert_eq!((answer.status().as_u16(), answer.headers().contains_key(PAYMENT_RECEIPT)), (200, true));
    refused(ask(&service, shown(&by_hash(&challenge, transaction))).await, 409, "already_consumed").await;
    let other = self::challenge(&service).await;
    refused(ask(&service, shown(&by_hash(&other, transaction))).await, 409, "tx_already_used").await;
    let short = stall.shop.pay(489_999);
    refused(ask(&service, shown(&by_hash(&other, short))).await, 422, "insufficient_amount").await;
    assert_eq!(counter.runs(), 1);
}

/// A credential cannot carry the secret or the signature; the refusal says what to sign.
#[tokio::test]
async fn a_bound_transfer_needs_what_a_credential_cannot_carry() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let challenge = challenge(&service).await;
    let transaction = TxHash::new([9; 32]);
    stall.shop.chain.mine(transaction, [transfer([5; 32])]);
    let refused = refused(ask(&service, shown(&by_hash(&challenge, transaction))).await, 403, "payment_bound").await;
    assert!(refused["message"].as_str().unwrap().contains(&transaction.to_string()));
}

fn transfer(nonce: [u8; 32]) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([0; 32]), 0)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(units(490_000))
        .with_block(7, ChainTime::from_unix(NOW))
        .with_binding(Binding::none().with_nonce(nonce))
}

/// An authorization for a challenge that somebody else settled is bound to its intent.
#[tokio::test]
async fn the_hash_of_a_challenge_binds_a_transfer_to_its_intent() {
    for form in [0, 1] {
        let stall = stall().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let (mine, other) = (challenge(&service).await, challenge(&service).await);
        let nonce = challenge_hashes(mine["id"].as_str().unwrap(), REALM)[form];
        let transaction = TxHash::new([9; 32]);
        stall.shop.chain.mine(transaction, [transfer(nonce)]);
        refused(ask(&service, shown(&by_hash(&other, transaction))).await, 403, "payment_bound").await;
        assert_eq!(ask(&service, shown(&by_hash(&mine, transaction))).await.status(), 200);
    }
}

/// Only where the payment was certainly not used, another one is asked for.
#[tokio::test(start_paused = true)]
async fn a_second_signature_is_asked_for_only_where_the_first_is_void() {
    let stall = stall().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let challenge = challenge(&service).await;
    let mut late = signed(&challenge, 0);
    late["payload"]["validBefore"] = json!((NOW + 1).to_string());
    let answer = ask(&service, shown(&late)).await;
    assert_eq!((answer.status().as_u16(), challenges(&answer).len()), (402, 1));
    assert!(!answer.headers().contains_key(PAYMENT_RECEIPT));

    stall.settler.script([Settling::Held]);
    let hanging = ask(&service, shown(&signed(&challenge, 0))).await;
    refused(hanging, 503, "outcome_unknown").await;
}

/// What no platform passes on is left out from the end: the first token stays in every dialect, unless
/// a label in escapes, or nine contracts, leave no room at all.
#[tokio::test]
async fn headers_stay_within_what_platforms_pass_on() {
    let realm = "r".repeat(64);
    for (known, own) in [(1, false), (2, true), (9, false)] {
        let mpp = if own { Mpp::new(&realm).own_header() } else { Mpp::new(&realm) };
        let tokens = (1..known).map(|byte| Asset::new(Network::BASE, Address::new([byte; 20]), 6, "USDC"));
        let stall =
            Stall::open_with(|b| tokens.fold(b.mpp(mpp).asset(Asset::USDC_BASE), |b, token| b.asset(token))).await;
        for letter in ["ü", "l"] {
            let layer = stall.shop.merchant.charge(letter, "0.49 USDC").unwrap().label(&letter.repeat(100)).unwrap();
            let layer = layer
                .describe(tower_x402::discovery::Endpoint::post(format!("/{}", letter.len())).summary("s".repeat(300)))
                .unwrap();
            let service = layered(&layer, echo(Counter::default()));
            let request = Request::post(format!("/{}", "p".repeat(3_000))).header("host", "h".repeat(300));
            let answer = ask(&service, request.body(Body::empty()).unwrap()).await;
            let bytes =
                answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
            assert!(answer.status() == 402 && bytes <= 2_900, "{known}: {bytes}");
            assert_eq!(requirements(&answer).asset, Asset::USDC_BASE.contract());
            let [first, ..] = &challenges(&answer)[..] else {
                assert!(letter == "ü" || known == 9, "{known} {letter}");
                continue;
            };
            assert_eq!(decoded(&first["request"])["currency"], json!(Asset::USDC_BASE.contract()), "{known}");
        }
    }
}

/// The payment is made, and the answer failed: that is no outcome of a receipt. Shown again, it buys the answer.
#[tokio::test]
async fn a_failed_answer_has_no_receipt() {
    let stall = stall().await;
    let counter = Counter::default();
    let runs = counter.clone();
    let flaky = answering(counter, move |_: &Request<RequestBody<Body>>| match runs.runs() {
        1 => failed(),
        _ => ok(),
    });
    let service = layered(&stall.shop.layer().settle_first(), flaky);
    let challenge = challenge(&service).await;
    let answer = ask(&service, shown(&signed(&challenge, 0))).await;
    let told = super::settled(&answer);
    assert_eq!((answer.status().as_u16(), told.success, told.transaction.is_some()), (500, false, true));
    assert!([PAYMENT_RECEIPT, WWW_AUTHENTICATE].iter().all(|name| !answer.headers().contains_key(name)), "{answer:?}");
    let answer = ask(&service, shown(&signed(&challenge, 0))).await;
    assert_eq!((answer.status().as_u16(), answer.headers().contains_key(PAYMENT_RECEIPT)), (200, true));
    assert_eq!(stall.settler.settlements(), 1);
}

/// An answer that is delivered again has its receipt; a stranger's credential for the same challenge gets nothing.
#[tokio::test]
async fn a_lost_answer_is_delivered_again_with_its_receipt() {
    let stall = stall().await;
    let counter = Counter::default();
    let layer = stall.shop.layer().redeliver(Redelivery::lasting(std::time::Duration::from_secs(900)));
    let service = layered(&layer, echo(counter.clone()));
    let challenge = challenge(&service).await;
    let first = ask(&service, shown(&signed(&challenge, 0))).await;
    let again = ask(&service, shown(&signed(&challenge, 0))).await;
    assert_eq!((first.status().as_u16(), again.status().as_u16()), (200, 200));
    assert_eq!(first.headers()[PAYMENT_RECEIPT], again.headers()[PAYMENT_RECEIPT]);
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    let mut stranger = signed(&challenge, 0);
    stranger["payload"]["from"] = json!(Address::new([0xee; 20]));
    stranger.as_object_mut().unwrap().remove("source");
    refused(ask(&service, shown(&stranger)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

/// A seller that has got a settler, or takes unbound transfers by now, honours what it asked for before.
#[tokio::test]
async fn a_challenge_from_before_a_change_of_settings_is_honoured() {
    let stall = stall().await;
    let by_transfer = stall.shop.sibling(|builder| builder.mpp(REALM)).await;
    let settler = stall.settler.clone();
    let bound_only = stall.shop.sibling(|builder| builder.mpp(REALM).settler(settler).require_bound()).await;
    let now = layered(&stall.shop.layer(), echo(Counter::default()));
    for (before, types) in [(by_transfer, json!(["hash"])), (bound_only, json!(["authorization"]))] {
        let before = layered(&before.charge("answer", crate::support::PRICE).unwrap(), echo(Counter::default()));
        let challenge = challenge(&before).await;
        assert_eq!(decoded(&challenge["request"])["methodDetails"]["credentialTypes"], types);
        let credential = match types[0] == "hash" {
            true => by_hash(&challenge, stall.shop.pay(490_000)),
            false => signed(&challenge, 0),
        };
        assert_eq!(ask(&now, shown(&credential)).await.status(), 200, "{types}");
    }
}

/// The payment is made, and the answer was not to be sold: the same credential buys another.
#[tokio::test]
async fn an_answer_that_is_not_sold_has_no_receipt() {
    let stall = stall().await;
    let layer = stall.shop.layer().settle_first().consume_when(|_, _| false);
    let service = layered(&layer, echo(Counter::default()));
    let challenge = challenge(&service).await;
    for first in [true, false] {
        let answer = ask(&service, shown(&signed(&challenge, 0))).await;
        assert!(answer.status() == 200 && (!first || !super::settled(&answer).success), "{answer:?}");
        let told = [PAYMENT_RECEIPT, WWW_AUTHENTICATE].iter().any(|name| answer.headers().contains_key(name));
        assert!(!told, "{answer:?}");
    }
    assert_eq!(stall.settler.settlements(), 1);
}

/// It is no success, though it was sold.
#[tokio::test]
async fn an_error_that_is_sold_has_no_receipt() {
    let stall = stall().await;
    let missing = answering(Counter::default(), |_: &Request<RequestBody<Body>>| {
        http::Response::builder().status(404).body(Body::empty()).unwrap()
    });
    let service = layered(&stall.shop.layer().consume_when(|status, _| status == 404), missing);
    let challenge = challenge(&service).await;
    let answer = ask(&service, shown(&signed(&challenge, 0))).await;
    assert_eq!((answer.status().as_u16(), super::settled(&answer).success), (404, true));
    assert!([PAYMENT_RECEIPT, WWW_AUTHENTICATE].iter().all(|name| !answer.headers().contains_key(name)), "{answer:?}");
    refused(ask(&service, shown(&signed(&challenge, 0))).await, 409, "already_consumed").await;
}

#[tokio::test]
async fn a_realm_that_would_break_the_header_is_refused() {
    for realm in ["", " ", "a\"b", "a\\b", "a\nb", "é", &"r".repeat(65)] {
        let shop = crate::support::Shop::open().await;
        let built = tower_x402::Merchant::builder(recipient())
            .ledger(tower_x402::ledger::MemoryLedger::new())
            .verifier(shop.chain.clone())
            .sealing_keys(tower_x402::protocol::SealingKeys::new([7; 32]))
            .mpp(realm)
            .build()
            .await;
        assert!(matches!(built, Err(BuildError::InvalidText { what: "a realm of MPP", .. })), "{realm}");
    }
}
