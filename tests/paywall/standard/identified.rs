//! Purchases that clients name: each is charged once, also where it is signed again.

use std::{sync::Mutex, time::Duration};

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, StatusCode, header::RETRY_AFTER};
use serde_json::{Value, json};
use tower_x402::{
    PaymentIdentifier, Redelivery,
    protocol::{
        Address, Network, PurchaseName, TokenDomain,
        headers::{PAY, PAYMENT_REQUIRED, X_PAYMENT},
        v2::{Extensions, PaymentPayload, PaymentRequirements, Reason},
    },
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::{ScriptedSettler, Settling},
};

use super::{Stall, authorization, by_hash, intent, offered, paid, pays, required, requirements, settled, sign};
use crate::support::{
    Answer, Counter, Handler, Shop, answering, ask, assert_problem, echo,
    faults::{failed, ok},
    intent_of, layered, post, read, redemption,
};

/// Its table is what the test sees.
const SECURITY: &str = include_str!("../../repository/threats.md");

const NAME: &str = "pay_7d5d747be160e280";
const OTHER: &str = "pay_7d5d747be160e281";

async fn stall(setting: PaymentIdentifier) -> Stall {
    Stall::open_with(|builder| builder.payment_identifier(setting)).await
}

/// A payment with this nonce, whose client says this of its purchase.
fn saying(offer: &PaymentRequirements, nonce: u8, info: Value) -> PaymentPayload {
    sign(offer, authorization(offer, [nonce; 32])).with_extensions(Extensions::new().with(
        "payment-identifier",
        info,
        None,
    ))
}

fn naming(offer: &PaymentRequirements, nonce: u8, name: &str) -> PaymentPayload {
    saying(offer, nonce, json!({ "required": false, "id": name }))
}

/// A new quote, signed for the same purchase.
async fn signs<S: Handler>(service: &tower_x402::X402<S>, nonce: u8, name: &str) -> PaymentPayload {
    naming(&offered(service).await, nonce, name)
}

/// A refusal without a bill.
async fn refused(answer: Answer, status: u16, code: &str) -> Value {
    for header in [PAYMENT_REQUIRED, PAY] {
        assert!(!answer.headers().contains_key(header), "{answer:?}");
    }
    assert_eq!(answer.headers().contains_key(RETRY_AFTER), code == "redemption_in_progress", "{answer:?}");
    assert_problem(answer, status, code).await
}

#[tokio::test]
async fn a_purchase_that_is_signed_again_is_charged_once() {
    let stall = stall(PaymentIdentifier::Optional).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let first = signs(&service, 1, NAME).await;
    assert_eq!(ask(&service, paid(&first)).await.status(), 200);
    for nonce in 2..5 {
        refused(ask(&service, paid(&signs(&service, nonce, NAME).await)).await, 409, "payment_id_conflict").await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
    // The same payment is told what it would be told without a name.
    refused(ask(&service, paid(&first)).await, 409, "already_consumed").await;
    let mut unnamed = first.clone();
    unnamed.extensions = Extensions::new();
    refused(ask(&service, paid(&unnamed)).await, 409, "already_consumed").await;
    // The payment that was not taken buys another purchase.
    assert_eq!(ask(&service, paid(&signs(&service, 2, OTHER).await)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_signatures_at_once_one_is_charged() {
    let stall = stall(PaymentIdentifier::Required).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let mut payments = Vec::new();
    for nonce in 1..=20 {
        payments.push(signs(&service, nonce, NAME).await);
    }
    let answers = join_all(payments.iter().map(|payment| {
        let (service, request) = (service.clone(), paid(payment));
        async move { tokio::spawn(async move { ask(&service, request).await }).await.unwrap() }
    }))
    .await;
    let mut sold = 0;
    for answer in answers {
        match answer.status() {
            StatusCode::OK => sold += 1,
            _ => {
                let code = answer.headers()["x402-error"].to_str().unwrap().to_owned();
                assert!(["redemption_in_progress", "payment_id_conflict"].contains(&&*code), "{code}");
                refused(answer, 409, &code).await;
            }
        }
    }
    assert_eq!((sold, counter.runs(), stall.settler.settlements()), (1, 1, 1));
}

#[tokio::test]
async fn a_name_is_free_again_where_its_payment_bought_nothing() {
    let stall = stall(PaymentIdentifier::Optional).await;
    let counter = Counter::default();
    let runs = counter.clone();
    let handler = answering(counter, move |_| if runs.runs() == 1 { failed() } else { ok() });
    let service = layered(&stall.shop.layer(), handler);
    // The handler failed; then the payment was refused.
    assert_eq!(ask(&service, paid(&signs(&service, 1, NAME).await)).await.status(), 500);
    stall.settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    assert_problem(ask(&service, paid(&signs(&service, 2, NAME).await)).await, 402, "authorization_refused").await;
    assert_eq!(ask(&service, paid(&signs(&service, 3, NAME).await)).await.status(), 200);
    refused(ask(&service, paid(&signs(&service, 4, NAME).await)).await, 409, "payment_id_conflict").await;
}

/// The process dies between settlement and sale.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_settled_is_undecided_until_its_payment_is_shown_again() {
    for healed_by_hash in [false, true] {
        let stall = stall(PaymentIdentifier::Optional).await;
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let first = signs(&service, 1, NAME).await;
        stall.settler.script([Settling::SettledHanging]);
        let asking = tokio::time::timeout(Duration::from_secs(1), ask(&service, paid(&first)));
        assert!(asking.await.is_err());
        for nonce in 2..4 {
            let again = signs(&service, nonce, NAME).await;
            refused(ask(&service, paid(&again)).await, 409, "redemption_in_progress").await;
            stall.lease_runs_out();
        }
        // Without its name, by its header or by its transaction.
        let mut unnamed = first.clone();
        unnamed.extensions = Extensions::new();
        let transaction = tower_x402::protocol::TxHash::new(
            [[0xfa; 24].as_slice(), &1_u64.to_be_bytes()].concat().try_into().unwrap(),
        );
        let shown = match healed_by_hash {
            true => by_hash(&intent(first.accepted.exact().unwrap()), transaction),
            false => paid(&unnamed),
        };
        assert_eq!(settled(&ask(&service, shown).await).transaction, Some(transaction));
        refused(ask(&service, paid(&signs(&service, 4, NAME).await)).await, 409, "payment_id_conflict").await;
        assert_eq!(stall.settler.settlements(), 1);
    }
}

#[tokio::test]
async fn a_name_is_well_formed_or_refused() {
    let stall = stall(PaymentIdentifier::Optional).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    for info in [
        json!({ "id": "short" }),
        json!({ "id": "" }),
        json!({ "id": "a".repeat(129) }),
        json!({ "id": "pay_7d5d747be160e28!" }),
        json!({ "id": 7 }),
        json!({ "id": {} }),
    ] {
        refused(ask(&service, paid(&saying(&offer, 1, info))).await, 400, "invalid_redemption").await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
    for (nonce, info) in [(1, json!({ "required": false })), (2, json!({ "id": null })), (3, Value::Null)] {
        let payment = saying(&offered(&service).await, nonce, info);
        assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    }
    // The longest and the shortest.
    for (nonce, name) in [(4, "a".repeat(128)), (5, "-_AZaz09-_AZaz09".to_owned())] {
        assert_eq!(ask(&service, paid(&signs(&service, nonce, &name).await)).await.status(), 200);
    }
}

#[tokio::test]
async fn where_a_name_is_required_a_payment_without_one_is_not_taken() {
    let stall = stall(PaymentIdentifier::Required).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    let declared = required(&quote).extensions;
    assert_eq!(declared.info("payment-identifier"), Some(&json!({ "required": true })));
    let offer = requirements(&quote);
    for payment in [pays(&offer), saying(&offer, 0x42, json!({ "required": true }))] {
        refused(ask(&service, paid(&payment)).await, 400, "payment_id_required").await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
    // The same payment with a name, as clients build it: what is declared, and the name.
    let named = pays(&offer).with_extensions(declared.naming(&PurchaseName::new(NAME).unwrap()));
    assert_eq!(ask(&service, paid(&named)).await.status(), 200);
    // A sold intent is told so first.
    refused(ask(&service, paid(&pays(&offer))).await, 409, "already_consumed").await;
    // A transfer names its purchase by its intent, and version 1 has no place for a name.
    let intent = intent_of(&ask(&service, post(r#"{"query":"why"}"#)).await);
    assert_eq!(ask(&service, redemption(&intent, stall.shop.pay(490_000))).await.status(), 200);
    let version_1 = json!({
        "x402Version": 1, "scheme": "exact", "network": "base", "payload": sign(&offer, authorization(&offer, [9; 32])).payload,
    });
    let mut request = post(r#"{"query":"why"}"#);
    let value = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, version_1.to_string());
    request.headers_mut().insert(X_PAYMENT, value.parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
}

#[tokio::test]
async fn a_merchant_that_does_not_read_names_sells_each_payment() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    assert!(required(&quote).extensions.is_empty());
    for nonce in 1..3 {
        assert_eq!(ask(&service, paid(&signs(&service, nonce, NAME).await)).await.status(), 200);
    }
    let misnamed = signs(&service, 3, "short").await;
    assert_eq!(ask(&service, paid(&misnamed)).await.status(), 200);
}

/// A stranger who guessed a name, or saw one.
#[tokio::test(start_paused = true)]
async fn a_name_gives_a_stranger_nothing() {
    let mut table = "| A stranger shows the name with | Before the sale | After it |\n|---|---|---|\n".to_owned();
    for (shown, words) in [
        ("own", "a payment of its own"),
        ("forged", "a forged payment"),
        ("copied", "the buyer's own header"),
        ("unnamed", "the buyer's own header, without the name"),
        ("elsewhere", "a payment of its own, on another resource"),
    ] {
        let stall = stall(PaymentIdentifier::Optional).await;
        let layer = stall.shop.layer().redeliver(Redelivery::default());
        let service = layered(&layer, echo(Counter::default()));
        let elsewhere = stall.shop.merchant.charge("elsewhere", "0.49 USDC").unwrap();
        let elsewhere = layered(&elsewhere, echo(Counter::default()));
        let buyers = signs(&service, 1, NAME).await;
        // Undecided: the buyer's payment may have been settled.
        stall.settler.script([Settling::SettledHanging]);
        let asking = tokio::time::timeout(Duration::from_secs(1), ask(&service, paid(&buyers)));
        assert!(asking.await.is_err());
        let mut cells = Vec::new();
        for after in [false, true] {
            if after {
                stall.lease_runs_out();
                assert_eq!(ask(&service, paid(&buyers)).await.status(), 200);
            }
            let nonce = if after { 3 } else { 2 };
            let answer = match shown {
                "own" => ask(&service, paid(&signs(&service, nonce, NAME).await)).await,
                "forged" => {
                    let forged = signs(&service, nonce, NAME).await;
                    let refused = Validity::Refused(Reason::INVALID_EXACT_EVM_PAYLOAD_SIGNATURE);
                    stall.settler.answer_verify(Some(Ok(refused)));
                    let answer = ask(&service, paid(&forged)).await;
                    stall.settler.answer_verify(None);
                    answer
                }
                "copied" => ask(&service, paid(&buyers)).await,
                "unnamed" => {
                    let mut unnamed = buyers.clone();
                    unnamed.extensions = Extensions::new();
                    ask(&service, paid(&unnamed)).await
                }
                _ => ask(&elsewhere, paid(&signs(&elsewhere, nonce, if after { OTHER } else { NAME }).await)).await,
            };
            let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap().to_owned());
            let replayed = answer.headers().contains_key("idempotent-replayed");
            let words = match (code, replayed) {
                (Some(code), _) => format!("{} `{code}`", answer.status().as_u16()),
                (None, true) => "the kept answer, as without a name".to_owned(),
                (None, false) => "its own answer, for its own payment".to_owned(),
            };
            cells.push(words);
        }
        table += &format!("| {words} | {} | {} |\n", cells[0], cells[1]);
    }
    assert!(SECURITY.contains(&table), "the table in threats.md is not what is answered:\n{table}");
}

/// A payment that no key of its payer's signed is looked at before it reserves a name.
#[tokio::test(start_paused = true)]
async fn a_forged_payment_reserves_no_name() {
    let stall = stall(PaymentIdentifier::Optional).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let forged = signs(&service, 2, NAME).await;
    stall.settler.hang_verify(true);
    let mut looked_at = Box::pin(ask(&service, paid(&forged)));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut looked_at).await.is_err());
    stall.settler.hang_verify(false);
    // Meanwhile the name is free.
    assert_eq!(ask(&service, paid(&signs(&service, 1, NAME).await)).await.status(), 200);
    // Nor where the settler does not say whether it is forged.
    let waits = looked_at.await;
    assert_problem(waits, 503, "verification_unavailable").await;
    // What is refused reserves none either.
    let late = signs(&service, 3, OTHER).await;
    stall.settler.answer_verify(Some(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS))));
    assert_problem(ask(&service, paid(&late)).await, 402, "authorization_refused").await;
    stall.settler.answer_verify(None);
    assert_eq!(ask(&service, paid(&signs(&service, 4, OTHER).await)).await.status(), 200);
    assert_eq!(stall.settler.settlements(), 2);
}

/// Says of each payment what it is told to say first, and afterwards that it is valid.
struct Wavering {
    settler: ScriptedSettler,
    first: Mutex<Vec<Validity>>,
}

impl Settler for Wavering {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.settler.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        let said = self.first.lock().unwrap().pop();
        said.map_or(self.settler.verify(payment).await, Ok)
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.settler.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// A payment that becomes valid between two looks holds no name yet: settled now, its purchase could be charged again.
#[tokio::test]
async fn a_payment_that_was_reserved_without_its_name_is_not_settled() {
    let mut scripted = None;
    let shop = Shop::open_on(|builder, chain| {
        let settler = ScriptedSettler::new(chain.clone());
        scripted = Some(settler.clone());
        let first = Mutex::new(vec![Validity::Refused(Reason::INSUFFICIENT_FUNDS)]);
        builder.settler(Wavering { settler, first }).payment_identifier(PaymentIdentifier::Optional)
    })
    .await;
    let (settler, counter) = (scripted.unwrap(), Counter::default());
    let service = layered(&shop.layer(), echo(counter.clone()));
    let wavering = signs(&service, 1, NAME).await;
    assert_problem(ask(&service, paid(&wavering)).await, 503, "verification_unavailable").await;
    assert_eq!((counter.runs(), settler.settlements()), (0, 0));
    assert_eq!(ask(&service, paid(&signs(&service, 2, NAME).await)).await.status(), 200);
    refused(ask(&service, paid(&wavering)).await, 409, "payment_id_conflict").await;
    assert_eq!((counter.runs(), settler.settlements()), (1, 1));
}

#[tokio::test]
async fn a_kept_answer_is_for_the_exact_payment() {
    let stall = stall(PaymentIdentifier::Optional).await;
    let layer = stall.shop.layer().redeliver(Redelivery::default());
    let service = layered(&layer, echo(Counter::default()));
    let first = signs(&service, 1, NAME).await;
    let (_, sold) = read(ask(&service, paid(&first)).await).await;
    let again = ask(&service, paid(&first)).await;
    assert!(again.headers().contains_key("idempotent-replayed"));
    assert_eq!(read(again).await.1, sold);
    let problem = refused(ask(&service, paid(&signs(&service, 2, NAME).await)).await, 409, "payment_id_conflict").await;
    assert!(problem.get("query").is_none(), "{problem}");
}

/// Two dialects, one purchase.
#[tokio::test]
async fn a_client_of_mpp_names_its_purchase_by_idempotency_key() {
    let setting = PaymentIdentifier::Required;
    let stall = Stall::open_with(|builder| builder.mpp("api.example.com").payment_identifier(setting)).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let credential = async |keys: &[&str]| {
        let mut request: Request<Body> = super::mpp::credential(&service).await;
        for key in keys {
            request.headers_mut().append("idempotency-key", key.parse().unwrap());
        }
        ask(&service, request).await
    };
    refused(credential(&[]).await, 400, "payment_id_required").await;
    for keys in [&["order-1"] as &[_], &[NAME, NAME], &["\"pay_7d5d747be160e280"]] {
        refused(credential(keys).await, 400, "invalid_redemption").await;
    }
    assert_eq!(credential(&[NAME]).await.status(), 200);
    refused(credential(&["\"pay_7d5d747be160e280\""]).await, 409, "payment_id_conflict").await;
    refused(ask(&service, paid(&signs(&service, 7, NAME).await)).await, 409, "payment_id_conflict").await;
    assert_eq!(ask(&service, paid(&signs(&service, 8, OTHER).await)).await.status(), 200);
    refused(credential(&[OTHER]).await, 409, "payment_id_conflict").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 2));
    let mut both = paid(&pays(&offered(&service).await));
    both.headers_mut().insert("idempotency-key", NAME.parse().unwrap());
    refused(ask(&service, both).await, 400, "payment_id_required").await;
    // The header of MPP says nothing beside the standard's.
    let mut request = paid(&signs(&service, 9, "pay_7d5d747be160e282").await);
    request.headers_mut().insert("idempotency-key", "order-1".parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200);
}

/// Long label, two tokens, MPP: the schema is said in its short form.
#[tokio::test]
async fn a_quote_declares_it_within_its_budget() {
    use tower_x402::protocol::{Address, Asset, Network};
    let other = Asset::new(Network::BASE, Address::new([7; 20]), 6, "EURC");
    for crowded in [false, true] {
        let stall = Stall::open_with(|builder| {
            let builder = builder.payment_identifier(PaymentIdentifier::Optional);
            match crowded {
                true => builder.mpp("a".repeat(64)).asset(Asset::USDC_BASE).asset(other.clone()),
                false => builder,
            }
        })
        .await;
        let label = if crowded { "ä".repeat(64) } else { "Insights".to_owned() };
        let layer = stall.shop.layer().label(&label).unwrap();
        let service = layered(&layer, echo(Counter::default()));
        let mut request = post(r#"{"query":"why"}"#);
        request.headers_mut().insert("host", "shop.example".parse().unwrap());
        let answer = ask(&service, request).await;
        let length: usize = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        assert!(length <= 2_900, "{length}");
        let declared = required(&answer).extensions;
        assert_eq!(declared.info("payment-identifier"), Some(&json!({ "required": false })));
        let schema = declared.schema("payment-identifier").unwrap();
        assert_eq!(schema.get("$schema").is_some(), !crowded, "{schema}");
        assert!(schema["properties"]["id"]["pattern"].is_string());
    }
}
