//! What used an authorization, and where it is found.

use tower_x402::protocol::PaymentTag;

use super::*;

#[tokio::test]
async fn it_is_unused_until_it_is_used_and_then_by_what() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
    let hash = sent(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused, "in no block yet");
    chain.mine(1).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, used(hash));
    expire(&chain, &prepared, 40).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash), "its time is over, and it was used");

    // Another one of the same account, with a nonce of its own.
    let mut other = request(&chain).await;
    other.nonce = PaymentTag::new([7; 32]);
    let other =
        PreparedAuthorization::new(wallet.network(), chain.usdc(), wallet.authorize(&other).await.unwrap(), "{}");
    assert_eq!(known(&wallet, &other).await, AuthorizationStatus::Unused);
}

#[tokio::test]
async fn a_reorganisation_takes_the_use_back() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    assert_eq!(known(&wallet, &prepared).await, used(hash));
    chain.reorg(1, &[]).await.unwrap();
    assert_eq!(known(&wallet, &prepared).await, AuthorizationStatus::Unused);
}

/// Nodes let a range be so wide, and not wider.
#[tokio::test]
async fn a_node_that_refuses_wide_ranges_is_asked_for_narrow_ones() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    chain.mine(100).await.unwrap();
    let narrow: [fn(&Value) -> bool; 2] = [|params| width(params) > 10, |params| width(params) > 100];
    for narrow in narrow {
        proxies[0].set("eth_getLogs", Odd::Refused(narrow));
        assert_eq!(known(&wallet, &prepared).await, used(hash));
    }
    // A hundred blocks, one at a time, are more calls than are made.
    proxies[0].set("eth_getLogs", Odd::Refused(|params| width(params) > 1));
    let before = proxies[0].asked("eth_getLogs");
    assert_eq!(known(&wallet, &prepared).await, USED_SOMEHOW);
    let asked = proxies[0].asked("eth_getLogs") - before;
    assert!((20..=64).contains(&asked), "{asked}");
    proxies[0].clear();
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

/// How many blocks are searched, where the newest is the 121st.
fn width(params: &Value) -> u64 {
    let number = |name: &str| u64::from_str_radix(params[0][name].as_str()?.strip_prefix("0x")?, 16).ok();
    let from = number("fromBlock").unwrap();
    number("toBlock").unwrap_or(121) + 1 - from
}

#[tokio::test]
async fn the_search_goes_back_to_the_signing_and_no_further() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    chain.mine(2_500).await.unwrap();
    let head = chain.timestamp().await.unwrap();
    for (since, status, ranges) in [
        (head, used(hash), 2),
        // The clock that noted it may have been two hours fast.
        (head.after(Duration::from_secs(7_000)), used(hash), 2),
        (head.after(Duration::from_secs(8_000)), USED_SOMEHOW, 1),
    ] {
        let before = proxies[0].asked("eth_getLogs");
        assert_eq!(wallet.authorization_status(&prepared, since).await.unwrap(), status);
        assert_eq!(proxies[0].asked("eth_getLogs") - before, ranges);
    }
}

/// That the logs are not to be had does not make it unused.
#[tokio::test]
async fn without_logs_it_is_used_by_something() {
    let (chain, proxies, wallet) = through(1).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    expire(&chain, &prepared, 20).await;
    let odd = [
        Odd::Error(-32601, "the method does not exist"),
        Odd::Error(-32000, "execution reverted"),
        Odd::Status(400),
        Odd::Status(413),
        Odd::Html,
        Odd::Result(json!([])),
        Odd::Result(Value::Null),
        // Of something else.
        Odd::Changed(|logs| logs[0]["topics"][2] = json!(format!("0x{}", "11".repeat(32)))),
        Odd::Changed(|logs| logs[0]["address"] = json!(SELLER)),
        Odd::Changed(|logs| logs[0]["removed"] = json!(true)),
    ];
    for (case, odd) in odd.into_iter().enumerate() {
        proxies[0].set("eth_getLogs", odd);
        assert_eq!(known(&wallet, &prepared).await, USED_SOMEHOW, "{case}");
    }
    proxies[0].set("eth_getLogs", Odd::Hang);
    let begun = Instant::now();
    assert_eq!(known(&wallet, &prepared).await, USED_SOMEHOW);
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    proxies[0].clear();
    assert_eq!(known(&wallet, &prepared).await, used(hash));
}

#[tokio::test]
async fn what_one_of_two_finds_is_found() {
    let (chain, proxies, wallet) = through(2).await;
    let prepared = authorized(&chain, &wallet).await;
    let hash = settled(&chain, &prepared).await;
    for silent in [0, 1] {
        for (method, odd) in [
            ("eth_getLogs", Odd::Error(-32601, "the method does not exist")),
            ("eth_getLogs", Odd::Hang),
            ("eth_call", Odd::Status(503)),
            ("eth_getBlockByNumber", Odd::Html),
        ] {
            proxies[silent].set(method, odd);
            let begun = Instant::now();
            assert_eq!(known(&wallet, &prepared).await, used(hash), "{silent} {method}");
            assert!(begun.elapsed() < Duration::from_secs(18), "another one has it: {:?}", begun.elapsed());
            proxies[silent].clear();
        }
    }
}

#[tokio::test]
async fn what_was_not_signed_here_is_foreign() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let (url, keys) = (chain.rpc_url(), chain.accounts());
    let other = WalletPayer::builder().key(keys[1].private_key()).endpoint(url).connect().await.unwrap();
    let ours = authorized(&chain, &wallet).await;
    let theirs = authorized(&chain, &other).await;
    let mut claimed = theirs.clone();
    claimed.signed.authorization.from = wallet.address();
    let mut changed = ours.clone();
    changed.signed.authorization.nonce[0] ^= 1;
    let mut of_another_token = ours.clone();
    of_another_token.token = SELLER;
    for foreign in [&theirs, &claimed, &changed, &of_another_token] {
        let since = ChainTime::from_unix(0);
        assert!(matches!(wallet.authorization_status(foreign, since).await, Err(PayerError::Foreign)), "{foreign:?}");
        assert!(matches!(wallet.prepare_cancellation(foreign).await, Err(PayerError::Foreign)), "{foreign:?}");
    }
    assert_eq!(known(&wallet, &ours).await, AuthorizationStatus::Unused);

    // The same key and token on another chain, where nobody used that nonce.
    let elsewhere = DevChain::builder().install_with_npm(true).mine_every(None).chain_id(31_337).start().await.unwrap();
    elsewhere.mine(20).await.unwrap();
    let there = super::wallet(&elsewhere).await;
    assert!(matches!(told(&there, &ours).await, Err(PayerError::WrongNetwork(Network::BASE))));
    let mut relabelled = ours.clone();
    relabelled.network = there.network();
    assert!(matches!(told(&there, &relabelled).await, Err(PayerError::Foreign)));
}
