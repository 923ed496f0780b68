//! Official x402 clients, an official facilitator and the real token contract: software that others wrote, unmodified.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod buying;
mod channels;
mod channels_faults;
mod channels_permitted;
mod charged;
mod charged_ours;
mod circle;
mod clients;
mod discovery;
mod facilitator;
mod faults;
pub mod foreign;
mod messages;
mod metered;
mod metered_attacks;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/metered/main.rs"]
mod metered_example;
mod metered_ours;
#[cfg(unix)]
mod metered_processes;
mod mpp;
mod named;
mod networks;
mod program;
mod programs;
mod seller;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../served/mod.rs"]
mod served;
mod signatures;
mod stall;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod version_1;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/x402_clients.rs"]
mod x402_clients_example;

use std::time::Duration;

use serde_json::{Value, json};
use tower_x402::{
    protocol::{Address, Amount},
    testing::{DevAccount, DevChain, contracts, contracts::Word},
};

/// Nobody that the chain begins with.
pub const SELLER: Address = Address::new([0x5e; 20]);
/// In base units.
pub const PRICE: u128 = 490_000;
/// Of each payer, in base units.
pub const PURSE: u128 = 10_000_000;
/// For machines that are busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(60);

/// The token at the address of USDC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// That of every `DevChain`.
    Ours,
    /// Circle's bytecode.
    Circles,
}

/// Who pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// An account that is a key.
    Plain,
    /// An account that is a contract, whose owner's key is the plain account's (EIP-1271).
    Contract,
}

/// A chain whose time is the machine's, as the clients' is.
pub struct World {
    pub chain: DevChain,
    pub wallet: Address,
}

impl World {
    /// A chain with that token, of which both payers have some; `None` where Node is missing.
    pub async fn with(token: Token) -> Option<Self> {
        let _ = tools::node().await?;
        let chain = DevChain::builder()
            .install_with_npm(true)
            .mine_every(Duration::from_secs(1))
            .with_permit2()
            .with_channels()
            .start()
            .await
            .unwrap();
        let owner = chain.accounts()[1].address();
        let wallet = chain.deploy(contracts::WALLET.creation, &[Word::from(owner)]).await.unwrap();
        let world = Self { chain, wallet };
        match token {
            Token::Circles => drop(circle::install(&world.chain, &[(owner, PURSE), (wallet, PURSE)]).await),
            Token::Ours => world.chain.fund(owner, Amount::from_base_units(PURSE)).await.unwrap(),
        }
        Some(world)
    }

    /// Who signs for both payers.
    pub fn buyer(&self) -> &DevAccount {
        &self.chain.accounts()[1]
    }

    /// Who pays the gas.
    pub fn settler(&self) -> &DevAccount {
        &self.chain.accounts()[2]
    }

    pub fn address_of(&self, payer: Payer) -> Address {
        match payer {
            Payer::Plain => self.buyer().address(),
            Payer::Contract => self.wallet,
        }
    }

    pub async fn balance(&self, owner: Address) -> u128 {
        self.chain.usdc_balance(owner).await.unwrap().to_string().parse().unwrap()
    }
}

/// A question that every endpoint of `datasets` that takes one takes.
pub fn question() -> Value {
    json!({ "query": "What do visitors ask about pricing?" })
}
