//! A chain to pay on, whose blocks and time move only when a test says so.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower_x402::{
    Merchant, MerchantBuilder,
    clock::Clock as _,
    ledger::MemoryLedger,
    protocol::{Address, Amount, ChainTime, SealingKeys, TxHash},
    testing::{DevChain, FakeClock, contracts},
    verify::{EvmVerifier, EvmVerifierBuilder},
};

use super::shop::Shop;

/// Who is paid: nobody that the chain begins with.
pub const SELLER: Address = Address::new([0x5e; 20]);
/// What an answer costs, in base units.
pub const PRICE: u128 = 490_000;
/// Where payers of payments that are too old are sent.
pub const CONTACT: &str = "help@seller.example";

/// How many chains of these tests run at once.
static PLACES: Semaphore = Semaphore::const_new(6);

/// A chain that mines on demand, and one clock for everybody, which goes with its blocks. So all settings may stay as
/// sellers have them by default, and no test waits for time to pass.
pub struct Market {
    pub chain: DevChain,
    pub clock: FakeClock,
    _place: SemaphorePermit<'static>,
}

impl Market {
    pub async fn new() -> Self {
        Self::on(DevChain::builder()).await
    }

    pub async fn on(builder: tower_x402::testing::DevChainBuilder) -> Self {
        let place = PLACES.acquire().await.unwrap();
        let chain = builder.install_with_npm(true).mine_every(None).start().await.unwrap();
        let market = Self { clock: FakeClock::new(chain.timestamp().await.unwrap().unix()), chain, _place: place };
        market.block().await;
        market
    }

    /// One of the ten who have ether and USDC.
    pub fn buyer(&self, index: usize) -> Address {
        self.chain.accounts()[index].address()
    }

    pub async fn now(&self) -> u64 {
        self.chain.timestamp().await.unwrap().unix()
    }

    /// Mines a block, two seconds after the last one.
    pub async fn block(&self) {
        self.block_at(self.now().await + 2).await;
    }

    /// Mines a block of that time.
    pub async fn block_at(&self, time: u64) {
        self.chain.set_next_block_timestamp(ChainTime::from_unix(time)).await.unwrap();
        self.chain.mine(1).await.unwrap();
        assert_eq!(self.now().await, time);
        self.sync(time);
    }

    /// Lets everybody's clock show what the chain's does, and the time between two blocks pass at least.
    fn sync(&self, time: u64) {
        self.clock.advance(Duration::from_secs(time.saturating_sub(self.clock.unix()).max(2)));
        self.clock.set_unix(time);
    }

    /// Replaces the last blocks, as [`DevChain::reorg`] does.
    pub async fn reorg(&self, depth: u64, blocks: &[&[TxHash]]) {
        self.chain.reorg(depth, blocks).await.unwrap();
        self.sync(self.now().await);
    }

    pub async fn deploy(&self, contract: contracts::Contract) -> Address {
        self.deploy_with(contract, &[]).await
    }

    pub async fn deploy_with(&self, contract: contracts::Contract, arguments: &[contracts::Word]) -> Address {
        let address = self.chain.deploy(contract.creation, arguments).await.unwrap();
        self.sync(self.now().await);
        address
    }

    /// An ordinary transfer of USDC to the seller, not mined yet.
    pub async fn send(&self, from: Address, units: u128) -> TxHash {
        self.chain.transfer(from, SELLER, usdc(units)).await.unwrap()
    }

    /// The same, mined.
    pub async fn pay(&self, units: u128) -> TxHash {
        let transaction = self.send(self.buyer(0), units).await;
        self.block().await;
        transaction
    }

    /// Any call of a contract, mined.
    pub async fn call(&self, from: Address, to: Address, calldata: &[u8]) -> TxHash {
        let transaction = self.chain.send(from, to, calldata).await.unwrap();
        self.block().await;
        transaction
    }

    pub async fn receipt(&self, transaction: TxHash) -> Value {
        self.chain.receipt(transaction).await.unwrap().expect("mined")
    }

    /// What the seller has.
    pub async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }

    /// The default verifier, by this market's clock.
    pub fn verifier(&self) -> EvmVerifierBuilder {
        self.verifier_at(self.chain.rpc_url())
    }

    /// The same, over that endpoint.
    pub fn verifier_at(&self, url: &str) -> EvmVerifierBuilder {
        EvmVerifier::builder().endpoints([url]).clock(self.clock.clone())
    }

    pub fn ledger(&self) -> MemoryLedger {
        MemoryLedger::with_clock(self.clock.clone())
    }

    /// A merchant with the default settings and a ledger of its own, by this market's clock.
    pub async fn merchant(&self) -> MerchantBuilder {
        self.merchant_paid_at(SELLER).await
    }

    pub async fn merchant_paid_at(&self, recipient: Address) -> MerchantBuilder {
        Merchant::builder(recipient)
            .hold_unbound(Duration::ZERO)
            .verifier(self.verifier().connect().await.unwrap())
            .ledger(self.ledger())
            .clock(self.clock.clone())
            .sealing_keys(SealingKeys::new([7; 32]))
            .contact(CONTACT)
    }

    /// That merchant's shop.
    pub async fn shop(&self) -> Shop {
        Shop::open(self.merchant().await).await
    }
}

pub fn usdc(units: u128) -> Amount {
    Amount::from_base_units(units)
}
