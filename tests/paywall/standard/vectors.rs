//! The vectors of the client-submitted family, which other sellers can run as well: each case through the layer, on a scripted chain.

use alloy::primitives::Signature;
use json_patch::{Patch, patch};
use serde_json::{Value, json};
use tower_x402::{
    protocol::{
        Address, Amount, Binding, ChainTime, IntentId, Network, PaymentTag, Transfer, TxHash,
        headers::PAYMENT_RESPONSE, redemption_message,
    },
    testing::scripted_signature,
};

use super::{family::showing, settled};
use crate::support::{Counter, NOW, Shop, ask, echo, layered, payer, quoted, read};

const STRANGER: Address = Address::new([0xee; 20]);

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../vectors/exact_evm_txid.json")).unwrap()
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(value: &Value) -> T {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn tags_and_messages_are_those_of_the_vectors() {
    let primitives = &vectors()["primitives"];
    for tag in primitives["tags"].as_array().unwrap() {
        let bytes = PaymentTag::of(tag["secret"].as_str().unwrap());
        assert_eq!(const_hex::encode_prefixed(bytes.as_bytes()), tag["tag"]);
    }
    for message in primitives["messages"].as_array().unwrap() {
        let text = redemption_message(
            parsed(&message["network"]),
            parsed(&message["transaction"]),
            &parsed::<IntentId>(&message["intent"]),
        );
        assert_eq!(text, message["text"]);
        let signature: Signature = parsed(&message["signature"]);
        assert_eq!(signature.recover_address_from_msg(text).unwrap().to_string(), message["signer"]);
    }
}

/// The values of a case's variables.
struct Variables {
    intents: [(&'static str, String); 3],
    network: Network,
    transaction: TxHash,
}

impl Variables {
    /// Puts the values into all strings of a document.
    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(values) => values.iter().map(|value| self.fill(value)).collect(),
            Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), self.fill(value))).collect(),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
        let (variable, behind) = rest.split_once('}').unwrap();
        format!("{before}{}{}", self.value(variable), self.text(behind))
    }

    fn value(&self, variable: &str) -> String {
        match *variable.split(':').collect::<Vec<_>>() {
            ["PAYER"] => payer().to_string(),
            ["STRANGER"] => STRANGER.to_string(),
            ["TAG", name] => const_hex::encode_prefixed(PaymentTag::of(self.secret(name)).as_bytes()),
            ["CALLDATA", name] => const_hex::encode(PaymentTag::of(self.secret(name)).to_call_data()),
            ["SIGNATURE", account, name] => {
                let account = if account == "PAYER" { payer() } else { STRANGER };
                let intent = IntentId::new(self.secret(name)).unwrap();
                scripted_signature(account, &redemption_message(self.network, self.transaction, &intent)).to_string()
            }
            [name] => self.secret(name).to_owned(),
            _ => panic!("{variable}"),
        }
    }

    fn secret(&self, name: &str) -> &str {
        &self.intents.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}")).1
    }
}

/// Mines the transaction of a case. What its call data say counts where its sender paid.
fn mine(shop: &Shop, chain: &Value) {
    let transaction = &chain["transaction"];
    let call_data = const_hex::decode(transaction["input"].as_str().unwrap()).unwrap();
    let transfers = transaction["transfers"].as_array().unwrap().iter().map(|transfer| {
        let mut binding = Binding::none();
        if transfer["from"] == transaction["sender"] {
            binding = binding.with_call_data(call_data.clone());
        }
        if let Some(nonce) = transfer["nonce"].as_str() {
            binding = binding.with_nonce(const_hex::decode_to_array(nonce).unwrap());
        }
        let position = transfer["logIndex"].as_u64().unwrap();
        Transfer::new(parsed(&chain["network"]), parsed(&transaction["hash"]), position.try_into().unwrap())
            .with_token(parsed(&transfer["token"]))
            .with_payer(parsed(&transfer["from"]))
            .with_recipient(parsed(&transfer["to"]))
            .with_amount(Amount::from_base_units(parsed::<u128>(&transfer["value"])))
            .with_block(7, ChainTime::from_unix(NOW + transfer["mined"].as_u64().unwrap()))
            .with_binding(binding)
    });
    shop.chain.mine(parsed(&transaction["hash"]), transfers);
    shop.chain.set_head(ChainTime::from_unix(NOW + chain["head"].as_u64().unwrap()));
}

fn patched(document: &Value, patches: &Value) -> Value {
    let mut document = document.clone();
    let patches: Patch = serde_json::from_value(patches.clone()).unwrap();
    patch(&mut document, &patches).unwrap();
    document
}

#[tokio::test]
async fn every_case_of_the_vectors_holds() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let shop = Shop::open_with(|builder| builder.accept_submitted_transfers()).await;
        let service = layered(&shop.layer(), echo(Counter::default()));
        let variables = Variables {
            intents: [
                ("INTENT", quoted(&service).await),
                ("OTHER", quoted(&service).await),
                ("SECRET", vectors["secret"].as_str().unwrap().to_owned()),
            ],
            network: parsed(&vectors["base"]["chain"]["network"]),
            transaction: parsed(&vectors["base"]["chain"]["transaction"]["hash"]),
        };
        let world = patched(&vectors["base"], &case["patches"]);
        mine(&shop, &variables.fill(&world["chain"]));
        for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let none = json!([]);
            let shown = patched(&world, step.get("patches").unwrap_or(&none));
            let answer = ask(&service, showing(&variables.fill(&shown["payment"]))).await;
            let told = answer.headers().contains_key(PAYMENT_RESPONSE).then(|| settled(&answer));
            let (status, body) = read(answer).await;
            let (name, expected) = (format!("{}, step {at}: {body}", case["name"]), &step["expect"]);
            assert_eq!(
                (status.as_u16(), body.get("error")),
                (expected["status"].as_u64().unwrap() as u16, expected.get("error")),
                "{name}"
            );
            assert_eq!(told.as_ref().is_some_and(|told| told.success), expected["paymentResponse"], "{name}");
            if let Some(amount) = expected.get("amount") {
                assert_eq!(told.unwrap().amount.unwrap().to_string(), *amount, "{name}");
            }
        }
    }
}
