//! Preparing, sending and what is refused.

use std::collections::BTreeSet;

use tower_x402::{client::WalletErrorKind, testing::contracts};

use super::*;

#[tokio::test]
async fn what_is_sent_is_mined_and_paid_once_however_often_it_is_sent() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    assert_eq!((wallet.address(), wallet.network()), (chain.accounts()[0].address(), Network::BASE));
    let prepared = wallet.prepare(&in_usdc()).await.unwrap();
    let both = std::slice::from_ref(&prepared);
    assert_eq!((prepared.payer, prepared.token), (wallet.address(), chain.usdc()));
    assert_eq!(fate(&wallet, both).await, TransferStatus::Unknown);

    assert_eq!(wallet.send(&prepared).await.unwrap(), hash(&prepared));
    assert_eq!(wallet.send(&prepared).await.unwrap(), hash(&prepared), "already known");
    assert_eq!(fate(&wallet, both).await, TransferStatus::Pending);
    chain.mine(1).await.unwrap();
    assert_eq!(fate(&wallet, both).await, TransferStatus::Mined { transaction: hash(&prepared), confirmations: 1 });
    chain.mine(30).await.unwrap();
    assert_eq!(fate(&wallet, both).await, TransferStatus::Mined { transaction: hash(&prepared), confirmations: 31 });
    assert!(matches!(wallet.send(&prepared).await, Err(PayerError::Refused(_))));
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(ASK));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_have_fifty_nonces() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let pay = |wallet: WalletPayer| async move {
        let turn = wallet.submit_guard(Network::BASE).await;
        let prepared = wallet.prepare(&in_usdc()).await.unwrap();
        wallet.send(&prepared).await.unwrap();
        drop(turn);
        prepared
    };
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(pay(wallet.clone()))).collect();
    let mut nonces = BTreeSet::new();
    let mut sent = Vec::new();
    for task in tasks {
        let prepared = task.await.unwrap();
        nonces.insert(prepared.nonce().unwrap());
        sent.push(prepared);
    }
    assert!(nonces.into_iter().eq(0..50));
    chain.mine(1).await.unwrap();
    for prepared in &sent {
        let mined = TransferStatus::Mined { transaction: hash(prepared), confirmations: 1 };
        assert_eq!(fate(&wallet, std::slice::from_ref(prepared)).await, mined);
    }
    assert_eq!(chain.usdc_balance(SELLER).await.unwrap(), usdc(50 * ASK));
}

#[tokio::test]
async fn only_one_has_the_turn() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let turn = wallet.clone().submit_guard(Network::BASE).await;
    let (mut next, mut other) = (boxed(wallet.submit_guard(Network::BASE)), boxed(wallet.submit_guard(Network::BASE)));
    assert!(!ready(&mut next).await && !ready(&mut other).await);
    drop(turn);
    assert!(ready(&mut next).await);
    drop((next, other));
    drop(wallet.submit_guard(Network::BASE).await);
}

type Waiting<'a> = std::pin::Pin<Box<dyn Future<Output = tower_x402::client::SubmitGuard> + Send + 'a>>;

fn boxed<'a>(turn: impl Future<Output = tower_x402::client::SubmitGuard> + Send + 'a) -> Waiting<'a> {
    Box::pin(turn)
}

async fn ready(turn: &mut Waiting<'_>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(turn.as_mut().poll(cx).is_ready())).await
}

#[tokio::test]
async fn a_token_is_taken_that_is_what_it_is_said_to_be_and_there() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let coin = async |decimals: u128, owned: u128| {
        let coin = chain.deploy(contracts::COIN.creation, &[decimals.into()]).await.unwrap();
        chain.send(wallet.address(), coin, &contracts::mint(wallet.address(), usdc(owned))).await.unwrap();
        chain.mine(1).await.unwrap();
        Asset::new(Network::BASE, coin, 6, "COIN")
    };
    let (wrong, poor, rich) = (coin(18, ASK).await, coin(6, ASK - 1).await, coin(6, ASK).await);
    let nobody = Asset::new(Network::BASE, SELLER, 6, "NONE");
    let chosen = async |assets: &[&Asset]| wallet.prepare(&payment(assets.iter().map(|&asset| asset.clone()))).await;

    assert_eq!(chosen(&[&wrong, &poor, &rich, &Asset::USDC_BASE]).await.unwrap().token, rich.contract());
    assert_eq!(chosen(&[&Asset::USDC_BASE, &rich]).await.unwrap().token, chain.usdc());
    let payer = wallet.address();
    assert!(matches!(chosen(&[&wrong, &poor]).await, Err(PayerError::Funds { payer: who }) if who == payer));
    for bad in [&wrong, &nobody] {
        let refused = chosen(&[bad]).await;
        assert!(matches!(refused, Err(PayerError::Decimals { token }) if token == bad.contract()), "{refused:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_paid_is_not_prepared() {
    let chain = quiet().await;
    let wallet = wallet(&chain).await;
    let mut elsewhere = in_usdc();
    elsewhere.network = Network::BASE_SEPOLIA;
    let refused = wallet.prepare(&elsewhere).await;
    assert!(matches!(refused, Err(PayerError::WrongNetwork(Network::BASE_SEPOLIA))));

    // Neither money nor ether.
    let stranger = WalletPayer::builder().key(&"42".repeat(32)).endpoint(chain.rpc_url()).connect().await.unwrap();
    assert!(matches!(stranger.prepare(&in_usdc()).await, Err(PayerError::Funds { .. })));
    chain.fund(stranger.address(), usdc(ASK)).await.unwrap();
    stranger.prepare(&in_usdc()).await.unwrap();
    chain.rpc("anvil_setBalance", json!([stranger.address(), "0x1"])).await.unwrap();
    assert!(matches!(stranger.prepare(&in_usdc()).await, Err(PayerError::Refused(why)) if why.contains("ether")));

    // Nothing above the cap.
    let frugal = wallet.clone().max_fee_per_gas(1_000);
    assert!(matches!(frugal.prepare(&in_usdc()).await, Err(PayerError::Fees)));
    chain.rpc("anvil_setNextBlockBaseFeePerGas", json!(["0xba43b7400"])).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(matches!(wallet.prepare(&in_usdc()).await, Err(PayerError::Fees)));
    wallet.clone().max_fee_per_gas(200_000_000_000).prepare(&in_usdc()).await.unwrap();
}

/// The key comes from a file; an error has its cause, and neither shows the key or an address.
#[tokio::test]
async fn a_key_is_read_from_a_file_and_an_error_has_its_cause() {
    use std::error::Error as _;
    let chain = quiet().await;
    let (folder, key) = (tempfile::tempdir().unwrap(), chain.accounts()[0].private_key());
    let path = folder.path().join("payer.key");
    let connect = || WalletPayer::builder().key_file(&path).endpoint(chain.rpc_url()).connect();
    let missing = connect().await.unwrap_err();
    assert_eq!(missing.kind(), WalletErrorKind::KeyFile);
    assert!(missing.source().is_some_and(|source| source.is::<std::io::Error>()), "{missing:?}");
    std::fs::write(&path, format!("{key}\n")).unwrap();
    assert_eq!(connect().await.unwrap().address(), chain.accounts()[0].address());
    std::fs::write(&path, format!("{key}z")).unwrap();
    let wrong = connect().await.unwrap_err();
    assert!(wrong.kind() == WalletErrorKind::Key && !format!("{wrong:?} {wrong}").contains(&key[2..10]), "{wrong:?}");
    let silent = WalletPayer::builder().key(key).endpoint("http://127.0.0.1:9").connect().await.unwrap_err();
    assert!(silent.source().is_some() && !format!("{silent:?}").contains("127.0.0.1"), "{silent:?}");
}

#[tokio::test]
async fn a_wallet_that_cannot_be_is_told_why() {
    let chain = quiet().await;
    let key = chain.accounts()[0].private_key();
    for bad in ["", "0x", "12", &key[..65], "correct horse battery staple", &"0".repeat(64), &"f".repeat(64)] {
        assert_eq!(
            WalletPayer::builder().key(bad).endpoint(chain.rpc_url()).connect().await.unwrap_err().kind(),
            WalletErrorKind::Key,
            "{bad}"
        );
    }
    for bad in ["", "localhost:8545", "ws://localhost", "http://"] {
        assert_eq!(
            WalletPayer::builder().key(key).endpoint(bad).connect().await.unwrap_err().kind(),
            WalletErrorKind::Url,
            "{bad}"
        );
    }
    for remote in
        ["http://node.invalid", "http://192.0.2.1:8545", "http://localhost.invalid", " HTTP://node.invalid/127.0.0.1"]
    {
        assert_eq!(
            WalletPayer::builder().key(key).endpoint(remote).connect().await.unwrap_err().kind(),
            WalletErrorKind::PlainHttp,
            "{remote}"
        );
        let allowed = WalletPayer::builder().key(key).endpoint("https://node.invalid").endpoint(remote);
        assert_eq!(allowed.connect().await.unwrap_err().kind(), WalletErrorKind::PlainHttp, "{remote}");
    }
    let allowed = WalletPayer::builder().key(key).endpoint("http://node.invalid").allow_plain_http();
    assert_eq!(allowed.connect().await.unwrap_err().kind(), WalletErrorKind::Node);
    for local in ["http://127.0.0.1:9", "http://localhost:9", "http://[::1]:9"] {
        assert_eq!(
            WalletPayer::builder().key(key).endpoint(local).connect().await.unwrap_err().kind(),
            WalletErrorKind::Node
        );
    }
    let missing = WalletPayer::builder().key(key).connect().await.unwrap_err();
    assert_eq!(missing.kind(), WalletErrorKind::Missing("endpoint"));
    let missing = WalletPayer::builder().endpoint(chain.rpc_url()).connect().await.unwrap_err();
    assert_eq!(missing.kind(), WalletErrorKind::Missing("key"));
    assert_eq!(
        WalletPayer::builder().key(key).endpoint("http://127.0.0.1:9").connect().await.unwrap_err().kind(),
        WalletErrorKind::Node
    );
    let bare =
        WalletPayer::builder().key(&format!(" {}\n", &key[2..])).endpoint(chain.rpc_url()).connect().await.unwrap();
    assert_eq!(bare.address(), chain.accounts()[0].address());
    let debug = format!("{bare:?}");
    assert!(!debug.contains("http") && !debug.contains(&key[2..20]), "{debug}");
}
