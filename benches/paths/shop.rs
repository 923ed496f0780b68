//! A seller whose chain and ledger are in this process, so that the measurements show the layer.

use std::{
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_x402::{
    Merchant, MerchantBuilder, Receipt, RequestBody, X402Layer,
    ledger::MemoryLedger,
    protocol::{Address, Amount, Asset, Binding, ChainTime, Network, SealingKeys, Transfer, TxHash},
    testing::{ScriptedChannels, ScriptedSettler, ScriptedVerifier},
};

use super::{ANSWER, QUESTION, now};

pub const PRICE: &str = "0.49 USDC";
/// The price in base units.
pub const UNITS: u128 = 490_000;
/// How far the chain is ahead of this machine's clock: far enough for a payment that is too late for its quote, but
/// not for one that is too old.
pub const AHEAD: u64 = 2 * 60 * 60;

pub struct Shop {
    pub chain: ScriptedVerifier,
    pub merchant: Merchant,
    pub start: u64,
    /// The layer of most paths.
    pub layer: X402Layer,
}

impl Shop {
    pub fn open() -> Rc<Self> {
        Self::with(|builder, _| builder)
    }

    /// Opens another shop that also accepts signed payments.
    pub fn with_settler(&self) -> Rc<Self> {
        Self::with(|builder, chain| builder.settler(ScriptedSettler::new(chain)))
    }

    /// Opens another shop that also accepts permits.
    pub fn with_permits(&self) -> Rc<Self> {
        Self::with(|builder, chain| builder.permit_settler(ScriptedSettler::new(chain)))
    }

    /// Opens another shop that also accepts vouchers of channels on that chain.
    pub fn with_channels(&self) -> (Rc<Self>, ScriptedChannels) {
        let channels = ScriptedChannels::new(Address::new([0xfa; 20]));
        let settler = channels.clone();
        (Self::with(|builder, _| builder.channel_settler(settler)), channels)
    }

    fn with(set: impl FnOnce(MerchantBuilder, ScriptedVerifier) -> MerchantBuilder) -> Rc<Self> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let chain = ScriptedVerifier::new(ChainTime::from_unix(start - 3_600));
        let recipient = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap();
        let builder = Merchant::builder(recipient)
            .hold_unbound(Duration::ZERO)
            .verifier(chain.clone())
            .ledger(MemoryLedger::new())
            .sealing_keys(SealingKeys::new([7; 32]));
        let merchant = now(set(builder, chain.clone()).build()).unwrap();
        chain.set_head(ChainTime::from_unix(start + AHEAD));
        let layer = merchant.charge("answer", PRICE).unwrap().label("Where towns want bicycles").unwrap();
        Rc::new(Self { chain, merchant, start, layer })
    }

    /// Returns an axum route behind this layer.
    pub fn route(&self, layer: &X402Layer) -> Router {
        Router::new().route("/answer", post(async |_: Option<Receipt>, _: Bytes| ANSWER).route_layer(layer.clone()))
    }

    /// Returns the intent of a quote.
    pub fn intent(&self) -> String {
        let never = service_fn(async |_: Request<RequestBody<Full<Bytes>>>| {
            Err::<http::Response<Full<Bytes>>, &str>("it is not paid")
        });
        let quote = now(self.layer.layer(never).oneshot(Request::new(Full::from(QUESTION)))).unwrap();
        quote.headers()["x-price-intent"].to_str().unwrap().to_owned()
    }

    /// Returns a layer that accepts a pass, and the token of a pass that is never used up.
    pub fn with_pass(&self) -> (X402Layer, String) {
        let pass = self.merchant.pass("calls", PRICE).unwrap().calls(u64::MAX).unwrap();
        let sells = pass.service().unwrap();
        let asks = |request: Request<Body>| now(sells.clone().oneshot(request)).unwrap();
        let quote = asks(Request::post("/pass").body(Body::empty()).unwrap());
        let intent = quote.headers()["x-price-intent"].to_str().unwrap().to_owned();
        let answer = asks(by_header(&proof(&intent, self.pay(UNITS))));
        let told = now(answer.into_body().collect()).unwrap().to_bytes();
        let told = std::str::from_utf8(&told).unwrap();
        let token = told.split('"').find(|part| part.starts_with("x402p_")).unwrap();
        (self.layer.clone().accept_pass(&pass).unwrap(), token.to_owned())
    }

    /// Makes a payment of this many base units, now.
    pub fn pay(&self, units: u128) -> TxHash {
        self.pay_at(units, self.start)
    }

    pub fn pay_at(&self, units: u128, time: u64) -> TxHash {
        let (token, payer) = (Asset::USDC_BASE.contract(), Address::new([0xaa; 20]));
        let units = Amount::from_base_units(units);
        self.chain.pay(self.merchant.recipient(), token, payer, units, ChainTime::from_unix(time))
    }
}

impl Shop {
    /// Makes a bound payment.
    pub fn pay_bound(&self, units: u128, binding: Binding) -> TxHash {
        let transaction = self.pay(units);
        let transfer = Transfer::new(Network::BASE, transaction, 0)
            .with_token(Asset::USDC_BASE.contract())
            .with_payer(Address::new([0xaa; 20]))
            .with_recipient(self.merchant.recipient())
            .with_amount(Amount::from_base_units(units))
            .with_block(self.start / 2, ChainTime::from_unix(self.start))
            .with_binding(binding);
        self.chain.mine(transaction, [transfer]);
        transaction
    }
}

/// Returns a proof of that payment, as JSON.
pub fn proof(intent: &str, transaction: TxHash) -> String {
    format!(r#"{{"intentId":"{intent}","txHash":"{transaction}"}}"#)
}

/// Returns the question with a proof in its header.
pub fn by_header(proof: &str) -> Request<Body> {
    let mut request = super::post(QUESTION);
    request.headers_mut().insert("x402-payment", proof.parse().unwrap());
    request
}

/// Returns the question with a proof in its body.
pub fn by_body(proof: &str) -> Request<Body> {
    super::post(format!("{},{}", proof.trim_end_matches('}'), QUESTION.trim_start_matches('{')))
}
