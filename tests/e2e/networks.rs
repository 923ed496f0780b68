//! One seller on two chains, and a client with a wallet on both.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    Chain, HealthError, Merchant,
    client::{
        Authorizer as _, Body, Budget, MemoryJournal, PayError, PayErrorKind, PayLayer, PaymentMethod, Purchase,
        ReqwestClient, WalletPayer,
    },
    ledger::MemoryLedger,
    protocol::{Address, Amount, Asset, Network, SealingKeys, TokenDomain, TxHash},
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use super::{
    market::{PRICE, SELLER, usdc},
    node,
    shop::{Answer, INSIGHTS, Shop},
};

/// A chain of its own, whose USDC has the address of that on Base.
const OTHER: u64 = 1337;
const METHODS: [PaymentMethod; 2] = [PaymentMethod::Authorization, PaymentMethod::Transfer];
/// In base units.
const PURSE: u128 = 10 * PRICE;

struct World {
    base: DevChain,
    other: DevChain,
}

impl World {
    async fn new() -> Self {
        let chain = |id| {
            let builder = DevChain::builder().install_with_npm(true).chain_id(id);
            builder.mine_every(Duration::from_secs(1)).start()
        };
        Self { base: chain(8453).await.unwrap(), other: chain(OTHER).await.unwrap() }
    }

    /// Takes signed payments on both, or only transfers.
    async fn shop(&self, method: PaymentMethod) -> Shop {
        let [base, other] = [self.verifier(&self.base).await, self.verifier(&self.other).await];
        let mut chain = Chain::new(network(&self.other)).asset(asset(&self.other)).verifier(other);
        let mut builder = Merchant::builder(SELLER).verifier(base);
        if method == PaymentMethod::Authorization {
            builder = builder.settler(self.settler(&self.base).await);
            chain = chain.settler(self.settler(&self.other).await);
        } else {
            builder = builder.accept_submitted_transfers();
        }
        let builder = builder.chain(chain).hold_unbound(Duration::ZERO).ledger(MemoryLedger::new());
        Shop::open(builder.sealing_keys(SealingKeys::new([7; 32]))).await
    }

    async fn verifier(&self, chain: &DevChain) -> EvmVerifier {
        EvmVerifier::builder().endpoints([chain.rpc_url()]).connect().await.unwrap()
    }

    async fn settler(&self, chain: &DevChain) -> WalletSettler {
        let key = chain.accounts()[2].private_key();
        WalletSettler::builder().key(key).endpoint(chain.rpc_url()).connect().await.unwrap()
    }

    fn payer(&self) -> Address {
        self.base.accounts()[1].address()
    }

    /// Gives the payer so much on either.
    async fn gives(&self, on_base: u128, on_other: u128) {
        for (chain, units) in [(&self.base, on_base), (&self.other, on_other)] {
            chain.fund(self.payer(), Amount::from_base_units(units)).await.unwrap();
        }
    }

    async fn wallet(&self) -> WalletPayer {
        let [base, other] = [self.wallet_on(&self.base).await, self.wallet_on(&self.other).await];
        base.and(other).unwrap()
    }

    async fn wallet_on(&self, chain: &DevChain) -> WalletPayer {
        let key = self.base.accounts()[1].private_key();
        WalletPayer::builder().key(key).endpoint(chain.rpc_url()).connect().await.unwrap()
    }

    /// What the seller and the payer have: on Base, and on the other chain.
    async fn takings(&self) -> [Amount; 2] {
        [self.base.usdc_balance(SELLER).await.unwrap(), self.other.usdc_balance(SELLER).await.unwrap()]
    }
}

fn network(chain: &DevChain) -> Network {
    Network::eip155(chain.chain_id())
}

fn asset(chain: &DevChain) -> Asset {
    Asset::new(network(chain), chain.usdc(), 6, "USDC")
}

/// A client that prefers this method.
async fn layer(world: &World, wallet: WalletPayer, method: PaymentMethod) -> PayLayer {
    let budget = Budget::in_assets([asset(&world.base), asset(&world.other)]).per_payment("1").per_day("10");
    let builder = PayLayer::builder(wallet, budget.build().unwrap(), MemoryJournal::new()).prefer(method);
    builder.patience(Duration::from_secs(60)).build().await.unwrap()
}

async fn buys(layer: &PayLayer, shop: &Shop) -> Result<(Value, Purchase), PayError> {
    let request = Request::post(shop.url(INSIGHTS)).header("content-type", "application/json");
    let request = request.body(Body::from(r#"{"query":"why"}"#)).unwrap();
    let answer: Response<_> =
        layer.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap()).oneshot(request).await?;
    assert_eq!(answer.status(), 200);
    let purchase = answer.extensions().get::<Purchase>().unwrap().clone();
    let body: Bytes = answer.into_body().collect().await.unwrap().to_bytes();
    Ok((serde_json::from_slice(&body).unwrap(), purchase))
}

#[tokio::test]
async fn a_client_pays_on_the_network_on_which_it_has_money() {
    let world = World::new().await;
    let wallet = world.wallet().await;
    let mut sold = [0, 0];
    for method in METHODS {
        let shop = world.shop(method).await;
        // The seller's order decides where both would do.
        for (on_base, on_other) in [(PRICE - 1, PRICE), (PURSE, 0), (PURSE, PURSE)] {
            world.gives(on_base, on_other).await;
            let (answer, purchase) = buys(&layer(&world, wallet.clone(), method).await, &shop).await.unwrap();
            let paid_on = usize::from(on_base < PRICE);
            sold[paid_on] += PRICE;
            let due = network([&world.base, &world.other][paid_on]);
            assert_eq!((purchase.network, purchase.paid_by, purchase.confirmed), (due, method, true));
            assert_eq!(
                (&answer["network"], &answer["payer"]),
                (&json!(due.to_string()), &json!(world.payer().to_string()))
            );
            assert_eq!(world.takings().await, sold.map(usdc), "paid on {due} by {method:?}");
        }
        assert_eq!(shop.runs(), 3);
    }
}

#[tokio::test]
async fn without_enough_on_any_network_nothing_is_paid() {
    let world = World::new().await;
    let wallet = world.wallet().await;
    world.gives(PRICE - 1, PRICE - 1).await;
    for method in METHODS {
        let shop = world.shop(method).await;
        let refused = buys(&layer(&world, wallet.clone(), method).await, &shop).await;
        assert!(refused.as_ref().is_err_and(|error| error.kind() == PayErrorKind::Payer), "{refused:?}");
        assert_eq!((shop.runs(), world.takings().await), (0, [usdc(0), usdc(0)]));
    }
}

/// The error of the seller's health, once it has noticed: a head that was read a moment ago counts for a while.
async fn unwell(shop: &Shop) -> HealthError {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match shop.merchant.health().await {
            Err(error) => return error,
            Ok(()) => assert!(Instant::now() < end, "it says that all is well"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// The nodes of one network are gone: both sides go on with the other.
#[tokio::test]
async fn the_nodes_of_one_network_stop_that_network_alone() {
    let world = World::new().await;
    let shops = [world.shop(METHODS[0]).await, world.shop(METHODS[1]).await];
    let wallet = world.wallet().await;
    world.gives(PURSE, PURSE).await;
    let World { base, other } = world;
    let (usdc_on_base, payer) = (base.usdc(), base.accounts()[1].address());
    let _gone = node::gone(base);
    for (method, shop) in METHODS.into_iter().zip(shops) {
        let assets = [Asset::new(Network::BASE, usdc_on_base, 6, "USDC"), asset(&other)];
        let budget = Budget::in_assets(assets).per_payment("1").per_day("10").build().unwrap();
        let builder = PayLayer::builder(wallet.clone(), budget, MemoryJournal::new()).prefer(method);
        let layer = builder.patience(Duration::from_secs(60)).build().await.unwrap();
        let (answer, purchase) = buys(&layer, &shop).await.unwrap();
        assert_eq!((purchase.network, purchase.paid_by), (network(&other), method));
        assert_eq!(answer["payer"], payer.to_string());
        let error = unwell(&shop).await;
        assert!(error.to_string().contains("eip155:8453"), "{error}");
    }
}

/// A quote is paid on both chains at once: one of the payments buys the answer, and the other one another answer.
#[tokio::test]
async fn of_payments_on_two_networks_for_one_quote_one_buys() {
    let world = World::new().await;
    let shop = world.shop(PaymentMethod::Transfer).await;
    for first_on_other in [false, true] {
        let quote = shop.quote(INSIGHTS).await;
        let pay = async |chain: &DevChain| {
            let hash = chain.transfer(world.payer(), SELLER, usdc(PRICE)).await.unwrap();
            chain.wait_until_mined(hash).await.unwrap();
            hash
        };
        let (on_base, on_other) = (pay(&world.base).await, pay(&world.other).await);
        let show = async |chain: &DevChain, hash: TxHash| {
            let proof =
                json!({"intentId": quote.intent.as_str(), "txHash": hash.to_string(), "chainId": chain.chain_id()});
            shop.post_with(INSIGHTS, &proof.to_string()).await
        };
        let answers = if first_on_other {
            [show(&world.other, on_other).await, show(&world.base, on_base).await]
        } else {
            let (base, other) = tokio::join!(show(&world.base, on_base), show(&world.other, on_other));
            [base, other]
        };
        let (sold, refused): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(|answer| answer.status == 200);
        assert_eq!((sold.len(), refused.len()), (1, 1));
        assert!(["already_consumed", "redemption_in_progress"].contains(&refused[0].code()), "{}", refused[0].body);
        let left = if sold[0].body["transaction"] == on_base.to_string() {
            (&world.other, on_other)
        } else {
            (&world.base, on_base)
        };
        let proof = json!({"intentId": shop.intent(INSIGHTS).await, "txHash": left.1.to_string(), "chainId": left.0.chain_id()});
        let _ = shop.post_with(INSIGHTS, &proof.to_string()).await.sold();
    }
    assert_eq!(shop.runs(), 4);
}

/// A signature is for one chain: on the other one, where the token has the same address, it is worth nothing.
#[tokio::test]
async fn the_tokens_of_two_networks_are_not_mixed_up() {
    let world = World::new().await;
    assert_eq!(world.base.usdc(), world.other.usdc());
    let wallet = world.wallet().await;
    world.gives(PURSE, 0).await;
    let domain = wallet.authorizes(&asset(&world.base), usdc(PRICE)).await.unwrap();
    assert_eq!(domain, TokenDomain::usdc_of(Network::BASE));
    assert_eq!(wallet.authorizes(&asset(&world.other), usdc(PRICE)).await.unwrap(), None);
}
