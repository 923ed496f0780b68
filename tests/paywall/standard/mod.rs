//! The standard's door: signed payments, settled by a scripted settler on a scripted chain.

mod attacks;
mod bad_luck;
mod dialects;
mod family;
mod faults;
mod first;
mod identified;
mod leaving;
mod metered;
mod mpp;
mod permits;
mod promised;
mod quotes;
mod refusals;
mod renamed;
mod resumed;
mod sales;
mod streams;
mod theft;
mod told;
mod unquoted;
mod unread;
mod vectors;
mod version_1;
mod words;

use axum::body::Body;
use http::{Request, header};
use tower_x402::{
    MerchantBuilder, X402,
    protocol::{
        Address, Amount, Binding, ChainTime, Network, Transfer, TxHash,
        headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
        v2::{
            Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SettleResponse, SignedAuthorization,
        },
    },
    testing::ScriptedSettler,
};

use crate::support::{Answer, Handler, NOW, Shop, ask, payer, post};

/// What a client's nonce is, unless it says otherwise.
pub const NONCE: [u8; 32] = [0x42; 32];

/// A seller who takes signed payments.
pub struct Stall {
    pub shop: Shop,
    pub settler: ScriptedSettler,
}

impl Stall {
    pub async fn open() -> Self {
        Self::open_with(|builder| builder).await
    }

    pub async fn open_with(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Self {
        let mut settler = None;
        let shop = Shop::open_on(|builder, chain| {
            let scripted = ScriptedSettler::new(chain.clone());
            settler = Some(scripted.clone());
            set(builder.settler(scripted))
        })
        .await;
        Self { shop, settler: settler.unwrap() }
    }

    /// One who takes permits as well.
    pub async fn open_with_permits() -> Self {
        Self::open_with_permits_and(|builder| builder).await
    }

    pub async fn open_with_permits_and(set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Self {
        let mut settler = None;
        let shop = Shop::open_on(|builder, chain| {
            let scripted = ScriptedSettler::new(chain.clone());
            settler = Some(scripted.clone());
            set(builder.settler(scripted.clone()).permit_settler(scripted))
        })
        .await;
        Self { shop, settler: settler.unwrap() }
    }

    /// Lets the lease run out that a redemption left behind.
    pub fn lease_runs_out(&self) {
        self.shop.clock.advance(std::time::Duration::from_secs(61));
    }
}

/// The standard's quote for a POST.
pub async fn offered<S: Handler>(service: &X402<S>) -> PaymentRequirements {
    requirements(&ask(service, post(r#"{"query":"why"}"#)).await)
}

pub fn required(answer: &Answer) -> PaymentRequired {
    assert!(answer.headers().contains_key(PAYMENT_REQUIRED), "{answer:?}");
    PaymentRequired::from_headers(answer.headers()).unwrap().unwrap()
}

pub fn requirements(answer: &Answer) -> PaymentRequirements {
    required(answer).accepts[0].exact().unwrap().clone()
}

/// What became of a payment.
pub fn settled(answer: &Answer) -> SettleResponse {
    assert!(answer.headers().contains_key(PAYMENT_RESPONSE), "{answer:?}");
    SettleResponse::from_headers(answer.headers()).unwrap().unwrap()
}

/// The authorization that an honest client signs for an offer.
pub fn authorization(offer: &PaymentRequirements, nonce: [u8; 32]) -> Authorization {
    Authorization::new(payer(), nonce)
        .paying(offer.pay_to, offer.amount)
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 300))
}

pub fn sign(offer: &PaymentRequirements, authorization: Authorization) -> PaymentPayload {
    let signature = format!("0x{}", "11".repeat(65)).parse().unwrap();
    PaymentPayload::new(offer.clone(), SignedAuthorization::new(authorization, signature))
}

/// An honest client's payment.
pub fn pays(offer: &PaymentRequirements) -> PaymentPayload {
    sign(offer, authorization(offer, NONCE))
}

/// The request again, with this payment.
pub fn paid(payment: &PaymentPayload) -> Request<Body> {
    let mut request = post(r#"{"query":"why"}"#);
    request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    request
}

/// By the transaction that settled it, in the other dialect.
pub fn by_hash(intent: &str, transaction: tower_x402::protocol::TxHash) -> Request<Body> {
    Request::post("/answer")
        .header("x402-payment", format!(r#"{{"intentId":"{intent}","txHash":"{transaction}"}}"#))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(r#"{"query":"why"}"#))
        .unwrap()
}

pub fn intent(offer: &PaymentRequirements) -> String {
    offer.intent().unwrap().unwrap().to_string()
}

pub fn units(amount: u128) -> Amount {
    Amount::from_base_units(amount)
}

/// The transfer that this authorization becomes in a block of that time.
pub fn made_from(token: Address, authorization: &Authorization, transaction: TxHash, mined: ChainTime) -> Transfer {
    Transfer::new(Network::BASE, transaction, 0)
        .with_token(token)
        .with_payer(authorization.from)
        .with_recipient(authorization.to)
        .with_amount(authorization.value)
        .with_block(1, mined)
        .with_binding(Binding::none().with_nonce(authorization.nonce))
}
