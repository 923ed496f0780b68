//! `WalletPayer` against the real `anvil`, and against nodes that lag, lie and hang.

mod authorizations;
mod fates;
mod fees;
mod liars;
mod odd_nodes;
mod paying;
mod tags;

use crate::support::node;
use alloy::{
    consensus::{TxEip1559, TxEnvelope},
    eips::eip2718::Decodable2718 as _,
};
use serde_json::{Value, json};
use tower_x402::{
    client::{Payer, PayerError, PreparedTransfer, PurchaseId, TransferRequest, TransferStatus, WalletPayer},
    protocol::{Address, Amount, Asset, Network, TxHash},
    testing::DevChain,
};

const SELLER: Address = Address::new([0x5e; 20]);
const ASK: u128 = 490_000;

/// A chain that mines on demand only, twenty blocks old.
async fn quiet() -> DevChain {
    let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap();
    chain.mine(20).await.unwrap();
    chain
}

async fn wallet(chain: &DevChain) -> WalletPayer {
    WalletPayer::builder().key(chain.accounts()[0].private_key()).endpoint(chain.rpc_url()).connect().await.unwrap()
}

fn usdc(units: u128) -> Amount {
    Amount::from_base_units(units)
}

fn payment(assets: impl IntoIterator<Item = Asset>) -> TransferRequest {
    TransferRequest::new(PurchaseId::new([1; 16]), Network::BASE, SELLER, usdc(ASK), assets)
}

fn in_usdc() -> TransferRequest {
    payment([Asset::USDC_BASE])
}

/// The usual payment, of a purchase by its intent.
fn payment_for(intent: &str) -> TransferRequest {
    in_usdc().tagged(intent)
}

/// What a payment says on the chain.
fn raw(prepared: &PreparedTransfer) -> TxEip1559 {
    let bytes = const_hex::decode(prepared.payload()).unwrap();
    let TxEnvelope::Eip1559(signed) = TxEnvelope::decode_2718_exact(&bytes).unwrap() else { unreachable!() };
    signed.strip_signature()
}

/// A transfer of the wallet's account by somebody else with the same key, mined.
async fn used_elsewhere(chain: &DevChain) {
    chain.transfer(chain.accounts()[0].address(), SELLER, usdc(1)).await.unwrap();
    chain.mine(1).await.unwrap();
}

fn hash(prepared: &PreparedTransfer) -> TxHash {
    prepared.transaction().unwrap()
}

async fn fate(wallet: &WalletPayer, prepared: &[PreparedTransfer]) -> TransferStatus {
    wallet.status(prepared).await.unwrap()
}
