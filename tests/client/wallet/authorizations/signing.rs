//! For which tokens authorizations are signed, under which domain, and until when.

use tower_x402::{protocol::PaymentTag, testing::contracts};

use super::*;

/// A token with authorizations that no table knows, of which the wallet has as much as it pays.
async fn deployed(chain: &DevChain, wallet: &WalletPayer) -> Asset {
    let token = chain.deploy(contracts::USDC.creation, &[]).await.unwrap();
    chain.send(chain.accounts()[8].address(), token, &contracts::mint(wallet.address(), usdc(ASK))).await.unwrap();
    chain.mine(1).await.unwrap();
    Asset::new(Network::eip155(chain.chain_id()), token, 6, "USDC")
}

async fn domain_of(wallet: &WalletPayer, asset: &Asset) -> Option<TokenDomain> {
    wallet.authorizes(asset, usdc(ASK)).await.unwrap()
}

#[tokio::test]
async fn the_domain_of_usdc_is_known_without_asking() {
    let (_chain, proxies, wallet) = through(1).await;
    let domain = domain_of(&wallet, &Asset::USDC_BASE).await;
    assert_eq!(domain, TokenDomain::usdc_of(Network::BASE));
    assert_eq!(proxies[0].asked("eth_call"), 2, "decimals and balance");
    domain_of(&wallet, &Asset::USDC_BASE).await;
    assert_eq!(proxies[0].asked("eth_call"), 3, "the balance");
}

#[tokio::test]
async fn any_other_domain_is_the_one_that_the_token_states_and_is_asked_for_once() {
    let (chain, proxies, wallet) = through(1).await;
    let asset = deployed(&chain, &wallet).await;
    let stated = TokenDomain::new(asset.contract(), "USD Coin", "2");
    assert_eq!(domain_of(&wallet, &asset).await, Some(stated.clone()));
    let asked = proxies[0].asked("eth_call");
    assert_eq!(domain_of(&wallet.clone(), &asset).await, Some(stated.clone()));
    assert_eq!(proxies[0].asked("eth_call"), asked + 1, "the balance");

    // What is signed under it, the token takes.
    let mut request = request(&chain).await;
    request.domain = stated;
    let signed = wallet.authorize(&request).await.unwrap();
    let prepared = PreparedAuthorization::new(asset.network(), asset.contract(), signed, "{}");
    let hash = settled(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
    assert_eq!(domain_of(&wallet, &asset).await, None, "all is spent");
}

#[tokio::test]
async fn on_a_chain_that_no_table_knows_usdc_is_asked_as_well() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).chain_id(31_337);
    let chain = builder.start().await.unwrap();
    let wallet = wallet(&chain).await;
    let asset = Asset::new(wallet.network(), chain.usdc(), 6, "USDC");
    assert_eq!(domain_of(&wallet, &asset).await, Some(TokenDomain::new(chain.usdc(), "USD Coin", "2")));
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn what_cannot_be_authorized_has_no_domain() {
    let (chain, proxies, wallet) = through(1).await;
    let more = wallet.authorizes(&Asset::USDC_BASE, usdc(1_000_000_000_001)).await;
    assert_eq!(more.unwrap(), None, "more than the account has");
    let elsewhere = Asset::usdc_of(Network::BASE_SEPOLIA).unwrap();
    assert_eq!(domain_of(&wallet, &elsewhere).await, None, "on another chain");
    assert_eq!(domain_of(&wallet, &Asset::new(Network::BASE, chain.usdc(), 18, "USDC")).await, None, "other decimals");
    assert_eq!(domain_of(&wallet, &Asset::new(Network::BASE, SELLER, 6, "NONE")).await, None, "no contract");

    let coin = chain.deploy(contracts::COIN.creation, &[Word::from(6)]).await.unwrap();
    chain.send(chain.accounts()[8].address(), coin, &contracts::mint(wallet.address(), usdc(ASK))).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(domain_of(&wallet, &Asset::new(Network::BASE, coin, 6, "COIN")).await, None, "no authorizations");

    let asset = deployed(&chain, &wallet).await;
    let odd: [fn(&Value, &mut Value); 4] = [
        // Another separator, no separator, a name that nobody can read, and no state.
        |params, said| of(params, "0x3644e515", said, &format!("0x{}", "11".repeat(32))),
        |params, said| of(params, "0x3644e515", said, "0x"),
        |params, said| of(params, "0x06fdde03", said, &format!("0x{}", "11".repeat(32))),
        |params, said| of(params, "0xe94a0102", said, &format!("0x{}", "11".repeat(32))),
    ];
    for (case, odd) in odd.into_iter().enumerate() {
        proxies[0].set("eth_call", Odd::Replaced(odd));
        assert_eq!(domain_of(&wallet, &asset).await, None, "{case}");
    }
    proxies[0].set("eth_call", Odd::Html);
    assert!(wallet.authorizes(&asset, usdc(ASK)).await.is_err());
    proxies[0].clear();
    assert!(domain_of(&wallet, &asset).await.is_some(), "a node that erred is asked again");
}

/// Changes what the function with that selector returns.
fn of(params: &Value, selector: &str, said: &mut Value, other: &str) {
    if params[0]["data"].as_str().unwrap().starts_with(selector) {
        *said = json!(other);
    }
}

#[tokio::test]
async fn what_it_signs_the_token_takes_and_pays() {
    let (chain, _proxies, wallet) = through(2).await;
    let request = request(&chain).await;
    let signed = wallet.authorize(&request).await.unwrap();
    let terms = &signed.authorization;
    assert_eq!((terms.from, terms.to, terms.value), (wallet.address(), SELLER, usdc(ASK)));
    assert_eq!((&terms.nonce, terms.valid_after.unix()), (request.nonce.as_bytes(), 0));
    assert_eq!(terms.valid_before, request.now.after(MINUTE));
    settled(&chain, &PreparedAuthorization::new(wallet.network(), chain.usdc(), signed, "{}")).await;
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(ASK));
}

#[tokio::test]
async fn an_authorization_is_of_the_wallets_chain() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let mut elsewhere = request(&chain).await;
    elsewhere.network = Network::BASE_SEPOLIA;
    let refused = wallet.authorize(&elsewhere).await;
    assert!(matches!(refused, Err(PayerError::WrongNetwork(Network::BASE_SEPOLIA))), "{refused:?}");
}

#[tokio::test]
async fn a_clock_that_is_minutes_slow_or_an_hour_fast_makes_no_authorization_invalid() {
    let (chain, _proxies, wallet) = through(1).await;
    let right = request(&chain).await;
    let hour = Duration::from_secs(3_600);
    let slow = ChainTime::from_unix(right.now.unix() - 240);
    let fast = right.now.after(hour);
    for (now, ends) in [(slow, right.now.after(MINUTE)), (fast, fast.after(MINUTE))] {
        let mut wrong = right.clone();
        (wrong.now, wrong.nonce) = (now, PaymentTag::of(&format!("{now:?}")));
        let signed = wallet.authorize(&wrong).await.unwrap();
        assert_eq!(signed.authorization.valid_before, ends);
        settled(&chain, &PreparedAuthorization::new(wallet.network(), chain.usdc(), signed, "{}")).await;
    }
}

/// It would be open for as long.
#[tokio::test]
async fn a_node_that_is_far_ahead_makes_no_authorization_longer() {
    let (chain, proxies, wallet) = through(1).await;
    let request = request(&chain).await;
    for ahead in [
        |block: &mut Value| later(block, 6 * 60),
        |block: &mut Value| later(block, 23 * 60 * 60),
        |block: &mut Value| block["timestamp"] = json!("0xffffffff"),
        |block: &mut Value| {
            block["timestamp"] = json!("0xffffffffffffffff");
        },
    ] {
        proxies[0].set("eth_getBlockByNumber", Odd::Changed(ahead));
        let signed = wallet.authorize(&request).await.unwrap();
        assert_eq!(signed.authorization.valid_before, request.now.after(MINUTE));
    }
}

fn later(block: &mut Value, seconds: u64) {
    let time = u64::from_str_radix(block["timestamp"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    block["timestamp"] = json!(format!("{:#x}", time + seconds));
}

#[tokio::test]
async fn of_several_nodes_one_that_is_ahead_decides_nothing() {
    for nodes in [2, 3] {
        let (chain, proxies, wallet) = through(nodes).await;
        let request = request(&chain).await;
        for liar in 0..nodes {
            proxies[liar].set("eth_getBlockByNumber", Odd::Changed(|block| later(block, 4 * 60)));
            let signed = wallet.authorize(&request).await.unwrap();
            assert_eq!(signed.authorization.valid_before, request.now.after(MINUTE), "{liar} of {nodes}");
            proxies.iter().for_each(Proxy::clear);
        }
    }
}

#[tokio::test]
async fn signing_waits_two_seconds_for_nodes_and_for_no_other_payment() {
    let (chain, proxies, wallet) = through(2).await;
    let right = request(&chain).await;
    let mut slow = right.clone();
    slow.now = ChainTime::from_unix(right.now.unix() - 240);
    let turn = wallet.submit_guard(Network::BASE).await;
    for (silent, ends) in [(vec![0], right.now), (vec![1], right.now), (vec![0, 1], slow.now)] {
        for odd in [Odd::Hang, Odd::Html, Odd::Result(Value::Null), Odd::Status(503)] {
            proxies.iter().for_each(Proxy::clear);
            silent.iter().for_each(|node: &usize| proxies[*node].set("eth_getBlockByNumber", odd.clone()));
            let begun = Instant::now();
            let signed = wallet.authorize(&slow).await.unwrap();
            assert_eq!(signed.authorization.valid_before, ends.after(MINUTE), "{silent:?}");
            assert!(begun.elapsed() < Duration::from_secs(9), "{silent:?}: {:?}", begun.elapsed());
        }
    }
    drop(turn);
}
