//! The official vector, byte for byte in both directions.

use http::HeaderMap;
use serde_json::json;

use super::{AUTHORIZATION, REQUIREMENTS, message, payment};
use crate::protocol::{
    Amount, Asset, ChainTime,
    headers::PAYMENT_SIGNATURE,
    v2::{
        Authorization, Extensions, FacilitatorRequest, PaymentFlow, PaymentPayload, PaymentRequired,
        PaymentRequirements, ResourceInfo, SchemePayload, SignedAuthorization, TransferMethod,
    },
};

fn requirements() -> PaymentRequirements {
    let pay_to = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap();
    PaymentRequirements::new(&Asset::USDC_BASE_SEPOLIA, Amount::from_base_units(10_000), pay_to, 60)
        .with_token_domain("USDC", "2")
}

fn authorization() -> Authorization {
    Authorization::new("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap(), [0x42; 32])
        .paying("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC".parse().unwrap(), Amount::from_base_units(10_000))
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1_893_456_000))
}

fn vector() -> PaymentPayload {
    let signature = "0x00a85e971266610be8a13b6aac294f29cd7461c1ae62fbc22f974c43b4ab2b1128016c5fd66fc9073ff0bf79f558194eaf294d0b68db9a54807c79cf4cc54cb91c";
    PaymentPayload::new(requirements(), SignedAuthorization::new(authorization(), signature.parse().unwrap()))
}

#[test]
fn it_is_read_and_written() {
    assert_eq!(vector().to_json(), payment());
    let read = PaymentPayload::from_json(payment()).unwrap();
    assert_eq!(read, vector());
    let requirements = read.accepted.exact().unwrap();
    assert_eq!(requirements.transfer_method(), TransferMethod::Eip3009);
    assert_eq!(requirements.payment_flow(), PaymentFlow::Authorization);
    let SchemePayload::Authorization(signed) = &read.payload else { panic!("{read:?}") };
    assert_eq!(signed.authorization, authorization());
    let id = signed.authorization.payment_id(requirements.network, requirements.asset);
    let name = "eip155:84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e/0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
    assert_eq!(id.to_string(), format!("{name}/0x{}", "42".repeat(32)));
}

#[test]
fn it_travels_in_its_header() {
    let mut headers = HeaderMap::new();
    headers.insert(PAYMENT_SIGNATURE, vector().to_header());
    assert_eq!(PaymentPayload::from_headers(&headers), Ok(Some(vector())));
    let beginning = "eyJ4NDAyVmVyc2lvbiI6MiwiYWNjZXB0ZWQiOnsic2NoZW1lIjoiZXhhY3QiLCJuZXR3b3JrIjoiZWlwMTU1Ojg0NTMyIiwi";
    assert!(headers[PAYMENT_SIGNATURE].to_str().unwrap().starts_with(beginning));
}

#[test]
fn it_is_forwarded_to_a_facilitator() {
    let request = FacilitatorRequest::new(vector(), requirements());
    let payment = message(REQUIREMENTS, AUTHORIZATION);
    let json = format!(r#"{{"x402Version":2,"paymentPayload":{payment},"paymentRequirements":{REQUIREMENTS}}}"#);
    assert_eq!(request.to_json(), json);
    assert_eq!(FacilitatorRequest::from_json(json), Ok(request));
}

#[test]
fn it_may_say_more_by_extensions() {
    let extensions = Extensions::new().with("a", json!([]), None);
    let extensions = extensions.with("b", json!({"id": 1}), Some(json!({"type": "object"})));
    let payment = vector().with_extensions(extensions);
    let said = r#","extensions":{"a":{"info":[]},"b":{"info":{"id":1},"schema":{"type":"object"}}}}"#;
    let json = vector().to_json();
    assert_eq!(payment.to_json(), format!("{}{said}", json.strip_suffix('}').unwrap()));
    let read = PaymentPayload::from_json(payment.to_json()).unwrap();
    assert_eq!(read.extensions.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read.extensions.schema("b"), Some(&json!({"type": "object"})));
    assert_eq!((read.extensions.schema("a"), read.extensions.info("c")), (None, None));
}

#[test]
fn it_is_demanded_by_a_quote() {
    let resource = ResourceInfo::new("https://shop.example/zürich")
        .with_description("🦀\u{7f}")
        .with_mime_type("a/b")
        .with_service_name("S")
        .with_tags(["t", "u"])
        .with_icon_url("i");
    let quote = PaymentRequired::new(requirements()).with_resource(resource);
    let json = format!(
        r#"{{"x402Version":2,"resource":{{"url":"https://shop.example/z\u00fcrich","description":"\ud83e\udd80\u007f","mimeType":"a/b","serviceName":"S","tags":["t","u"],"iconUrl":"i"}},"accepts":[{REQUIREMENTS}]}}"#
    );
    assert_eq!(quote.to_json(), json);
    assert_eq!(PaymentRequired::from_json(json), Ok(quote));
}
