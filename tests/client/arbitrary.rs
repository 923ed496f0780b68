//! Whatever bytes a seller sends: no panic, no second transfer; and a proof in a body is two members more, nothing else.

use http::{HeaderValue, Request, Response, header};
use proptest::prelude::*;
use serde_json::{Map, Value};
use tokio::runtime;
use tower_x402::client::ProofIn;

use super::{
    Market, question,
    rig::{Bill, Reply, Seller, ask, problem, text},
};

/// One case, in paused time.
fn run<F: Future>(case: F) -> F::Output {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(case)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,12}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((".{0,12}", json()), 0..6).prop_map(|members| members.into_iter().collect())
}

fn header_value() -> impl Strategy<Value = HeaderValue> {
    prop::collection::vec(any::<u8>(), 0..80)
        .prop_filter_map("no header value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

fn near_header(usual: String) -> impl Strategy<Value = HeaderValue> {
    let changed = (any::<prop::sample::Index>(), any::<u8>()).prop_filter_map("no header value", move |(at, byte)| {
        let mut bytes = usual.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        HeaderValue::from_bytes(&bytes).ok()
    });
    prop_oneof![changed, header_value()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_proof_in_the_body_is_two_members_more(members in object(), pretty in any::<bool>(), before in "[ \t\r\n]{0,3}") {
        prop_assume!(!members.contains_key("intentId") && !members.contains_key("txHash"));
        let value = Value::Object(members.clone());
        let body = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let body = format!("{before}{body}");
        let seller = Seller::honest();
        run(async {
            let market = Market::open().await;
            let layer = market.layer_with(|builder| builder.proof_in(ProofIn::Body)).await;
            ask(&layer, &seller, question(&body)).await.unwrap();
        });
        let sent = seller.asked().pop().unwrap();
        let rest = body.trim_start().strip_prefix('{').unwrap();
        prop_assert!(std::str::from_utf8(&sent.body).unwrap().ends_with(rest));
        let mut found: Map<String, Value> = serde_json::from_slice(&sent.body).unwrap();
        prop_assert!(found.remove("intentId").is_some() && found.remove("txHash").is_some());
        // Compared as text: what is parsed twice may differ in the last digit of a float.
        let again: Value = serde_json::from_str(&body).unwrap();
        prop_assert_eq!(Value::Object(found), again);
    }

    #[test]
    fn no_retry_after_panics(after in header_value(), digits in "[0-9]{0,30}", status in prop::sample::select(vec![409_u16, 429, 503])) {
        run(async {
            let market = Market::open().await;
            let seller = Seller::paid(move |asked| match asked.proofs {
                0 => {
                    let Reply::Answer(mut answer) = problem(status, "redemption_in_progress", &[]) else { unreachable!() };
                    answer.headers_mut().insert(header::RETRY_AFTER, after.clone());
                    Reply::Answer(answer)
                }
                1 => problem(status, "tx_not_confirmed", &[("retry-after", &digits)]),
                _ => super::rig::sold(),
            });
            assert_eq!(ask(&market.layer().await, &seller, question("{}")).await.unwrap().text, "the answer");
            assert_eq!(market.wallet.transfers(), 1);
        });
    }

    #[test]
    fn no_quote_panics(
        pay in near_header(Bill::default().pay()),
        intent in near_header("intent-1".to_owned()),
        contracts in near_header(Bill::default().contracts),
    ) {
        run(async {
            let market = Market::open().await;
            let seller = Seller::new(move |asked| {
                if asked.proof.is_some() {
                    return super::rig::sold();
                }
                let response = Response::builder()
                    .status(402)
                    .header("pay", pay.clone())
                    .header("x-price-intent", intent.clone())
                    .header("x-payment-contracts", contracts.clone());
                Reply::Answer(response.body(text("")).unwrap())
            });
            let got = ask(&market.layer().await, &seller, question("{}")).await;
            assert_eq!(market.wallet.transfers(), usize::from(got.is_ok()), "{got:?}");
        });
    }

    #[test]
    fn no_answer_panics_or_pays_again(
        status in 100_u16..1000,
        headers in prop::collection::vec((prop::sample::select(vec!["content-type", "retry-after", "x-price-intent", "payment-response", "pay", "location"]), header_value()), 0..4),
        json in any::<bool>(),
        body in prop_oneof![".{0,60}", json().prop_map(|value| format!(r#"{{"error":{value}}}"#)), Just(r#"{"error":"intent_not_found"}"#.to_owned())],
    ) {
        run(async {
            let market = Market::open().await;
            let seller = Seller::paid(move |_| {
                let mut response = Response::builder().status(status);
                for (name, value) in &headers {
                    response = response.header(*name, value.clone());
                }
                if json {
                    response = response.header("content-type", "application/json");
                }
                Reply::Answer(response.body(text(body.clone())).unwrap())
            });
            let layer = market.layer().await;
            for _ in 0..2 {
                match ask(&layer, &seller, question("{}")).await {
                    Ok(got) => assert!(got.purchase.is_some()),
                    Err(error) => assert!(error.transaction().is_some()),
                }
                if layer.unfinished().is_empty() {
                    break;
                }
            }
            assert_eq!(market.wallet.transfers(), 1);
        });
    }

    #[test]
    fn no_request_panics(uri in "(https?://)?[a-z@:.\\[\\]0-9]{0,20}(/[ -~]{0,12})?", host in header_value(), body in prop::collection::vec(any::<u8>(), 0..40)) {
        let Ok(request) = Request::post(uri)
            .header("host", host)
            .header("content-type", "application/json")
            .body(tower_x402::client::Body::from(body))
        else {
            return Ok(());
        };
        run(async {
            let market = Market::open().await;
            let layer = market.layer_with(|builder| builder.proof_in(ProofIn::Body)).await;
            let got = ask(&layer, &Seller::honest(), request).await;
            assert_eq!(market.wallet.transfers(), usize::from(got.is_ok()), "{got:?}");
        });
    }
}
