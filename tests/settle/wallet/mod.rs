//! `WalletSettler` against the real `anvil`: what is settled, what is refused, and what goes wrong in between.

mod channels;
mod conformance;
mod limits;
mod nonces;
mod outages;
mod permits;
mod refusals;
mod served;
mod settling;
mod start;

use std::time::Duration;

use alloy::{
    primitives::{B256, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use serde_json::{Value, json};
use tower_x402::{
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash,
        v2::{Authorization, PaymentRequirements, Reason, SignedAuthorization},
    },
    settle::{
        SettleError, SettleErrorKind, Settlement, Settler, SignedPayment, TransactionRecorder, Validity, WalletSettler,
        WalletSettlerBuilder,
    },
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

use crate::support::node::{CANARY, Odd, Proxy};

const SELLER: Address = Address::new([0x5e; 20]);
fn price() -> Amount {
    Amount::from_base_units(490_000)
}
/// The most that a test waits for a real process.
const PATIENCE: Duration = Duration::from_secs(60);

/// A chain that mines on demand only.
async fn quiet() -> DevChain {
    let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await.unwrap();
    chain.mine(3).await.unwrap();
    chain
}

fn builder(chain: &DevChain) -> WalletSettlerBuilder {
    let settler = WalletSettler::builder().key(chain.accounts()[0].private_key()).final_after(0);
    settler.replace_after(Duration::from_secs(1)).max_fee_per_gas(1_000_000_000_000)
}

async fn settler(chain: &DevChain) -> WalletSettler {
    builder(chain).endpoint(chain.rpc_url()).connect().await.unwrap()
}

fn domain(chain: &DevChain) -> TokenDomain {
    TokenDomain::new(chain.usdc(), "USD Coin", "2")
}

/// The key of one of the chain's accounts; the first one settles.
fn key(chain: &DevChain, account: usize) -> PrivateKeySigner {
    chain.accounts()[account].private_key().parse().unwrap()
}

fn address(key: &PrivateKeySigner) -> Address {
    Address::new(key.address().into_array())
}

/// What `from` authorizes: the price, for the seller, within the hour.
async fn authorized(chain: &DevChain, from: Address, nonce: u8) -> Authorization {
    let now = chain.timestamp().await.unwrap();
    let window = (ChainTime::from_unix(0), now.after(Duration::from_secs(3_600)));
    Authorization::new(from, [nonce; 32]).paying(SELLER, price()).valid_between(window.0, window.1)
}

/// What a payer of this token signs, by the words of EIP-712.
fn digest(chain: &DevChain, authorization: &Authorization) -> B256 {
    let words = |words: &[Word]| keccak256(words.iter().map(|word| *word.as_bytes()).collect::<Vec<_>>().concat());
    let text = |text: &str| Word::new(keccak256(text).0);
    let domain = words(&[
        text("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
        text("USD Coin"),
        text("2"),
        u128::from(chain.chain_id()).into(),
        chain.usdc().into(),
    ]);
    let Authorization { from, to, value, valid_after, valid_before, nonce, .. } = authorization;
    let message = words(&[
        text(
            "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
        ),
        (*from).into(),
        (*to).into(),
        (*value).into(),
        u128::from(valid_after.unix()).into(),
        u128::from(valid_before.unix()).into(),
        Word::new(*nonce),
    ]);
    keccak256([&[0x19, 1][..], &domain[..], &message[..]].concat())
}

fn signed(chain: &DevChain, authorization: Authorization, key: &PrivateKeySigner) -> SignedPayment {
    let signature = key.sign_hash_sync(&digest(chain, &authorization)).unwrap().as_bytes();
    shown(chain, authorization, signature.to_vec())
}

fn shown(chain: &DevChain, authorization: Authorization, signature: Vec<u8>) -> SignedPayment {
    let required = PaymentRequirements::new(&Asset::USDC_BASE, price(), SELLER, 300).with_token_domain("USD Coin", "2");
    let signature = PaymentSignature::new(signature).unwrap();
    SignedPayment::new(SignedAuthorization::new(authorization, signature), required, domain(chain))
}

/// A payment by one of the chain's accounts.
async fn payment(chain: &DevChain, account: usize, nonce: u8) -> SignedPayment {
    let key = key(chain, account);
    signed(chain, authorized(chain, address(&key), nonce).await, &key)
}

/// Settles while blocks are mined, five a second.
async fn settled(chain: &DevChain, settler: &WalletSettler, payment: &SignedPayment) -> Settlement {
    while_mining(chain, settler.settle(payment, &TransactionRecorder::none())).await
}

async fn while_mining<T>(chain: &DevChain, work: impl Future<Output = T>) -> T {
    let mining = async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            chain.mine(1).await.unwrap();
        }
    };
    tokio::select! {
        done = work => done,
        () = mining => unreachable!(),
    }
}

fn transaction(outcome: Settlement) -> TxHash {
    let Settlement::Settled(transaction) = outcome else { panic!("{outcome:?}") };
    transaction
}

/// Waits until the chain has so many transactions of the settling account waiting.
async fn until_waiting(chain: &DevChain, count: u64) {
    until(async || count_of(chain, "pending").await - count_of(chain, "latest").await == count).await;
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it does not come to that");
}

/// How many transactions the settling account has made.
async fn count_of(chain: &DevChain, at: &str) -> u64 {
    let account = chain.accounts()[0].address().to_string();
    let count = chain.rpc("eth_getTransactionCount", json!([account, at])).await.unwrap();
    u64::from_str_radix(&count.as_str().unwrap()[2..], 16).unwrap()
}

async fn mined(chain: &DevChain, hash: TxHash) -> Value {
    chain.rpc("eth_getTransactionByHash", json!([hash.to_string()])).await.unwrap()
}

async fn paid(chain: &DevChain) -> u128 {
    let balance = chain.usdc_balance(SELLER).await.unwrap().to_be_bytes();
    u128::from_be_bytes(balance[16..].try_into().unwrap())
}

/// Makes whatever waits too cheap for the next block.
async fn raise_base_fee(chain: &DevChain) {
    chain.rpc("anvil_setNextBlockBaseFeePerGas", json!(["0x4a817c800"])).await.unwrap();
}

/// One of the chain's accounts uses up a nonce of its own without paying.
async fn cancel(chain: &DevChain, account: usize, nonce: u8) {
    let key = key(chain, account);
    let call = cancellation(chain, &key, address(&key), [nonce; 32]).await;
    chain.send(chain.accounts()[8].address(), chain.usdc(), &call).await.unwrap();
}

/// The call that uses up a nonce of this payer, signed by that key.
async fn cancellation(chain: &DevChain, key: &PrivateKeySigner, payer: Address, nonce: [u8; 32]) -> Vec<u8> {
    let kind = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    let message = keccak256([&kind[..], Word::from(payer).as_bytes(), &nonce].concat());
    let separator = chain.call(chain.usdc(), &contracts::calldata("DOMAIN_SEPARATOR()", &[])).await.unwrap();
    let signature = key.sign_hash_sync(&keccak256([&[0x19, 1][..], &separator, &message[..]].concat())).unwrap();
    let scalars = [signature.r(), signature.s()].map(|scalar| Word::new(scalar.to_be_bytes()));
    let v = Word::from(27 + u128::from(signature.v()));
    let words = [payer.into(), Word::new(nonce), v, scalars[0], scalars[1]];
    contracts::calldata("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)", &words)
}
