//! A seller by channels on a scripted chain, with any ledger, and payers whose vouchers a key signs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use axum::{Router, body::Body, routing::get};
use http::{HeaderValue, Request, Response, header::HOST};
use tower::ServiceExt as _;
use tower_x402::{
    ChannelPolicy, Merchant,
    ledger::AnyLedger,
    protocol::{
        Address, Amount, ChainTime, Network, PaymentSignature, SealingKeys,
        channel::{ChannelConfig, ChannelId, ChannelPayload, Voucher},
        headers::PAYMENT_SIGNATURE,
        v2::{self, Authorization, PaymentOption, PaymentPayload, PaymentRequired, SignedAuthorization},
    },
    settle::ChannelOnChain,
    testing::{ScriptedChannels, ScriptedSettler, ScriptedVerifier},
};

/// The price of an answer, in base units.
pub const PRICE: u128 = 100;
const ANSWER: &str = "the answer";
/// How far the chain is ahead of this machine's clock.
const AHEAD: u64 = 2 * 60 * 60;

pub struct Market {
    pub merchant: Merchant,
    pub channels: ScriptedChannels,
    pub route: Router,
    start: u64,
}

impl Market {
    pub async fn open(ledger: AnyLedger) -> Self {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let chain = ScriptedVerifier::new(ChainTime::from_unix(start - 3_600));
        let channels = ScriptedChannels::new(Address::new([0xfa; 20]));
        let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap())
            .hold_unbound(Duration::ZERO)
            .verifier(chain.clone())
            .settler(ScriptedSettler::new(chain.clone()))
            .channel_settler(channels.clone())
            .channel_policy(ChannelPolicy::new())
            .ledger(ledger)
            .sealing_keys(SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap();
        chain.set_head(ChainTime::from_unix(start + AHEAD));
        let layer = merchant.charge("answer", "0.0001 USDC").unwrap();
        let route = Router::new().route("/answer", get(async || ANSWER).route_layer(layer));
        Self { merchant, channels, route, start }
    }

    pub async fn asks(&self, payment: Option<HeaderValue>) -> Response<Body> {
        self.route.clone().oneshot(request(payment).map(|()| Body::empty())).await.unwrap()
    }

    async fn offers<T>(&self, wanted: impl Fn(PaymentOption) -> Option<T>) -> T {
        let answer = self.asks(None).await;
        let required = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
        required.accepts.into_iter().find_map(wanted).unwrap()
    }

    /// Returns a payment by its own authorization, which `exact` accepts. The scripted settler checks no signature. A
    /// single payer may have only so many payments pending, so neighbours use different ones.
    pub async fn signs_exact(&self, number: u64) -> HeaderValue {
        let exact = |option| match option {
            PaymentOption::Exact(offer) => Some(offer),
            _ => None,
        };
        let offer: v2::PaymentRequirements = self.offers(exact).await;
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        let payer = Address::new([0x80 | number.to_be_bytes()[7]; 20]);
        let authorization = Authorization::new(payer, nonce)
            .paying(offer.pay_to, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(self.start + 2 * AHEAD));
        let signature = PaymentSignature::new([0x11; 65]).unwrap();
        PaymentPayload::new(offer, SignedAuthorization::new(authorization, signature)).to_header()
    }
}

/// Returns the question with its payment.
pub fn request(payment: Option<HeaderValue>) -> Request<()> {
    let mut request = Request::get("/answer").header(HOST, "shop.example").body(()).unwrap();
    if let Some(payment) = payment {
        request.headers_mut().insert(PAYMENT_SIGNATURE, payment);
    }
    request
}

/// A channel of the single payer, identified by its salt, and the total signed in it.
pub struct Payer {
    key: PrivateKeySigner,
    salt: [u8; 32],
    pub total: u128,
}

impl Payer {
    /// Opens a channel that holds more than will be spent.
    pub async fn open(market: &Market, number: u64) -> Self {
        let mut salt = [0; 32];
        salt[..8].copy_from_slice(&number.to_be_bytes());
        let payer = Self { key: PrivateKeySigner::from_slice(&[5; 32]).unwrap(), salt, total: 0 };
        let holds = Amount::from_base_units(u128::from(u64::MAX));
        market.channels.set_state(payer.id(market).await, ChannelOnChain::new(holds, Amount::ZERO));
        payer
    }

    pub async fn id(&self, market: &Market) -> ChannelId {
        let (_, config) = self.offer(market).await;
        config.id(Network::BASE)
    }

    async fn offer(&self, market: &Market) -> (v2::ChannelRequirements, ChannelConfig) {
        let channel = |option| match option {
            PaymentOption::Channel(offer) => Some(offer),
            _ => None,
        };
        let offer = market.offers(channel).await;
        let config = offer.channel_of(Address::new(self.key.address().into_array()), self.salt).unwrap();
        (offer, config)
    }

    /// Returns the next voucher, for its own quote.
    pub async fn signs(&mut self, market: &Market) -> HeaderValue {
        self.total += PRICE;
        let (offer, channel_config) = self.offer(market).await;
        let id = channel_config.id(Network::BASE);
        let digest = B256::from(id.voucher_digest(self.total, Network::BASE));
        let signature = self.key.sign_hash_sync(&digest).unwrap().as_bytes();
        let voucher = Voucher::new(id, self.total, PaymentSignature::new(signature).unwrap());
        PaymentPayload::new(offer, ChannelPayload::Voucher { channel_config, voucher }).to_header()
    }
}
