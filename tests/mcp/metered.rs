//! Tools that cost what their answers cost: the payer allows a maximum, and the server says the charge.

use serde_json::{Value, json};
use tower_x402::{
    Charge, Price,
    protocol::{
        Amount, ChainTime, Network, TxHash,
        permit2::{Permit, PermitScheme, SignedPermit},
        redemption_message,
        v2::{PaymentOption, PaymentPayload, UpToRequirements},
    },
    testing::scripted_signature,
};

use super::rig::*;
use crate::support::{NOW, payer};

const MAXIMUM: u128 = 100_000;

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

async fn rig() -> (Rig, Service) {
    let rig = Rig::open_settling(|builder, settler| builder.settler(settler.clone()).permit_settler(settler)).await;
    let tools = rig.shop.merchant.tools();
    let service = rig.behind(&tools.price_with("search", |_| Price::UpTo(units(MAXIMUM))).unwrap());
    (rig, service)
}

fn up_to(answer: &Answer) -> UpToRequirements {
    match &answer.bill().accepts[..] {
        [PaymentOption::UpTo(offer)] => offer.clone(),
        other => panic!("{other:?}"),
    }
}

fn sign(offer: &UpToRequirements, nonce: [u8; 32]) -> PaymentPayload {
    let permit = Permit::new(PermitScheme::UpTo, payer(), nonce)
        .paying(offer.pay_to, offer.asset, offer.amount)
        .by_facilitator(offer.facilitator().unwrap())
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300));
    PaymentPayload::new(offer.clone(), SignedPermit::new(permit, format!("0x{}", "11".repeat(65)).parse().unwrap()))
}

/// The server's answers say this of their charge.
fn charging(rig: &Rig, charge: Option<u128>) {
    rig.plays(move |message| {
        let mut reply = json_reply(result(&message, serde_json::json!({ "content": [] })));
        if let Some(charge) = charge {
            reply.extensions_mut().insert(Charge(units(charge)));
        }
        async move { reply }
    });
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_charged_what_its_answer_costs() {
    for (charge, settled, settlements) in
        [(None, MAXIMUM, 1), (Some(1_858), 1_858, 1), (Some(MAXIMUM), MAXIMUM, 1), (Some(0), 0, 0)]
    {
        let (rig, service) = rig().await;
        charging(&rig, charge);
        let offer = up_to(&say(&service, &search()).await);
        assert_eq!(offer.amount, units(MAXIMUM));
        let answer = say(&service, &with_payment(search(), &sign(&offer, NONCE))).await;
        assert_eq!(answer.sold().amount, Some(units(settled)), "{charge:?}: {}", answer.text);
        assert_eq!((rig.settler.settlements(), rig.runs.runs()), (settlements, 1), "{charge:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_above_the_maximum_sells_nothing_and_the_permit_stays_good() {
    let (rig, service) = rig().await;
    charging(&rig, Some(MAXIMUM + 1));
    let paid = with_payment(search(), &sign(&up_to(&say(&service, &search()).await), NONCE));
    let answer = say(&service, &paid).await;
    assert_eq!(answer.message()["error"]["code"], -32603, "{}", answer.text);
    assert_eq!(rig.settler.settlements(), 0);
    charging(&rig, Some(7));
    let answer = say(&service, &paid).await;
    assert_eq!((answer.sold().amount, rig.settler.settlements()), (Some(units(7)), 1), "{}", answer.text);
}

/// What a refusal tells the payer of what was made, done by the letter.
fn as_told(offer: &Value, refused: &Answer, transaction: TxHash) -> Value {
    let told = &refused.result()["structuredContent"];
    let text = refused.result()["content"][0]["text"].as_str().unwrap();
    let intent = told["intentId"].as_str().unwrap_or_else(|| panic!("no intent: {text}"));
    assert!(text.contains("with scheme \"exact\""), "{text}");
    let (_, extra) = text.split_once("extra ").unwrap();
    let extra = format!("{}}}", extra.split_once('}').unwrap().0).replace('…', &format!("\"{intent}\""));
    let mut accepted = offer.clone();
    accepted["scheme"] = "exact".into();
    accepted["extra"] = serde_json::from_str(&extra).unwrap();
    let signature =
        scripted_signature(payer(), &redemption_message(Network::BASE, transaction, &intent.parse().unwrap()));
    let proof = json!({ "type": "payment-proof", "txRef": transaction, "paymentSignature": signature.to_string() });
    json!({ "x402Version": 2, "accepted": accepted, "payload": proof })
}

/// The only entry of a metered tool's quote is of another scheme than a transfer.
#[tokio::test(start_paused = true)]
async fn what_was_made_for_another_tool_is_redeemed_as_it_is_told() {
    for submitted in [false, true] {
        let rig = Rig::open_settling(|builder, settler| {
            let builder = builder.settler(settler.clone()).permit_settler(settler);
            if submitted { builder.accept_submitted_transfers() } else { builder }
        })
        .await;
        let tools = rig.shop.merchant.tools().charge("summarise", PRICE).unwrap();
        let service = rig.behind(&tools.price_with("search", |_| Price::UpTo(units(MAXIMUM))).unwrap());
        for (tool, other) in [("search", "summarise"), ("summarise", "search")] {
            let [asked, other] = [tool, other].map(|tool| call(tool, json!({ "q": "why" })));
            let [offer, elsewhere] = [say(&service, &asked).await, say(&service, &other).await]
                .map(|quote| quote.result()["structuredContent"]["accepts"][0].clone());
            let transaction = rig.shop.pay(MAXIMUM);
            let showing = |payment: Value| {
                let mut call = asked.clone();
                call["params"]["_meta"]["x402/payment"] = payment;
                call
            };
            let mut astray = json!({ "x402Version": 2, "accepted": offer });
            astray["accepted"]["scheme"] = "exact".into();
            astray["accepted"]["extra"] =
                json!({ "assetTransferMethod": "txid", "intentId": elsewhere["extra"]["intentId"] });
            astray["payload"] = json!({ "type": "payment-proof", "txRef": transaction, "paymentSignature": format!("0x{}", "11".repeat(65)) });
            let refused = say(&service, &showing(astray)).await;
            assert_eq!(refused.refused(), "intent_not_found", "{tool}");
            say(&service, &showing(as_told(&offer, &refused, transaction))).await.sold();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_bought_a_call_is_known_at_each_metered_tool() {
    let rig = Rig::open_settling(|builder, settler| builder.settler(settler.clone()).permit_settler(settler)).await;
    let metered = |_: &serde_json::Map<String, Value>| Price::UpTo(units(MAXIMUM));
    let tools = rig.shop.merchant.tools().price_with("search", metered).unwrap();
    let service = rig.behind(&tools.price_with("summarise", metered).unwrap());
    let permit = sign(&up_to(&say(&service, &search()).await), NONCE);
    say(&service, &with_payment(search(), &permit)).await.sold();
    let elsewhere = with_payment(call("summarise", json!({})), &permit);
    assert_eq!(say(&service, &elsewhere).await.refused(), "already_consumed");
}
