//! SECURITY row 54: the domain under which a token's authorizations are signed is the one that its contract states.

use serde_json::{Value, json};
use tower_x402::{
    protocol::TokenDomain,
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

use super::{
    node::{Fault, text},
    *,
};

const CALL: &str = "eth_call";
const STATE: &str = "authorizationState(address,bytes32)";

async fn domain(verifier: &EvmVerifier) -> Result<Option<TokenDomain>, VerifyErrorKind> {
    verifier.domain(Asset::USDC_BASE.contract()).await.map_err(kind)
}

fn usdc() -> Option<TokenDomain> {
    TokenDomain::usdc_of(Network::BASE)
}

#[tokio::test]
async fn a_token_on_a_chain_states_its_domain() {
    let (chain, verifier) = super::anvil::start().await;
    assert_eq!(domain(&verifier).await, Ok(usdc()));
    // A token without EIP-3009, an account without code, a contract that is no token.
    let coin = chain.deploy(contracts::COIN.creation, &[Word::from(6)]).await.expect("deployed");
    let relay = chain.deploy(contracts::RELAY.creation, &[]).await.expect("deployed");
    for other in [coin, relay, chain.accounts()[1].address(), Address::ZERO] {
        assert_eq!(verifier.domain(other).await, Ok(None), "{other}");
    }
    // The same code at another address, and on another chain.
    let other = Address::new([0x77; 20]);
    chain.set_code(other, contracts::USDC.runtime).await.expect("set");
    assert_eq!(verifier.domain(other).await, Ok(Some(TokenDomain::new(other, "USD Coin", "2"))));
    let elsewhere = DevChain::builder().install_with_npm(true).chain_id(31_337).start().await.expect("anvil");
    let verifier = EvmVerifier::builder().endpoints([elsewhere.rpc_url()]).max_head_age(None);
    let verifier = verifier.connect().await.expect("connects");
    assert_eq!(domain(&verifier).await, Ok(usdc()), "the chain is in the separator, not in the domain's names");
}

#[tokio::test]
async fn a_token_that_lacks_a_part_has_no_authorizations() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    assert_eq!(domain(&verifier).await, Ok(usdc()));
    let long = text(&"n".repeat(65));
    let cases: [(&str, Option<Value>); 12] = [
        ("name()", None),
        ("name()", Some(json!("0x"))),
        ("name()", Some(text(""))),
        ("name()", Some(text("USD\nCoin"))),
        ("name()", Some(long)),
        ("name()", Some(json!(format!("0x{:064x}", 32)))),
        ("version()", None),
        ("version()", Some(json!("0x01"))),
        ("DOMAIN_SEPARATOR()", None),
        ("DOMAIN_SEPARATOR()", Some(json!("0x"))),
        ("DOMAIN_SEPARATOR()", Some(json!(format!("0x{:0128x}", 1)))),
        (STATE, Some(json!(format!("0x{:064x}", 2)))),
    ];
    for (function, returned) in cases {
        node.script().usdc = super::token::Token::usdc();
        node.script().usdc.set(function, returned.clone());
        assert_eq!(domain(&verifier).await, Ok(None), "{function}: {returned:?}");
    }
}

#[tokio::test]
async fn a_separator_that_is_not_made_of_name_version_chain_and_contract_is_refused() {
    let node = Node::start().await;
    let (verifier, _) = connect(&[&node]).await;
    // That of Base Sepolia's; and names that are another token's.
    let foreign = "0x71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818";
    for (function, returned) in
        [("DOMAIN_SEPARATOR()", json!(foreign)), ("name()", text("USDC")), ("version()", text("1"))]
    {
        node.script().usdc = super::token::Token::usdc();
        node.script().usdc.set(function, Some(returned));
        assert_eq!(domain(&verifier).await, Ok(None), "{function}");
    }
}

/// That a token has no authorizations would close the door for as long as the service runs.
#[tokio::test]
async fn that_there_is_none_is_believed_only_when_every_endpoint_says_so() {
    let (bad, good) = (Node::start().await, Node::start().await);
    bad.script().usdc.set("version()", None);
    let (verifier, _) = connect(&[&bad, &good]).await;
    assert_eq!(domain(&verifier).await, Ok(usdc()));
    good.script().usdc.set("version()", None);
    assert_eq!(domain(&verifier).await, Ok(None));
    for fault in [Fault::Hang, Fault::Status(429), Fault::RpcError, Fault::Result(json!({})), Fault::Html] {
        let (bad, good) = (Node::start().await, Node::start().await);
        bad.fault(CALL, fault.clone());
        let (verifier, _) = connect(&[&bad]).await;
        assert_eq!(domain(&verifier).await, Err(VerifyErrorKind::Unavailable), "{fault:?}");
        let (verifier, _) = connect(&[&bad, &good]).await;
        assert_eq!(domain(&verifier).await, Ok(usdc()), "{fault:?}");
    }
}
