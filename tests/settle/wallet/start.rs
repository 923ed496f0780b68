//! A settler's parts, and what it reads of tokens before anything is sold.

use super::*;

async fn kind(builder: WalletSettlerBuilder) -> SettleErrorKind {
    let error = builder.connect().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(CANARY));
    error.kind().clone()
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let chain = quiet().await;
    let key = chain.accounts()[0].private_key();
    let new = || WalletSettler::builder().endpoint(chain.rpc_url());
    assert_eq!(kind(new()).await, SettleErrorKind::InvalidKey);
    assert_eq!(kind(new().key(CANARY)).await, SettleErrorKind::InvalidKey);
    assert_eq!(kind(new().key_file("/nowhere/s3cret-canary")).await, SettleErrorKind::InvalidKey);
    assert_eq!(kind(WalletSettler::builder().key(key)).await, SettleErrorKind::InvalidEndpoint);
    for url in ["", "ws://127.0.0.1", "http://192.0.2.1/s3cret-canary"] {
        assert_eq!(
            kind(WalletSettler::builder().key(key).endpoint(url)).await,
            SettleErrorKind::InvalidEndpoint,
            "{url}"
        );
    }
    assert_eq!(
        kind(new().key(key).max_fee_per_gas(0)).await,
        SettleErrorKind::InvalidSetting { what: "max_fee_per_gas" }
    );
    let wait = new().key(key).replace_after(Duration::ZERO);
    assert_eq!(kind(wait).await, SettleErrorKind::InvalidSetting { what: "replace_after" });
    let closed = WalletSettler::builder().key(key).endpoint("http://127.0.0.1:9/s3cret-canary");
    assert_eq!(kind(closed).await, SettleErrorKind::Unavailable);
}

#[tokio::test]
async fn a_key_is_read_from_a_file_and_shown_nowhere() {
    let chain = quiet().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settler.key");
    let key = chain.accounts()[3].private_key();
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let proxy = Proxy::before(chain.rpc_url()).await;
    let builder = WalletSettler::builder().key_file(&file).endpoint(proxy.url());
    let shown = format!("{builder:?}");
    let settler = builder.connect().await.unwrap();
    assert_eq!((settler.address(), settler.network()), (chain.accounts()[3].address(), Network::BASE));
    let shown = format!("{shown} {settler:?}");
    assert!(!shown.contains(&key[2..]) && !shown.contains(CANARY), "{shown}");
}

#[tokio::test]
async fn a_lazy_settler_starts_without_a_node_and_trusts_none_of_another_chain() {
    let chain = quiet().await;
    let new = || builder(&chain).endpoint(chain.rpc_url());
    let settler = new().connect_lazily(Network::BASE).unwrap();
    let payment = payment(&chain, 1, 1).await;
    transaction(settled(&chain, &settler, &payment).await);
    let astray = new().connect_lazily(Network::BASE_SEPOLIA).unwrap();
    assert_eq!(astray.health().await, Err(SettleError::unavailable()));
    let closed = builder(&chain).endpoint("http://127.0.0.1:9").connect_lazily(Network::BASE).unwrap();
    assert_eq!(closed.health().await, Err(SettleError::unavailable()));
}

#[tokio::test]
async fn a_token_states_its_domain_and_another_one_is_an_error() {
    let chain = quiet().await;
    let settler = settler(&chain).await;
    let (token, stated) = (chain.usdc(), domain(&chain));
    let ask = async |token, stated: Option<&TokenDomain>| settler.domain(Network::BASE, token, stated).await;
    assert_eq!(ask(token, None).await, Ok(Some(stated.clone())));
    assert_eq!(ask(token, Some(&stated)).await, Ok(Some(stated)));
    for other in [TokenDomain::new(token, "USDC", "2"), TokenDomain::new(token, "USD Coin", "1")] {
        let wrong = SettleError::new(SettleErrorKind::WrongDomain { token });
        assert_eq!(ask(token, Some(&other)).await, Err(wrong));
    }
    let coin = chain.deploy(contracts::COIN.creation, &[18u128.into()]).await.unwrap();
    for without in [coin, SELLER, chain.accounts()[1].address()] {
        assert_eq!(ask(without, None).await, Ok(None));
    }
    let network = Network::BASE_SEPOLIA;
    let wrong = SettleError::new(SettleErrorKind::WrongChain { network });
    assert_eq!(settler.domain(network, token, None).await, Err(wrong));
}
