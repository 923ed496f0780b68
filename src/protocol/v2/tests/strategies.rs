//! Messages and their parts, for properties.

use proptest::{collection::vec, option, prelude::*};
use serde_json::Value;

use crate::protocol::{
    Address, Amount, Asset, ChainTime, Network, PaymentSignature, TxHash,
    v2::{
        Authorization, Extensions, JsonObject, PaymentProof, PaymentRequirements, ResourceInfo, SettleResponse,
        SignedAuthorization,
    },
};

pub(super) fn text() -> impl Strategy<Value = String> {
    "(?s).{1,12}"
}

pub(super) fn address() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::new)
}

pub(super) fn amount() -> impl Strategy<Value = Amount> {
    any::<[u8; 32]>().prop_map(Amount::from_be_bytes)
}

pub(super) fn network() -> impl Strategy<Value = Network> {
    (1_u64..).prop_map(Network::eip155)
}

pub(super) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((text(), inner), 0..3).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

pub(super) fn object() -> impl Strategy<Value = JsonObject> {
    vec((text(), json()), 0..4).prop_map(|members| {
        members.into_iter().fold(JsonObject::new(), |object, (name, value)| object.with(name, value))
    })
}

pub(super) fn extensions() -> impl Strategy<Value = Extensions> {
    vec((text(), json(), option::of(json())), 0..3).prop_map(|all| {
        all.into_iter().fold(Extensions::new(), |all, (name, info, schema)| all.with(name, info, schema))
    })
}

prop_compose! {
    pub(super) fn requirements()(
        network in network(), contract in address(), amount in amount(), pay_to in address(), seconds: u64, extra in object(),
    ) -> PaymentRequirements {
        let token = Asset::new(network, contract, 6, "T");
        let mut requirements = PaymentRequirements::new(&token, amount, pay_to, seconds);
        requirements.extra = extra;
        requirements
    }
}

prop_compose! {
    pub(super) fn resource()(
        url in text(), description in option::of(text()), mime_type in option::of(text()),
        service_name in option::of(text()), tags in vec("(?s).{0,8}", 0..5), icon_url in option::of(text()),
    ) -> ResourceInfo {
        let mut resource = ResourceInfo::new(url);
        (resource.description, resource.mime_type) = (description, mime_type);
        (resource.service_name, resource.tags, resource.icon_url) = (service_name, tags, icon_url);
        resource
    }
}

prop_compose! {
    pub(super) fn authorization()(
        from in address(), to in address(), value in amount(), after: u64, before: u64, nonce: [u8; 32],
        signature in vec(any::<u8>(), 1..200),
    ) -> SignedAuthorization {
        let authorization = Authorization::new(from, nonce)
            .paying(to, value)
            .valid_between(ChainTime::from_unix(after), ChainTime::from_unix(before));
        SignedAuthorization::new(authorization, PaymentSignature::new(signature).unwrap())
    }
}

prop_compose! {
    pub(super) fn payment_proof()(hash: [u8; 32], signature in option::of(vec(any::<u8>(), 1..200)), secret in option::of("[A-Za-z0-9_-]{16,192}")) -> PaymentProof {
        let mut proof = PaymentProof::new(TxHash::new(hash));
        proof.signature = signature.map(|bytes| PaymentSignature::new(bytes).unwrap());
        proof.secret = secret.map(|secret| secret.parse().unwrap());
        proof
    }
}

prop_compose! {
    pub(super) fn response()(
        success: bool, hash in option::of(any::<[u8; 32]>()), network in network(), payer in option::of(address()),
        amount in option::of(amount()), reason in "[a-z_]{1,40}", message in option::of(text()), extra in object(), extensions in extensions(),
    ) -> SettleResponse {
        let mut response = match (success, hash) {
            (true, Some(hash)) => SettleResponse::settled(TxHash::new(hash), network),
            (_, hash) => {
                let mut failed = SettleResponse::failed(reason.parse().unwrap(), network);
                failed.transaction = hash.map(TxHash::new);
                failed
            }
        };
        (response.payer, response.amount, response.error_message) = (payer, amount, message);
        (response.extra, response.extensions) = (extra, extensions);
        response
    }
}
