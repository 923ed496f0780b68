//! Quotes: the payer reads what the seller writes, and headers and body agree.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{RECIPIENT, cases, keys, seals};
use crate::protocol::{
    Address, Amount, Asset, ChainTime, IntentId, IntentTerms, Network, Quote, QuoteError, QuoteTemplate, RedeemBy,
    headers::{PAY, X_PAYMENT_CONTRACTS, X_PRICE_INTENT, X402_ERROR},
    price_text::PriceText,
    template::RenderedQuote,
};

fn price() -> Amount {
    Amount::from_base_units(490_000)
}

fn usdc() -> [Asset; 2] {
    [Asset::USDC_BASE, Asset::USDBC_BASE]
}

fn template(label: &str) -> QuoteTemplate {
    QuoteTemplate::new(RECIPIENT, Network::BASE, label, &usdc(), false)
}

fn render(template: &QuoteTemplate) -> RenderedQuote {
    let terms = IntentTerms { amount: price(), issued: 1_795_279_500, lifetime: 900, digest: None };
    template.render(&PriceText::new(price(), 6), terms.expiry(), RedeemBy::Any, None, |out| {
        seals(&keys(1)).seal_into(&terms, out)
    })
}

/// The body as another implementation parses it.
fn body(quote: &RenderedQuote) -> Value {
    serde_json::from_slice(&quote.body).unwrap()
}

#[test]
fn headers_are_the_contracts_to_the_letter() {
    let quote = render(&template("Demand insights"));
    assert_eq!(
        quote.headers[PAY],
        concat!(
            r#"{"recipient":"0x5A5a5a5A5A5a5A5A5a5A5A5a5A5a5a5a5A5A5A5A","chainId":8453,"label":"Demand insights","#,
            r#""expiry":1795280400,"amount":"490000","decimals":6,"symbol":"USDC","binding":["tag","nonce","signature"]}"#
        )
        .replace("0x5A5a5a5A5A5a5A5A5a5A5A5a5A5a5a5a5A5A5A5A", &RECIPIENT.to_string())
    );
    assert_eq!(
        quote.headers[X_PAYMENT_CONTRACTS],
        "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913, 0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA"
    );
    assert!(seals(&keys(1)).open(&IntentId::new(quote.headers[X_PRICE_INTENT].to_str().unwrap()).unwrap()).is_some());
}

/// If the body cannot take the proof, the text says so; nothing else differs.
#[test]
fn a_quote_says_where_its_proof_belongs() {
    let template = template("x");
    let [any, header] = [RedeemBy::Any, RedeemBy::Header].map(|redeem_by| {
        let rendered =
            template.render(&PriceText::new(price(), 6), 7, redeem_by, None, |out| out.extend_from_slice(b"intent-id"));
        assert_eq!(rendered.headers["content-length"], rendered.body.len().to_string().as_str());
        body(&rendered)
    });
    assert!(any["detail"].as_str().unwrap().ends_with("with intentId and txHash."));
    assert!(header["detail"].as_str().unwrap().ends_with("with intentId and txHash in the x402-payment header."));
    let without = |mut body: Value| {
        body["detail"].take();
        body
    };
    assert_eq!(without(any), without(header));
}

#[test]
fn the_body_says_what_the_headers_say() {
    let quote = render(&template("Demand insights"));
    let body = body(&quote);
    assert_eq!(body["title"], "Payment required");
    assert_eq!(body["status"], 402);
    assert_eq!(body["error"], "payment_required");
    assert_eq!(quote.headers[X402_ERROR], "payment_required");
    assert_eq!(body["intentId"], quote.headers[X_PRICE_INTENT].to_str().unwrap());
    assert_eq!(body["pay"], serde_json::from_str::<Value>(quote.headers[PAY].to_str().unwrap()).unwrap());
    assert_eq!(body["contracts"], json!(usdc().map(|asset| asset.contract().to_string())));
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.starts_with("Send at least 0.49 USDC "), "{detail}");
    assert!(detail.contains(&RECIPIENT.to_string()), "{detail}");
    let mut members: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["contracts", "detail", "error", "intentId", "pay", "status", "title"]);
    let mut members: Vec<&str> = body["pay"].as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["amount", "binding", "chainId", "decimals", "expiry", "label", "recipient", "symbol"]);
}

#[test]
fn a_payer_reads_what_a_seller_wrote() {
    for label in ["Demand insights", "Überblick für 🦀", r#"say "hi" \ bye"#, "a\u{7f}b", "\u{2028}"] {
        let rendered = render(&template(label));
        let quote = Quote::from_headers(&rendered.headers).unwrap();
        assert_eq!(quote.label, label);
        assert_eq!(quote.recipient, RECIPIENT);
        assert_eq!(quote.network, Network::BASE);
        assert_eq!(quote.expiry, ChainTime::from_unix(1_795_280_400));
        assert_eq!(quote.amount, price());
        assert_eq!(quote.decimals, 6);
        assert_eq!(quote.symbol, "USDC");
        assert_eq!(quote.contracts, usdc().map(|asset| asset.contract()));
        assert_eq!(quote.intent.as_str(), rendered.headers[X_PRICE_INTENT].to_str().unwrap());
        assert_eq!(body(&rendered)["pay"]["label"], label);
        assert!(rendered.body.is_ascii());
        assert!(rendered.headers[PAY].as_bytes().iter().all(|byte| (b' '..=b'~').contains(byte)));
    }
}

#[test]
fn one_token_is_a_list_of_one() {
    let rendered =
        render(&QuoteTemplate::new(RECIPIENT, Network::BASE_SEPOLIA, "x", &[Asset::USDC_BASE_SEPOLIA], false));
    assert_eq!(rendered.headers[X_PAYMENT_CONTRACTS], "0x036CbD53842c5426634e7929541eC2318f3dCF7e");
    assert_eq!(body(&rendered)["contracts"], json!(["0x036CbD53842c5426634e7929541eC2318f3dCF7e"]));
    assert_eq!(Quote::from_headers(&rendered.headers).unwrap().network, Network::BASE_SEPOLIA);
}

fn changed(name: http::HeaderName, value: &str) -> Result<Quote, QuoteError> {
    let mut headers = render(&template("x")).headers;
    headers.insert(name, HeaderValue::from_str(value).unwrap());
    Quote::from_headers(&headers)
}

#[test]
fn a_payer_refuses_a_header_missing_or_sent_twice() {
    let whole = render(&template("x")).headers;
    for (name, shown) in
        [(PAY, "Pay"), (X_PRICE_INTENT, "X-Price-Intent"), (X_PAYMENT_CONTRACTS, "X-Payment-Contracts")]
    {
        let mut missing = whole.clone();
        missing.remove(&name);
        assert_eq!(
            Quote::from_headers(&missing).unwrap_err().to_string(),
            format!("the response has no single `{shown}` header")
        );
        let mut twice = whole.clone();
        twice.append(&name, whole[&name].clone());
        assert_eq!(Quote::from_headers(&twice), Quote::from_headers(&missing));
        let mut opaque = whole.clone();
        opaque.insert(&name, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(Quote::from_headers(&opaque), Err(QuoteError::malformed(shown)));
    }
}

#[test]
fn a_payer_refuses_a_quote_that_it_would_have_to_guess_at() {
    let good = r#"{"recipient":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","chainId":8453,"label":"x","expiry":1,"amount":"490000","decimals":6,"symbol":"USDC"}"#;
    assert!(changed(PAY, good).is_ok());
    assert!(
        changed(PAY, &good.replace(r#""symbol""#, r#""unknown":[1],"symbol""#)).is_ok(),
        "unknown members are read over"
    );
    for (from, to) in [
        (r#""490000""#, "490000"),
        (r#""490000""#, r#""0.49""#),
        (r#""490000""#, r#""-490000""#),
        (r#""490000""#, r#""4.9e5""#),
        (r#""490000""#, r#""0490000""#),
        (r#""490000""#, "null"),
        (r#""amount":"490000","#, ""),
        (r#""amount":"490000""#, r#""amount":"490000","amount":"1""#),
        ("02913", "02914"),
        ("0x833589fCD6eDb6E0", "0x833589fCD6eDb6e0"),
        ("0x833589", "833589"),
        (r#""chainId":8453"#, r#""chainId":"8453""#),
        (r#""chainId":8453"#, r#""chainId":-1"#),
        (r#""chainId":8453"#, r#""chainId":8453.5"#),
        (r#""chainId":8453"#, r#""chainId":18446744073709551616"#),
        (r#""expiry":1"#, r#""expiry":"1""#),
        (r#""expiry":1"#, r#""expiry":1.5"#),
        (r#""decimals":6"#, r#""decimals":256"#),
        (r#""decimals":6"#, r#""decimals":-1"#),
        (r#""label":"x""#, r#""label":null"#),
        (r#""label":"x""#, r#""label":"\ud800""#),
        (r#""symbol":"USDC"}"#, r#""symbol":"USDC"} "x""#),
        (r#"{"recipient""#, r#"[{"recipient""#),
    ] {
        let wrong = good.replacen(from, to, 1);
        // The checksum is not checked for a single case or digits alone; these addresses have mixed case.
        assert_eq!(changed(PAY, &wrong), Err(QuoteError::malformed("Pay")), "{wrong}");
    }
    for wrong in [
        "",
        " ",
        ",",
        "0x12",
        "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913,",
        "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913;0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA",
    ] {
        assert_eq!(changed(X_PAYMENT_CONTRACTS, wrong), Err(QuoteError::malformed("X-Payment-Contracts")), "{wrong}");
    }
    for wrong in ["", &"a".repeat(193)] {
        assert_eq!(changed(X_PRICE_INTENT, wrong), Err(QuoteError::malformed("X-Price-Intent")), "{wrong}");
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_terms_make_a_quote_that_can_be_read(
        recipient: [u8; 20],
        chain: u64,
        label in any::<String>(),
        symbol in any::<String>(),
        decimals: u8,
        amount: [u8; 32],
        expiry: u64,
        contracts in proptest::collection::vec(any::<[u8; 20]>(), 1..5),
    ) {
        let (recipient, network, amount) = (Address::new(recipient), Network::eip155(chain), Amount::from_be_bytes(amount));
        let assets: Vec<Asset> = contracts
            .iter()
            .map(|bytes| Asset::new(network, Address::new(*bytes), decimals, symbol.clone()))
            .collect();
        let template = QuoteTemplate::new(recipient, network, &label, &assets, false);
        let rendered = template.render(&PriceText::new(amount, 6), expiry, RedeemBy::Any, None, |out| out.extend_from_slice(b"intent-id"));
        let body = body(&rendered);
        prop_assert_eq!(&body["pay"], &serde_json::from_slice::<Value>(rendered.headers[PAY].as_bytes()).unwrap());
        let quote = Quote::from_headers(&rendered.headers).unwrap();
        prop_assert_eq!(quote.intent.as_str(), "intent-id");
        prop_assert_eq!(body["intentId"].as_str(), Some("intent-id"));
        prop_assert_eq!(quote.recipient, recipient);
        prop_assert_eq!(quote.network, network);
        prop_assert_eq!(quote.label, label);
        prop_assert_eq!(quote.symbol, symbol);
        prop_assert_eq!(quote.decimals, decimals);
        prop_assert_eq!(quote.amount, amount);
        prop_assert_eq!(quote.expiry.unix(), expiry);
        prop_assert_eq!(quote.contracts, contracts.into_iter().map(Address::new).collect::<Vec<_>>());
    }

    #[test]
    fn no_headers_make_a_payer_panic(pay: Vec<u8>, intent: Vec<u8>, contracts: Vec<u8>) {
        let mut headers = HeaderMap::new();
        for (name, bytes) in [(PAY, pay), (X_PRICE_INTENT, intent), (X_PAYMENT_CONTRACTS, contracts)] {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(name, value);
            }
        }
        let _ = Quote::from_headers(&headers);
    }
}
