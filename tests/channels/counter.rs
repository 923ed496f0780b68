//! The seller, and a payer with a key that signs vouchers.

use alloy::{
    primitives::B256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use axum::body::Body;
use http::{Request, Response};
use tower_x402::{
    ChannelPolicy, Charge, MerchantBuilder, RequestBody, X402, X402Layer,
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature,
        channel::{ChannelConfig, ChannelDeposit, ChannelId, ChannelPayload, Erc3009Deposit, Permit2Deposit, Voucher},
        headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE},
        v2::{ChannelRequirements, PaymentOption, PaymentPayload, PaymentRequired, SettleResponse},
    },
    settle::ChannelOnChain,
    testing::ScriptedChannels,
};

use crate::support::{Answer, Counter, Handler, NOW, Shop, answering, ask, layered};

/// What an answer costs, or at most.
pub const PRICE: u128 = 100;

pub fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

/// A seller with channels, and one payer.
pub struct Stall {
    pub shop: Shop,
    pub channels: ScriptedChannels,
    pub key: PrivateKeySigner,
}

impl Stall {
    pub async fn open() -> Self {
        Self::open_with(ChannelPolicy::new()).await
    }

    pub async fn open_with(policy: ChannelPolicy) -> Self {
        Self::open_in(&[], policy, |_| ()).await
    }

    /// The same in these tokens, instead of USDC.
    pub async fn open_in(assets: &[Asset], policy: ChannelPolicy, script: impl FnOnce(&ScriptedChannels)) -> Self {
        let channels = ScriptedChannels::new(Address::new([0xfa; 20]));
        script(&channels);
        let settler = channels.clone();
        let shop = Shop::open_with(|builder| {
            let builder = assets.iter().cloned().fold(builder, MerchantBuilder::asset);
            builder.channel_settler(settler).channel_policy(policy)
        });
        let shop = shop.await;
        Self { shop, channels, key: PrivateKeySigner::from_slice(&[5; 32]).unwrap() }
    }

    pub fn payer(&self) -> Address {
        Address::new(self.key.address().into_array())
    }

    /// A route at a fixed price, whose answers are delivered again.
    pub fn fixed(&self) -> X402Layer {
        self.shop.merchant.charge("answer", units(PRICE)).unwrap()
    }

    pub fn metered(&self) -> X402Layer {
        self.shop.merchant.charge_up_to("words", "0.0001 USDC").unwrap()
    }

    /// The payer's channel by this offer, with so much in it on the chain.
    pub fn channel(&self, offer: &ChannelRequirements, balance: u128) -> ChannelConfig {
        let config = offer.channel_of(self.payer(), [0; 32]).unwrap();
        self.channels.set_state(config.id(Network::BASE), ChannelOnChain::new(units(balance), units(0)));
        config
    }

    /// A signed voucher.
    pub fn voucher(&self, config: &ChannelConfig, total: u128) -> Voucher {
        let id = config.id(Network::BASE);
        let digest = B256::from(id.voucher_digest(total, Network::BASE));
        let signature = self.key.sign_hash_sync(&digest).unwrap().as_bytes();
        Voucher::new(id, total, PaymentSignature::new(signature).unwrap())
    }

    pub fn pays(&self, offer: &ChannelRequirements, config: &ChannelConfig, total: u128) -> Request<Body> {
        let voucher = self.voucher(config, total);
        shows(offer, ChannelPayload::Voucher { channel_config: *config, voucher })
    }

    pub fn deposits(
        &self,
        offer: &ChannelRequirements,
        config: &ChannelConfig,
        total: u128,
        amount: u128,
    ) -> Request<Body> {
        let voucher = self.voucher(config, total);
        let times = [0, NOW + 600].map(ChainTime::from_unix);
        let signed = Erc3009Deposit::new([9; 32], times, PaymentSignature::new([7; 65]).unwrap());
        let deposit = ChannelDeposit::new(amount, signed);
        shows(offer, ChannelPayload::Deposit { channel_config: *config, voucher, deposit })
    }

    /// The same by Permit2.
    pub fn deposits_by_permit2(
        &self,
        offer: &ChannelRequirements,
        config: &ChannelConfig,
        total: u128,
        amount: u128,
    ) -> Request<Body> {
        let (id, until) = (config.id(Network::BASE), ChainTime::from_unix(NOW + 600));
        let any = PaymentSignature::new([7; 65]).unwrap();
        let permit = Permit2Deposit::new(config, (id, amount), [9; 32], until, any);
        let (voucher, deposit) = (self.voucher(config, total), ChannelDeposit::new(amount, permit));
        shows(offer, ChannelPayload::Deposit { channel_config: *config, voucher, deposit })
    }

    pub fn asks_back(
        &self,
        offer: &ChannelRequirements,
        config: &ChannelConfig,
        total: u128,
        amount: Option<u128>,
    ) -> Request<Body> {
        let voucher = self.voucher(config, total);
        shows(offer, ChannelPayload::Refund { channel_config: *config, voucher, amount })
    }
}

pub fn shows(offer: &ChannelRequirements, payload: ChannelPayload) -> Request<Body> {
    let payment = PaymentPayload::new(offer.clone(), payload);
    Request::get("/answer").header(PAYMENT_SIGNATURE, payment.to_header()).body(Body::empty()).unwrap()
}

pub fn plain() -> Request<Body> {
    Request::get("/answer").body(Body::empty()).unwrap()
}

/// What a 402 asks of channels.
pub fn channel_in(answer: &Answer) -> ChannelRequirements {
    channels_in(answer).into_iter().next().expect("channels are offered")
}

/// The same of each token.
pub fn channels_in(answer: &Answer) -> Vec<ChannelRequirements> {
    assert_eq!(answer.status(), 402);
    let required = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
    let channel = |option| match option {
        PaymentOption::Channel(offer) => Some(offer),
        _ => None,
    };
    required.accepts.into_iter().filter_map(channel).collect()
}

pub async fn offered<S: Handler>(service: &X402<S>) -> ChannelRequirements {
    channel_in(&ask(service, plain()).await)
}

/// Why a voucher was refused.
pub fn refused(answer: &Answer) -> String {
    assert_eq!(answer.status(), 402);
    PaymentRequired::from_headers(answer.headers()).unwrap().unwrap().error.unwrap()
}

/// What was told of a sale: the charge, and everything charged so far.
pub fn told(answer: &Answer) -> (u128, u128) {
    assert_eq!(answer.status(), 200, "{:?}", answer.headers());
    let told = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
    assert!(told.success);
    let charged = told.channel_state().unwrap().charged_cumulative_amount.unwrap();
    (number(told.charged_amount().unwrap()), number(charged))
}

pub fn number(amount: Amount) -> u128 {
    amount.to_string().parse().unwrap()
}

/// Answers with the number of its run, and says this of its charge.
pub fn counting(counter: &Counter, charge: Option<u128>) -> impl Handler + use<> {
    let runs = counter.clone();
    answering(counter.clone(), move |_: &Request<RequestBody<Body>>| {
        let mut answer = Response::new(Body::from(format!("run {}", runs.runs())));
        if let Some(charge) = charge {
            answer.extensions_mut().insert(Charge(units(charge)));
        }
        answer
    })
}

/// A service on a fixed price, its handler's runs, an offer of it, and the payer's channel with 1,000 in it.
pub async fn serving(stall: &Stall) -> (X402<impl Handler + use<>>, Counter, ChannelRequirements, ChannelConfig) {
    let counter = Counter::default();
    let service = layered(&stall.fixed(), counting(&counter, None));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    (service, counter, offer, config)
}

/// Neither a bill nor a word of the payer's vouchers.
pub fn is_silent(answer: &Answer) {
    assert!(!answer.headers().contains_key(PAYMENT_REQUIRED));
    assert!(!answer.headers().contains_key(PAYMENT_RESPONSE));
}

pub fn id(config: &ChannelConfig) -> ChannelId {
    config.id(Network::BASE)
}
