//! A purchase by the standard, x402 version 2: the buyer signs an authorization, and sends no transaction.

use std::time::{SystemTime, UNIX_EPOCH};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
    sol,
    sol_types::{SolStruct as _, eip712_domain},
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use rand::{TryRngCore as _, rngs::OsRng};
use tower::ServiceExt as _;
use tower_x402::{
    client::{Body, ReqwestClient},
    protocol::{
        Address, ChainTime, PaymentSignature, headers,
        v2::{
            Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SettleResponse, SignedAuthorization,
        },
    },
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

sol! {
    /// What is signed (EIP-3009).
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }
}

/// Buys one answer with this key's signature, saying each step.
///
/// # Errors
/// The seller cannot be asked, offers nothing that can be signed for, or does not answer.
pub(crate) async fn buy(url: &str, order: &str, private_key: &str) -> Result<Bytes, BoxError> {
    let quote = ask(url, order, None).await?;
    let required = PaymentRequired::from_headers(quote.headers())?.ok_or("no PAYMENT-REQUIRED was given")?;
    let offer = required.accepts.iter().find_map(|option| option.exact()).ok_or("nothing to sign for")?;
    eprintln!("  offered     {} base units of {} to {}", offer.amount, offer.asset, offer.pay_to);

    let signer: PrivateKeySigner = private_key.parse()?;
    let payment = PaymentPayload::new(offer.clone(), sign(&signer, offer)?);
    eprintln!("  signed      by {}, which sends nothing and needs no ether", signer.address());

    let answer = ask(url, order, Some(payment.to_header())).await?;
    let status = answer.status();
    let settled = SettleResponse::from_headers(answer.headers())?.and_then(|settled| settled.transaction);
    let settled = settled.ok_or_else(|| format!("not sold: {status}"))?;
    eprintln!("  settled     by the seller, with {settled}\n  answered    {status}");
    Ok(answer.into_body())
}

/// Signs for exactly what is offered, and no longer than is asked for.
fn sign(signer: &PrivateKeySigner, offer: &PaymentRequirements) -> Result<SignedAuthorization, BoxError> {
    let mut nonce = [0; 32];
    OsRng.try_fill_bytes(&mut nonce)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let authorization = Authorization::new(Address::new(signer.address().into()), nonce)
        .paying(offer.pay_to, offer.amount)
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(now + offer.max_timeout_seconds));
    let domain = eip712_domain! {
        name: offer.extra.text("name").ok_or("no domain name is given")?.to_owned(),
        version: offer.extra.text("version").ok_or("no domain version is given")?.to_owned(),
        chain_id: offer.network.chain_id(),
        verifying_contract: (*offer.asset.as_bytes()).into(),
    };
    let message = TransferWithAuthorization {
        from: (*authorization.from.as_bytes()).into(),
        to: (*authorization.to.as_bytes()).into(),
        value: authorization.value.to_string().parse()?,
        validAfter: authorization.valid_after.unix().try_into()?,
        validBefore: authorization.valid_before.unix().try_into()?,
        nonce: B256::new(nonce),
    };
    let signature = signer.sign_hash_sync(&message.eip712_signing_hash(&domain))?;
    let signature = PaymentSignature::new(signature.as_bytes().to_vec())?;
    Ok(SignedAuthorization::new(authorization, signature))
}

async fn ask(url: &str, order: &str, payment: Option<HeaderValue>) -> Result<Response<Bytes>, BoxError> {
    let mut request = Request::post(url).header(CONTENT_TYPE, "application/json").body(Body::from(order.to_owned()))?;
    if let Some(payment) = payment {
        request.headers_mut().insert(headers::PAYMENT_SIGNATURE, payment);
    }
    let (head, body) = ReqwestClient::new(reqwest::Client::builder())?.oneshot(request).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}
