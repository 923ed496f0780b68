//! Permit2 and the standard's proxies on the development chain: they state what the official contracts state, and refuse what those refuse.

use alloy::{
    primitives::{B256, Bytes, U256, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
    sol_types::SolCall as _,
};
use serde_json::json;
use tower_x402::{
    protocol::{
        Address, Amount, ChainTime, Network,
        permit2::{EXACT_PROXY, PERMIT2, Permit, PermitScheme, UPTO_PROXY},
    },
    testing::{
        DevChain,
        contracts::{self, Word},
    },
    verify::{NonceState, Signatures as _, VerifyErrorKind},
};

use super::{
    Duration, EvmVerifier, RECIPIENT, Verdict,
    anvil::{PRICE, look},
    kind,
    support::node::{Odd, Proxy},
};

const SELLER: Address = Address::new([0x5e; 20]);

mod sol {
    alloy::sol! {
        struct TokenPermissions { address token; uint256 amount; }
        struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }
        struct Allowance { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }
        struct ExactWitness { address to; uint256 validAfter; }
        struct UpToWitness { address to; address facilitator; uint256 validAfter; }
        interface Exact {
            function settle(PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature) external;
            function settleWithPermit(
                Allowance allowance, PermitTransferFrom permit, address owner, ExactWitness witness, bytes signature
            ) external;
        }
        interface UpTo {
            function settle(
                PermitTransferFrom permit, uint256 amount, address owner, UpToWitness witness, bytes signature
            ) external;
        }
    }
}

async fn chain(id: u64) -> DevChain {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).chain_id(id).with_permit2();
    let chain = builder.start().await.unwrap();
    chain.mine(3).await.unwrap();
    chain
}

fn key(chain: &DevChain, account: usize) -> PrivateKeySigner {
    chain.accounts()[account].private_key().parse().unwrap()
}

fn of(address: Address) -> alloy::primitives::Address {
    address.as_bytes().into()
}

/// A permit of account 1 over 10,000 units of USDC, for the hour. Account 0 is the facilitator.
async fn permit(chain: &DevChain, scheme: PermitScheme, nonce: u8) -> Permit {
    let now = chain.timestamp().await.unwrap();
    Permit::new(scheme, chain.accounts()[1].address(), [nonce; 32])
        .paying(SELLER, chain.usdc(), Amount::from_base_units(10_000))
        .by_facilitator(chain.accounts()[0].address())
        .valid_between(ChainTime::from_unix(0), now.after(Duration::from_secs(3_600)))
}

fn signature(chain: &DevChain, permit: &Permit, key: &PrivateKeySigner) -> Vec<u8> {
    let digest = B256::new(permit.digest(Network::eip155(chain.chain_id())));
    key.sign_hash_sync(&digest).unwrap().as_bytes().to_vec()
}

fn transfer_of(permit: &Permit) -> sol::PermitTransferFrom {
    let amount = U256::from_be_bytes(permit.amount.to_be_bytes());
    let permitted = sol::TokenPermissions { token: of(permit.token), amount };
    let (nonce, deadline) = (U256::from_be_bytes(permit.nonce), U256::from(permit.deadline.unix()));
    sol::PermitTransferFrom { permitted, nonce, deadline }
}

/// The call of the permit's proxy, charging so much.
fn call(permit: &Permit, charge: u64, signature: Vec<u8>) -> Vec<u8> {
    let (owner, to, after) = (of(permit.from), of(permit.to), U256::from(permit.valid_after.unix()));
    let (permit_, signature) = (transfer_of(permit), Bytes::from(signature));
    match permit.facilitator {
        None => {
            let witness = sol::ExactWitness { to, validAfter: after };
            sol::Exact::settleCall { permit: permit_, owner, witness, signature }.abi_encode()
        }
        Some(facilitator) => {
            let witness = sol::UpToWitness { to, facilitator: of(facilitator), validAfter: after };
            let amount = U256::from(charge);
            sol::UpTo::settleCall { permit: permit_, amount, owner, witness, signature }.abi_encode()
        }
    }
}

async fn allow(chain: &DevChain, amount: Amount) {
    let call = contracts::approve(PERMIT2, amount);
    chain.send(chain.accounts()[1].address(), chain.usdc(), &call).await.unwrap();
    chain.mine(1).await.unwrap();
}

/// Sends a call from account 0, and returns whether it succeeded.
async fn sent(chain: &DevChain, to: Address, call: &[u8]) -> bool {
    let hash = chain.send(chain.accounts()[0].address(), to, call).await.unwrap();
    chain.mine(1).await.unwrap();
    chain.wait_until_mined(hash).await.unwrap()["status"] == "0x1"
}

/// Why a call from that account fails.
async fn refused(chain: &DevChain, from: usize, to: Address, call: &[u8], error: &str) {
    let from = chain.accounts()[from].address().to_string();
    let call = json!({ "from": from, "to": to.to_string(), "data": const_hex::encode_prefixed(call) });
    let said = chain.rpc("eth_call", json!([call, "latest"])).await.unwrap_err().to_string();
    let selector = const_hex::encode(&keccak256(error)[..4]);
    assert!(said.contains(&selector) || said.contains(error), "{error} ({selector}): {said}");
}

async fn balance(chain: &DevChain) -> u128 {
    u128::from_be_bytes(chain.usdc_balance(SELLER).await.unwrap().to_be_bytes()[16..].try_into().unwrap())
}

#[tokio::test]
async fn contracts_state_what_the_official_ones_state() {
    for (id, separator) in [
        (8_453, "3b6f35e4fce979ef8eac3bcdc8c3fc38fe7911bb0c69c8fe72bf1fd1a17e6f07"),
        (84_532, "010f27a92fb9a32622f44f001dc4d15706a85b33499cfc2ce9033113ab26592c"),
    ] {
        let chain = chain(id).await;
        let stated = async |contract, function| {
            const_hex::encode(chain.call(contract, &contracts::calldata(function, &[])).await.unwrap())
        };
        assert_eq!(stated(PERMIT2, "DOMAIN_SEPARATOR()").await, separator);
        for (proxy, witness) in [
            (EXACT_PROXY, "d97b3239a7f32295517bd14cb074edfdd188dfe5eb42f802bb26d4fd1eb12c37"),
            (UPTO_PROXY, "d4171c445a74218b01d4fd8af34ff1106580ea1e36ff837e64484bfaa2253b75"),
        ] {
            assert_eq!(stated(proxy, "WITNESS_TYPEHASH()").await, witness);
            assert_eq!(stated(proxy, "PERMIT2()").await, const_hex::encode(Word::from(PERMIT2).as_bytes()));
        }
    }
}

#[tokio::test]
async fn a_permit_pays_its_recipient_once() {
    let chain = chain(8_453).await;
    allow(&chain, Amount::MAX).await;
    let payer = key(&chain, 1);
    for (scheme, nonce, charge, paid) in
        [(PermitScheme::Exact, 1, 10_000, 10_000), (PermitScheme::UpTo, 2, 1_858, 11_858)]
    {
        let permit = permit(&chain, scheme, nonce).await;
        let call = call(&permit, charge, signature(&chain, &permit, &payer));
        assert!(sent(&chain, scheme.proxy(), &call).await, "{scheme:?}");
        assert_eq!(balance(&chain).await, paid, "{scheme:?}");
        refused(&chain, 0, scheme.proxy(), &call, "InvalidNonce()").await;
    }
    // The form of EIP-2098.
    let permit = permit(&chain, PermitScheme::Exact, 3).await;
    let digest = B256::new(permit.digest(Network::BASE));
    let short = payer.sign_hash_sync(&digest).unwrap().as_erc2098().to_vec();
    assert!(sent(&chain, EXACT_PROXY, &call(&permit, 0, short)).await);
    assert_eq!(balance(&chain).await, 21_858);
}

#[tokio::test]
async fn what_was_not_signed_is_refused() {
    let chain = chain(8_453).await;
    allow(&chain, Amount::MAX).await;
    let (payer, now) = (key(&chain, 1), chain.timestamp().await.unwrap());
    let (exact, up_to) = (permit(&chain, PermitScheme::Exact, 1).await, permit(&chain, PermitScheme::UpTo, 2).await);
    let soon = now.after(Duration::from_secs(600));
    let signed = |permit: &Permit, charge| call(permit, charge, signature(&chain, permit, &payer));
    for (from, permit, charge, error) in [
        (3, up_to.clone(), 1, "UnauthorizedFacilitator()"),
        (0, up_to.clone(), 10_001, "AmountExceedsPermitted()"),
        (0, up_to.clone().valid_between(soon, up_to.deadline), 1, "PaymentTooEarly()"),
        (
            0,
            up_to.clone().valid_between(ChainTime::from_unix(0), ChainTime::from_unix(1)),
            1,
            "SignatureExpired(uint256)",
        ),
        (0, up_to.clone().paying(Address::ZERO, up_to.token, up_to.amount), 1, "InvalidDestination()"),
        (0, exact.clone().paying(SELLER, exact.token, Amount::ZERO), 0, "InvalidAmount()"),
        (0, exact.clone().valid_between(soon, exact.deadline), 0, "PaymentTooEarly()"),
    ] {
        refused(&chain, from, permit.scheme().proxy(), &signed(&permit, charge), error).await;
    }
    // Signed for something else.
    let other = Address::new([9; 20]);
    for (signed, shown) in [
        (exact.clone(), exact.clone().paying(other, exact.token, exact.amount)),
        (exact.clone(), exact.clone().paying(SELLER, exact.token, Amount::from_base_units(10_001))),
        (exact.clone().paying(SELLER, other, exact.amount), exact.clone()),
        (up_to.clone().by_facilitator(other), up_to.clone()),
        (exact.clone().valid_between(soon, soon), exact.clone()),
    ] {
        let call = call(&shown, 1, signature(&chain, &signed, &payer));
        refused(&chain, 0, shown.scheme().proxy(), &call, "InvalidSigner()").await;
    }
    for (length, error) in
        [(0, "InvalidSignatureLength()"), (66, "InvalidSignatureLength()"), (65, "InvalidSignature()")]
    {
        refused(&chain, 0, EXACT_PROXY, &call(&exact, 0, vec![0; length]), error).await;
    }
    // Of an account with code, its code decides.
    let wallet = chain.deploy(contracts::WALLET.creation, &[of_word(&payer)]).await.unwrap();
    let mut of_wallet = exact.clone();
    of_wallet.from = wallet;
    let by_stranger = call(&of_wallet, 0, signature(&chain, &of_wallet, &key(&chain, 2)));
    refused(&chain, 0, EXACT_PROXY, &by_stranger, "InvalidContractSignature()").await;
    assert_eq!(balance(&chain).await, 0);
}

fn of_word(key: &PrivateKeySigner) -> Word {
    Address::new(key.address().into_array()).into()
}

#[tokio::test]
async fn a_payer_withdraws_the_allowance_the_money_or_the_nonce() {
    let chain = chain(8_453).await;
    let payer = chain.accounts()[1].address();
    let permit = permit(&chain, PermitScheme::Exact, 1).await;
    let call = call(&permit, 0, signature(&chain, &permit, &key(&chain, 1)));
    refused(&chain, 0, EXACT_PROXY, &call, "TRANSFER_FROM_FAILED").await;
    allow(&chain, Amount::from_base_units(10_000)).await;
    chain.fund(payer, Amount::from_base_units(9_999)).await.unwrap();
    refused(&chain, 0, EXACT_PROXY, &call, "TRANSFER_FROM_FAILED").await;
    chain.fund(payer, Amount::from_base_units(10_000)).await.unwrap();
    let nonce = u128::from(0x01_u8);
    let word = Word::new([&[0][..], &[1; 31]].concat().try_into().unwrap());
    let invalidate = contracts::calldata("invalidateUnorderedNonces(uint256,uint256)", &[word, Word::from(1 << nonce)]);
    chain.send(payer, PERMIT2, &invalidate).await.unwrap();
    chain.mine(1).await.unwrap();
    refused(&chain, 0, EXACT_PROXY, &call, "InvalidNonce()").await;
    let bitmap = contracts::calldata("nonceBitmap(address,uint256)", &[payer.into(), word]);
    assert_eq!(chain.call(PERMIT2, &bitmap).await.unwrap(), Word::from(1 << nonce).as_bytes());
}

/// A payer without ether: the allowance is a signature (EIP-2612), and its transfer another.
#[tokio::test]
async fn an_allowance_that_is_signed_is_sent_along() {
    let chain = chain(8_453).await;
    let (payer, token) = (key(&chain, 1), chain.deploy(contracts::PERMIT_COIN.creation, &[]).await.unwrap());
    let owner = Address::new(payer.address().into_array());
    assert!(sent(&chain, token, &contracts::mint(owner, Amount::from_base_units(10_000))).await);
    let mut permit = permit(&chain, PermitScheme::Exact, 1).await;
    permit.token = token;
    let separator = chain.call(token, &contracts::calldata("DOMAIN_SEPARATOR()", &[])).await.unwrap();
    let kind = keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
    let deadline = u128::from(permit.deadline.unix());
    let words = [Word::from(owner), Word::from(PERMIT2), Word::from(10_000), Word::from(0), Word::from(deadline)];
    let words: Vec<u8> = words.iter().flat_map(|word| *word.as_bytes()).collect();
    let message = keccak256([&kind[..], &words].concat());
    let signed = payer.sign_hash_sync(&keccak256([&[0x19, 1][..], &separator, &message[..]].concat())).unwrap();
    let with = |value: u64| {
        let allowance = sol::Allowance {
            value: U256::from(value),
            deadline: U256::from(deadline),
            r: B256::from(signed.r()),
            s: B256::from(signed.s()),
            v: 27 + u8::from(signed.v()),
        };
        let witness = sol::ExactWitness { to: of(SELLER), validAfter: U256::ZERO };
        let signature = Bytes::from(signature(&chain, &permit, &payer));
        let permit = transfer_of(&permit);
        sol::Exact::settleWithPermitCall { allowance, permit, owner: of(owner), witness, signature }.abi_encode()
    };
    refused(&chain, 0, EXACT_PROXY, &with(10_001), "Permit2612AmountMismatch()").await;
    assert!(sent(&chain, EXACT_PROXY, &with(10_000)).await);
    let balance = chain.call(token, &contracts::balance_of(SELLER)).await.unwrap();
    assert_eq!(balance, Word::from(10_000).as_bytes());
    // The token has no authorizations of its own.
    let state = contracts::calldata("authorizationState(address,bytes32)", &[owner.into(), Word::from(0)]);
    assert!(chain.call(token, &state).await.is_err());
}

/// A payer who was sold an answer for a permit shows the transaction that settled it, for another answer.
#[tokio::test]
async fn what_settled_a_permit_is_no_ordinary_transfer() {
    let chain = chain(8_453).await;
    let verifier = EvmVerifier::builder().endpoints([chain.rpc_url()]).block_time(Duration::from_millis(1));
    let verifier = verifier.max_head_age(None).connect().await.unwrap();
    allow(&chain, Amount::MAX).await;
    for (scheme, nonce) in [(PermitScheme::Exact, 1), (PermitScheme::UpTo, 2)] {
        let mut permit = permit(&chain, scheme, nonce).await;
        (permit.to, permit.amount) = (RECIPIENT, Amount::from_base_units(PRICE));
        let call = call(&permit, u64::try_from(PRICE).unwrap(), signature(&chain, &permit, &key(&chain, 1)));
        let hash = chain.send(chain.accounts()[0].address(), scheme.proxy(), &call).await.unwrap();
        chain.mine(1).await.unwrap();
        assert_eq!(chain.wait_until_mined(hash).await.unwrap()["status"], "0x1");
        let Ok(Verdict::Paid { transfers, .. }) = look(&verifier, hash).await else { panic!("{scheme:?}") };
        let [transfer] = &transfers[..] else { panic!("{transfers:?}") };
        assert_eq!(transfer.payment_id(), permit.payment_id(Network::BASE), "{scheme:?}");
        assert!(transfer.binding.is_bound(), "{scheme:?}");
    }
    let ordinary =
        chain.transfer(chain.accounts()[1].address(), RECIPIENT, Amount::from_base_units(PRICE)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(matches!(look(&verifier, ordinary).await, Ok(Verdict::Paid { .. })));
}

/// Where an endpoint indexes late, silence about a permit of the last blocks is no proof that nothing here used it.
#[tokio::test]
async fn a_permit_used_lately_is_not_given_up_where_its_log_is_late() {
    let chain = chain(8_453).await;
    allow(&chain, Amount::MAX).await;
    let permit = permit(&chain, PermitScheme::Exact, 1).await;
    let call = call(&permit, 0, signature(&chain, &permit, &key(&chain, 1)));
    let transaction = chain.send(chain.accounts()[0].address(), EXACT_PROXY, &call).await.unwrap();
    chain.mine(70).await.unwrap();
    let since = chain.timestamp().await.unwrap();
    let late = Proxy::before(chain.rpc_url()).await;
    let verifier = EvmVerifier::builder().endpoints([late.url()]).max_head_age(None).connect().await.unwrap();
    let state = async || verifier.permit_state(&permit, since).await.map_err(kind);
    late.set("eth_getLogs", Odd::Result(json!([])));
    assert_eq!(state().await, Ok(NonceState::Spent), "65 blocks ago");
    late.clear();
    assert_eq!(state().await, Ok(NonceState::Used(transaction)));

    let permit = self::permit(&chain, PermitScheme::Exact, 2).await;
    let call = self::call(&permit, 0, signature(&chain, &permit, &key(&chain, 1)));
    assert!(sent(&chain, EXACT_PROXY, &call).await);
    late.set("eth_getLogs", Odd::Result(json!([])));
    // The head is newer than the one that the verifier knows.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let state = verifier.permit_state(&permit, since).await.map_err(kind);
    assert_eq!(state, Err(VerifyErrorKind::Unavailable));
}
