//! Against a real chain: whether an authorization was used, by what, and that nobody is told to sign anew while it is.

use alloy::{
    primitives::keccak256,
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use tower_x402::{
    testing::{
        DevChain,
        contracts::{self, Word},
    },
    verify::NonceState,
};

use super::{
    anvil::{PRICE, look, start},
    *,
};
use crate::support::authorization::authorization;

const NONCE: [u8; 32] = [0x42; 32];

fn payer(chain: &DevChain) -> PrivateKeySigner {
    chain.accounts()[1].private_key().parse().expect("a key")
}

async fn state(chain: &DevChain, verifier: &EvmVerifier, since: ChainTime) -> Result<NonceState, VerifyErrorKind> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    let payer = chain.accounts()[1].address();
    verifier.nonce_state(chain.usdc(), payer, &NONCE, since).await.map_err(kind)
}

/// Sends what the payer signed, from an account of the seller's.
async fn settle(chain: &DevChain, to: Address) -> TxHash {
    let call = authorization(chain, &payer(chain), to, Amount::from_base_units(PRICE), NONCE);
    chain.send(chain.accounts()[2].address(), chain.usdc(), &call).await.expect("sent")
}

async fn cancel(chain: &DevChain) -> TxHash {
    let payer = payer(chain);
    let account = Word::from(chain.accounts()[1].address());
    let separator = chain.call(chain.usdc(), &contracts::calldata("DOMAIN_SEPARATOR()", &[])).await.expect("a word");
    let kind = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    let message = keccak256([&kind[..], account.as_bytes(), &NONCE].concat());
    let digest = keccak256([&[0x19, 1][..], &separator, &message[..]].concat());
    let signature = payer.sign_hash_sync(&digest).expect("signs");
    let [r, s] = [signature.r(), signature.s()].map(|scalar| Word::new(scalar.to_be_bytes()));
    let v = Word::from(27 + u128::from(signature.v()));
    let function = "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)";
    let call = contracts::calldata(function, &[account, Word::new(NONCE), v, r, s]);
    chain.send(chain.accounts()[2].address(), chain.usdc(), &call).await.expect("sent")
}

#[tokio::test]
async fn an_authorization_from_unused_to_paid() {
    let (chain, verifier) = start().await;
    let since = chain.timestamp().await.expect("a time");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Unused));
    let transaction = settle(&chain, RECIPIENT).await;
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Unused), "in no block yet");
    chain.mine(1).await.expect("mined");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Used(transaction)));
    let Ok(Verdict::Paid { transfers, .. }) = look(&verifier, transaction).await else { panic!("not paid") };
    let payer = chain.accounts()[1].address();
    let name = tower_x402::protocol::PaymentId::of_authorization(Network::BASE, chain.usdc(), payer, NONCE);
    assert_eq!((transfers.len(), transfers[0].payment_id()), (1, name));
    // Other nonces, payers and tokens are other authorizations.
    for (token, payer, nonce) in
        [(chain.usdc(), payer, [0x43; 32]), (chain.usdc(), chain.accounts()[2].address(), NONCE)]
    {
        assert_eq!(verifier.nonce_state(token, payer, &nonce, since).await, Ok(NonceState::Unused));
    }
    let coin = Address::new([0x77; 20]);
    chain.set_code(coin, contracts::USDC.runtime).await.expect("set");
    assert_eq!(verifier.nonce_state(coin, payer, &NONCE, since).await, Ok(NonceState::Unused));
}

#[tokio::test]
async fn one_that_paid_another_is_told_with_its_transaction() {
    let (chain, verifier) = start().await;
    let since = chain.timestamp().await.expect("a time");
    let transaction = settle(&chain, Address::new([0x99; 20])).await;
    chain.mine(3).await.expect("mined");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Used(transaction)));
    assert_eq!(look(&verifier, transaction).await, Ok(Verdict::NoTransfer));
}

#[tokio::test]
async fn one_that_was_cancelled_is_spent() {
    let (chain, verifier) = start().await;
    let since = chain.timestamp().await.expect("a time");
    cancel(&chain).await;
    chain.mine(1).await.expect("mined");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Spent));
    let receipt = chain.wait_until_mined(settle(&chain, RECIPIENT).await);
    let (receipt, mined) = tokio::join!(receipt, chain.mine(1));
    mined.expect("mined");
    assert_eq!(receipt.expect("a receipt")["status"], "0x0", "it cannot be used any more");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Spent));
}

#[tokio::test]
async fn one_that_was_used_long_ago_is_found_as_far_back_as_is_asked() {
    let (chain, verifier) = start().await;
    let since = chain.timestamp().await.expect("a time");
    let transaction = settle(&chain, RECIPIENT).await;
    // More than are searched at once.
    chain.mine(2_100).await.expect("mined");
    chain.increase_time(Duration::from_secs(9_000)).await.expect("increased");
    chain.mine(70).await.expect("mined");
    let now = chain.timestamp().await.expect("a time");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Used(transaction)));
    assert_eq!(state(&chain, &verifier, now).await, Ok(NonceState::Spent));
}

#[tokio::test]
async fn a_reorganisation_makes_it_unused_again() {
    let (chain, verifier) = start().await;
    let since = chain.timestamp().await.expect("a time");
    let transaction = settle(&chain, RECIPIENT).await;
    chain.mine(2).await.expect("mined");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Used(transaction)));
    chain.reorg(2, &[]).await.expect("reorganised");
    assert_eq!(state(&chain, &verifier, since).await, Ok(NonceState::Unused));
}
