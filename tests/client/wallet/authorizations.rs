//! Authorizations (EIP-3009) of `WalletPayer`: signed for the token of a real chain, and found again by nodes that lag, lie and hang.

mod cancelling;
mod liars;
mod searching;
mod signing;
mod voiding;

use std::time::{Duration, Instant};

use alloy::primitives::Signature;
use tower_x402::{
    client::{AuthorizationRequest, AuthorizationStatus, Authorizer as _, PreparedAuthorization, PurchaseId},
    protocol::{ChainTime, TokenDomain},
    testing::contracts::Word,
};

use super::{
    liars::through,
    node::{CANARY, Odd, Proxy},
    *,
};
use crate::support::authorization;

const MINUTE: Duration = Duration::from_secs(60);

/// A request of the usual payment, as a layer with the chain's own clock makes it.
async fn request(chain: &DevChain) -> AuthorizationRequest {
    let network = Network::eip155(chain.chain_id());
    let domain = TokenDomain::new(chain.usdc(), "USD Coin", "2");
    let now = chain.timestamp().await.unwrap();
    AuthorizationRequest::new(PurchaseId::new([1; 16]), network, domain, SELLER, usdc(ASK), now)
}

/// The usual payment, signed, for a minute.
async fn authorized(chain: &DevChain, wallet: &WalletPayer) -> PreparedAuthorization {
    let signed = wallet.authorize(&request(chain).await).await.unwrap();
    PreparedAuthorization::new(wallet.network(), chain.usdc(), signed, "{}")
}

/// The call that settles it.
fn call(prepared: &PreparedAuthorization) -> Vec<u8> {
    let signed = &prepared.signed;
    let terms = &signed.authorization;
    let time = |time: ChainTime| Word::from(u128::from(time.unix()));
    let words = [
        terms.from.into(),
        terms.to.into(),
        terms.value.into(),
        time(terms.valid_after),
        time(terms.valid_before),
        Word::new(terms.nonce),
    ];
    authorization::call(&words, &Signature::from_raw(signed.signature.as_bytes()).unwrap())
}

/// Sends the transaction that settles it, by a seller who pays the gas.
async fn sent(chain: &DevChain, prepared: &PreparedAuthorization) -> TxHash {
    chain.send(chain.accounts()[8].address(), prepared.token, &call(prepared)).await.unwrap()
}

/// Settles it in a block of its own.
async fn settled(chain: &DevChain, prepared: &PreparedAuthorization) -> TxHash {
    let hash = sent(chain, prepared).await;
    chain.mine(1).await.unwrap();
    assert_eq!(chain.receipt(hash).await.unwrap().unwrap()["status"], "0x1");
    hash
}

fn end(prepared: &PreparedAuthorization) -> ChainTime {
    prepared.signed.authorization.valid_before
}

/// What is told of one that was signed a minute before its end.
async fn told(wallet: &WalletPayer, prepared: &PreparedAuthorization) -> Result<AuthorizationStatus, PayerError> {
    wallet.authorization_status(prepared, ChainTime::from_unix(end(prepared).unix() - 60)).await
}

async fn known(wallet: &WalletPayer, prepared: &PreparedAuthorization) -> AuthorizationStatus {
    told(wallet, prepared).await.unwrap()
}

/// Lets its time end, and mines so many blocks from there.
async fn expire(chain: &DevChain, prepared: &PreparedAuthorization, blocks: u64) {
    chain.set_next_block_timestamp(end(prepared)).await.unwrap();
    chain.mine(blocks).await.unwrap();
}

const fn used(by: TxHash) -> AuthorizationStatus {
    AuthorizationStatus::Used { transaction: Some(by) }
}

const USED_SOMEHOW: AuthorizationStatus = AuthorizationStatus::Used { transaction: None };

fn is_unavailable(answer: &Result<AuthorizationStatus, PayerError>) -> bool {
    matches!(answer, Err(PayerError::Unavailable(_)))
}

/// What a token says of a nonce that nobody used.
fn no() -> Odd {
    Odd::Result(json!(format!("0x{}", "0".repeat(64))))
}
