//! Against a real chain: who a payment is bound to, and who signs for it, where accounts are keys, contracts, or both.

use std::time::Instant;

use alloy::{
    consensus::{SignableTransaction as _, TxEip1559, TxEip7702},
    eips::{eip2718::Encodable2718 as _, eip7702::Authorization},
    network::TxSignerSync as _,
    primitives::{TxKind, U256},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use serde_json::json;
use tower_x402::{
    protocol::{Binding, IntentId, PaymentId, PaymentSignature, PaymentTag, redemption_message},
    testing::{
        DevAccount, DevChain,
        contracts::{self, Oddity, Word},
    },
};

use super::{
    anvil::{PRICE, look, start},
    *,
};
use crate::support::authorization::authorization;

const SECRET: &str = "AAAAAAAAAAAAAAAA";

fn price() -> Amount {
    Amount::from_base_units(PRICE)
}

fn tag() -> PaymentTag {
    PaymentTag::of(SECRET)
}

fn tagged(call_data: &[u8]) -> Vec<u8> {
    [call_data, &tag().to_call_data()].concat()
}

fn key_of(account: &DevAccount) -> PrivateKeySigner {
    account.private_key().parse().expect("a key")
}

fn address_of(key: &PrivateKeySigner) -> Address {
    Address::new(key.address().into_array())
}

fn message(transaction: TxHash) -> String {
    redemption_message(Network::BASE, transaction, &IntentId::new(SECRET).expect("an intent"))
}

fn signature(key: &PrivateKeySigner, message: &str) -> PaymentSignature {
    let signature = key.sign_message_sync(message.as_bytes()).expect("signs");
    PaymentSignature::new(signature.as_bytes().to_vec()).expect("65 bytes")
}

/// Has it mined, and gives its transfers.
async fn mined(chain: &DevChain, verifier: &EvmVerifier, transaction: TxHash) -> Vec<Transfer> {
    chain.mine(1).await.expect("mined");
    match look(verifier, transaction).await {
        Ok(Verdict::Paid { transfers, .. }) => transfers,
        other => panic!("{other:?}"),
    }
}

/// Sends what this key signs itself, with its delegation to a contract, if there is one (EIP-7702).
async fn send_signed(
    chain: &DevChain,
    key: &PrivateKeySigner,
    to: Address,
    call_data: &[u8],
    delegation: Option<(&PrivateKeySigner, Address)>,
) -> TxHash {
    let nonce = chain.rpc("eth_getTransactionCount", json!([key.address(), "pending"])).await.expect("a count");
    let nonce = u64::from_str_radix(nonce.as_str().expect("hex").trim_start_matches("0x"), 16).expect("a number");
    let (chain_id, gas_limit, max_fee_per_gas, input) =
        (chain.chain_id(), 1_000_000, 20_000_000_000, call_data.to_vec().into());
    let to: alloy::primitives::Address = to.as_bytes().into();
    let raw = match delegation {
        None => {
            let to = TxKind::Call(to);
            let mut sent = TxEip1559 { chain_id, nonce, gas_limit, max_fee_per_gas, to, input, ..TxEip1559::default() };
            let signature = key.sign_transaction_sync(&mut sent).expect("signs");
            sent.into_signed(signature).encoded_2718()
        }
        Some((account, contract)) => {
            let delegation =
                Authorization { chain_id: U256::from(chain_id), address: contract.as_bytes().into(), nonce: 0 };
            let signature = account.sign_hash_sync(&delegation.signature_hash()).expect("signs");
            let authorization_list = vec![delegation.into_signed(signature)];
            let sent = TxEip7702 { chain_id, nonce, gas_limit, max_fee_per_gas, to, input, ..TxEip7702::default() };
            let mut sent = TxEip7702 { authorization_list, ..sent };
            let signature = key.sign_transaction_sync(&mut sent).expect("signs");
            sent.into_signed(signature).encoded_2718()
        }
    };
    let hash = chain.rpc("eth_sendRawTransaction", json!([alloy::hex::encode_prefixed(raw)])).await.expect("sent");
    hash.as_str().expect("a hash").parse().expect("a hash")
}

#[tokio::test]
async fn a_tag_binds_what_the_payer_sent_itself() {
    let (chain, verifier) = start().await;
    let [node, own, ..] = chain.accounts() else { panic!("ten accounts") };
    let transfer = contracts::transfer(RECIPIENT, price());
    let suffix = [&b"baseapp"[..], &[7, 0], &[0x80, 0x21].repeat(8)].concat();
    // Signed by the node, by a key of its own, and by nobody: an account that the chain lets anyone speak for.
    let foreign = Address::new([0x77; 20]);
    chain.fund(foreign, price()).await.expect("funded");
    let sent = [
        chain.send(node.address(), chain.usdc(), &tagged(&transfer)).await.expect("sent"),
        send_signed(&chain, &key_of(own), chain.usdc(), &[tagged(&transfer), suffix].concat(), None).await,
        chain.send(foreign, chain.usdc(), &tagged(&transfer)).await.expect("sent"),
    ];
    for (transaction, payer) in sent.into_iter().zip([node.address(), own.address(), foreign]) {
        let transfers = mined(&chain, &verifier, transaction).await;
        assert_eq!(transfers.len(), 1);
        assert_eq!((transfers[0].payer, transfers[0].binding.has_tag(&tag())), (payer, true));
    }
    let plain = chain.send(node.address(), chain.usdc(), &transfer).await.expect("sent");
    assert_eq!(mined(&chain, &verifier, plain).await[0].binding, Binding::none());
}

#[tokio::test]
async fn a_tag_of_a_relay_or_a_bundler_binds_nobody_elses_transfer() {
    let (chain, verifier) = start().await;
    let accounts: Vec<_> = chain.accounts().iter().map(DevAccount::address).collect();
    let [bundler, one, other, ..] = accounts[..] else { panic!("ten accounts") };
    let relay = chain.deploy(contracts::RELAY.creation, &[]).await.expect("deployed");
    let batch = chain.deploy(contracts::BATCH.creation, &[]).await.expect("deployed");
    for (payer, spender) in [(one, relay), (one, batch), (other, batch), (bundler, batch)] {
        chain.send(payer, chain.usdc(), &contracts::approve(spender, Amount::MAX)).await.expect("sent");
    }
    let relayed = contracts::pay(chain.usdc(), one, RECIPIENT, price());
    let relayed = chain.send(bundler, relay, &tagged(&relayed)).await.expect("sent");
    assert_eq!(mined(&chain, &verifier, relayed).await[0].binding, Binding::none());

    let bundle = contracts::collect(chain.usdc(), RECIPIENT, [(one, price()), (bundler, price()), (other, price())]);
    let bundle = chain.send(bundler, batch, &tagged(&bundle)).await.expect("sent");
    let transfers = mined(&chain, &verifier, bundle).await;
    let bound: Vec<_> = transfers.iter().map(|transfer| (transfer.payer, transfer.binding.has_tag(&tag()))).collect();
    assert_eq!(bound, [(one, false), (bundler, true), (other, false)]);
}

#[tokio::test]
async fn an_authorization_binds_its_transfer_by_its_nonce_whoever_sends_it() {
    let (chain, verifier) = start().await;
    let [relay, payer, ..] = chain.accounts() else { panic!("ten accounts") };
    let nonce = *tag().as_bytes();
    let call_data = authorization(&chain, &key_of(payer), RECIPIENT, price(), nonce);
    // The relay's own tag is beside the point.
    let tail = PaymentTag::of("BBBBBBBBBBBBBBBB").to_call_data();
    let sent = chain.send(relay.address(), chain.usdc(), &[&call_data[..], &tail].concat()).await.expect("sent");
    let transfers = mined(&chain, &verifier, sent).await;
    assert_eq!((transfers.len(), transfers[0].position, transfers[0].payer), (1, 1, payer.address()));
    assert_eq!(transfers[0].binding, Binding::none().with_nonce(nonce));
    assert!(transfers[0].binding.has_nonce(&tag()));
    let id = PaymentId::of_authorization(Network::BASE, chain.usdc(), payer.address(), nonce);
    assert_eq!(transfers[0].payment_id(), id);
    // Once.
    let again = chain.send(relay.address(), chain.usdc(), &call_data).await.expect("sent");
    chain.mine(1).await.expect("mined");
    assert_eq!(look(&verifier, again).await, Ok(Verdict::NoTransfer));
}

#[tokio::test]
async fn the_owner_of_a_contract_account_signs_for_it() {
    let (chain, verifier) = start().await;
    let [anyone, owner, stranger, ..] = chain.accounts() else { panic!("ten accounts") };
    let wallet = chain.deploy(contracts::WALLET.creation, &[owner.address().into()]).await.expect("deployed");
    chain.fund(wallet, price()).await.expect("funded");
    let call_data = contracts::wallet_pay(chain.usdc(), RECIPIENT, price());
    // By its owner even: a tag is the payer's where the payer is what sends, and a contract never is.
    let sent = chain.send(owner.address(), wallet, &tagged(&call_data)).await.expect("sent");
    let transfers = mined(&chain, &verifier, sent).await;
    assert_eq!((transfers[0].payer, &transfers[0].binding), (wallet, &Binding::none()));

    let message = message(sent);
    let of_owner = signature(&key_of(owner), &message);
    assert_eq!(verifier.signer(&message, &of_owner, &[wallet]).await, Ok(Some(wallet)));
    assert_eq!(verifier.signer(&message, &of_owner, &[anyone.address(), wallet]).await, Ok(Some(wallet)));
    assert_eq!(verifier.signer(&message, &of_owner, &[owner.address(), wallet]).await, Ok(Some(owner.address())));
    for (what, signature) in [
        ("a stranger's", signature(&key_of(stranger), &message)),
        ("for another transaction", signature(&key_of(owner), &self::message(tx(7)))),
        ("too short", PaymentSignature::new(vec![1; 3]).expect("short")),
        ("too long", PaymentSignature::new([of_owner.as_bytes(), &[0]].concat()).expect("short")),
        ("as long as any", PaymentSignature::new(vec![0xff; 4_096]).expect("short")),
    ] {
        assert_eq!(verifier.signer(&message, &signature, &[wallet, anyone.address()]).await, Ok(None), "{what}");
    }
}

#[tokio::test]
async fn contract_accounts_that_answer_as_they_should_not_sign_nothing() {
    let (chain, verifier) = start().await;
    let [_, owner, ..] = chain.accounts() else { panic!("ten accounts") };
    let wallet = chain.deploy(contracts::WALLET.creation, &[owner.address().into()]).await.expect("deployed");
    let message = message(tx(1));
    let signature = signature(&key_of(owner), &message);
    for oddity in Oddity::ALL {
        let odd = chain.deploy(contracts::ODD_WALLET.creation, &[oddity.into()]).await.expect("deployed");
        let started = Instant::now();
        assert_eq!(verifier.signer(&message, &signature, &[odd]).await, Ok(None), "{oddity:?}");
        // Nor does it keep another payer of the same transaction from its own.
        assert_eq!(verifier.signer(&message, &signature, &[odd, wallet]).await, Ok(Some(wallet)), "{oddity:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{oddity:?}: {:?}", started.elapsed());
    }
    // It is the gas that it lacks: with more than a signature is worth it says yes.
    let late = chain.deploy(contracts::ODD_WALLET.creation, &[Oddity::AcceptsLate.into()]).await.expect("deployed");
    let question =
        contracts::calldata("isValidSignature(bytes32,bytes)", &[Word::new([0; 32]), Word::from(64), Word::from(0)]);
    assert_eq!(chain.call(late, &question).await.expect("answers")[..4], [0x16, 0x26, 0xba, 0x7e]);
}

#[tokio::test]
async fn a_delegated_account_signs_by_its_key_and_by_its_code() {
    let (chain, verifier) = start().await;
    let [_, owner, sponsor, ..] = chain.accounts() else { panic!("ten accounts") };
    let wallet = chain.deploy(contracts::WALLET.creation, &[owner.address().into()]).await.expect("deployed");
    let key = PrivateKeySigner::random();
    let account = address_of(&key);
    chain.fund(account, Amount::from_base_units(2 * PRICE)).await.expect("funded");
    let delegation = send_signed(&chain, &key_of(sponsor), sponsor.address(), &[], Some((&key, wallet))).await;
    chain.mine(1).await.expect("mined");
    assert_eq!(chain.receipt(delegation).await.expect("asked").expect("mined")["status"], "0x1");
    let code = chain.rpc("eth_getCode", json!([account.to_string(), "latest"])).await.expect("code");
    assert!(code.as_str().expect("hex").starts_with("0xef0100"), "delegated: {code}");
    // The wallet's code reads the owner from the account's own storage.
    let owner_is = Word::from(owner.address());
    let slot = json!([account.to_string(), "0x0", alloy::hex::encode_prefixed(owner_is.as_bytes())]);
    chain.rpc("anvil_setStorageAt", slot).await.expect("set");

    // Somebody has it pay: what that one tags, the account has not signed.
    let call_data = contracts::wallet_pay(chain.usdc(), RECIPIENT, price());
    let sent = chain.send(sponsor.address(), account, &tagged(&call_data)).await.expect("sent");
    let transfers = mined(&chain, &verifier, sent).await;
    assert_eq!((transfers[0].payer, &transfers[0].binding), (account, &Binding::none()));
    // It pays itself, through its own code.
    let own = send_signed(&chain, &key, account, &tagged(&call_data), None).await;
    let transfers = mined(&chain, &verifier, own).await;
    assert_eq!((transfers[0].payer, transfers[0].binding.has_tag(&tag())), (account, true));

    let message = message(sent);
    for signer in [&key, &key_of(owner)] {
        assert_eq!(verifier.signer(&message, &signature(signer, &message), &[account]).await, Ok(Some(account)));
    }
    assert_eq!(verifier.signer(&message, &signature(&key_of(sponsor), &message), &[account]).await, Ok(None));
}
