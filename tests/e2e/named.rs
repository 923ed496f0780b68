//! SECURITY 65: a purchase that is named and signed again is charged once. Real signatures, a real chain, two servers on one ledger.

use std::{collections::BTreeMap, fs, time::Duration};

use alloy::signers::local::PrivateKeySigner;
use axum::{Router, http::StatusCode, routing::post};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower_x402::{
    MerchantBuilder, PaymentIdentifier,
    protocol::{
        ChainTime, SealingKeys,
        headers::PAYMENT_SIGNATURE,
        v2::{Authorization, Extensions, PaymentPayload, PaymentRequired, SignedAuthorization},
    },
    settle::WalletSettler,
    testing::{DevChain, contracts::Word},
    verify::EvmVerifier,
};

use crate::{
    app::{App, PATIENT},
    kinds::{Kind, Place},
    node,
    replicas::KEY,
    served::{
        market::{PRICE, SELLER},
        shop::{client, serve},
    },
    support::{Counter, authorization::signature},
};

const NAME: &str = "pay_7d5d747be160e280";
const QUESTION: &str = r#"{"query":"pricing"}"#;
/// The payer's account. The first two settle.
const PAYER: usize = 5;

/// A chain that mines by itself.
async fn chain() -> DevChain {
    DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap()
}

/// A new quote by this server, signed for the purchase of that name.
async fn signed(chain: &DevChain, url: &str, name: &str) -> PaymentPayload {
    let quote = ask(url, None).await;
    assert_eq!(quote.status(), 402);
    let required = PaymentRequired::from_headers(quote.headers()).unwrap().unwrap();
    assert!(required.extensions.takes_purchase_name());
    let offer = required.accepts[0].exact().unwrap().clone();
    let payer: PrivateKeySigner = chain.accounts()[PAYER].private_key().parse().unwrap();
    let (from, nonce, until) =
        (chain.accounts()[PAYER].address(), rand::random(), chain.timestamp().await.unwrap().unix() + 600);
    let terms = [from.into(), SELLER.into(), offer.amount.into(), 0.into(), u128::from(until).into(), Word::new(nonce)];
    let authorization = Authorization::new(from, nonce)
        .paying(SELLER, offer.amount)
        .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
    let signature = signature(chain, &payer, &terms).to_string().parse().unwrap();
    let named = Extensions::new().with("payment-identifier", json!({ "required": true, "id": name }), None);
    PaymentPayload::new(offer, SignedAuthorization::new(authorization, signature)).with_extensions(named)
}

async fn ask(url: &str, payment: Option<&PaymentPayload>) -> reqwest::Response {
    let request = client().post(url).header("content-type", "application/json").body(QUESTION);
    let request =
        payment.into_iter().fold(request, |request, payment| request.header(PAYMENT_SIGNATURE, payment.to_header()));
    request.send().await.unwrap()
}

/// The status, and the code of a refusal. None has a bill.
async fn told(url: &str, payment: &PaymentPayload) -> String {
    let answer = ask(url, Some(payment)).await;
    let code = answer.headers().get("x402-error").map_or("", |code| code.to_str().unwrap()).to_owned();
    assert!(!answer.headers().contains_key("payment-required"), "{code}");
    format!("{} {code}", answer.status().as_u16())
}

async fn takings(chain: &DevChain) -> u128 {
    chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
}

/// One of two servers, with a handle on the ledger and a settler of its own.
async fn server(chain: &DevChain, place: &Place, settler: usize, runs: &Counter) -> String {
    let key = chain.accounts()[settler].private_key();
    let settler = WalletSettler::builder().key(key).endpoint(chain.rpc_url()).connect().await.unwrap();
    let verifier = EvmVerifier::builder().endpoints([chain.rpc_url()]).connect().await.unwrap();
    let ledger = place.ledger().await;
    ledger.migrate().await.unwrap();
    let merchant: MerchantBuilder = tower_x402::Merchant::builder(SELLER)
        .verifier(verifier)
        .ledger(ledger)
        .settler(settler)
        .sealing_keys(SealingKeys::new([7; 32]))
        .payment_identifier(PaymentIdentifier::Required);
    let merchant = merchant.build().await.unwrap();
    let layer = merchant.charge("insights", "0.49 USDC").unwrap();
    let runs = runs.clone();
    let handler = move || {
        runs.run();
        async { StatusCode::OK }
    };
    serve(Router::new().route("/", post(handler).route_layer(layer))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_charge_a_purchase_once() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Redis] {
        let Some(place) = Place::new(kind).await else { continue };
        let (chain, runs) = (chain().await, Counter::default());
        let servers = [server(&chain, &place, 0, &runs).await, server(&chain, &place, 1, &runs).await];
        node::next_second(&chain).await;
        let mut payments = Vec::new();
        for number in 0..20 {
            payments.push(signed(&chain, &servers[number % 2], NAME).await);
        }
        // Each at the other server than the one that quoted it.
        let shown = payments.iter().enumerate().map(|(number, payment)| told(&servers[(number + 1) % 2], payment));
        let mut counted = BTreeMap::<String, usize>::new();
        for told in join_all(shown).await {
            *counted.entry(told).or_default() += 1;
        }
        println!("{kind:?}: {counted:?}");
        assert_eq!(
            (counted.get("200 "), runs.runs(), takings(&chain).await),
            (Some(&1), 1, PRICE),
            "{kind:?}: {counted:?}"
        );
        let known = ["200 ", "409 redemption_in_progress", "409 payment_id_conflict"];
        assert!(counted.keys().all(|told| known.contains(&&**told)), "{kind:?}: {counted:?}");
        for server in &servers {
            assert_eq!(told(server, &signed(&chain, server, NAME).await).await, "409 payment_id_conflict");
        }
        assert_eq!(told(&servers[0], &signed(&chain, &servers[1], "pay_7d5d747be160e281").await).await, "200 ");
        assert_eq!((runs.runs(), takings(&chain).await), (2, 2 * PRICE), "{kind:?}");
        place.remove().await;
    }
}

/// The process is killed once the payment is mined, and before it is deep enough to be sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_settlement_and_sale_a_purchase_is_charged_once() {
    let (chain, folder) = (chain().await, tempfile::tempdir().unwrap());
    let key = |number: usize| {
        let key = folder.path().join(format!("{number}.key"));
        fs::write(&key, chain.accounts()[number].private_key()).unwrap();
        key.display().to_string()
    };
    let ledger = format!("sqlite:{}", folder.path().join("ledger.db").display());
    let start = async |number| {
        let key = key(number);
        let flags = ["--ledger", &ledger, "--sealing-key", KEY, "--settle-key", &key, "--finality", "8"];
        App::start(chain.rpc_url(), &[&flags[..], &["--payment-identifier", "required"]].concat()).await
    };
    let (first, second) = (start(0).await, start(1).await);
    node::next_second(&chain).await;
    let payment = signed(&chain, &first.insights(), NAME).await;
    let url = first.insights();
    let asking = tokio::spawn({
        let payment = payment.clone();
        async move {
            let request = client().post(url).header("content-type", "application/json").body(QUESTION);
            request.header(PAYMENT_SIGNATURE, payment.to_header()).send().await.is_ok()
        }
    });
    let deadline = Instant::now() + PATIENT;
    while takings(&chain).await == 0 {
        assert!(Instant::now() < deadline, "nothing is settled");
        sleep(Duration::from_millis(50)).await;
    }
    first.kill();
    assert!(!asking.await.unwrap(), "it was sold before it was killed");
    // The client forgets what it signed, and signs anew: at the other process, and at a new one.
    let third = start(0).await;
    for app in [&second, &third] {
        let again = signed(&chain, &app.insights(), NAME).await;
        assert_eq!(told(&app.insights(), &again).await, "409 redemption_in_progress");
    }
    // The first payment decides it, once the lease of the process that was killed ran out.
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        match &*told(&third.insights(), &payment).await {
            "200 " => break,
            waits => assert!(["409 redemption_in_progress", "409 tx_not_confirmed"].contains(&waits), "{waits}"),
        }
        // Meanwhile, too.
        let again = signed(&chain, &second.insights(), NAME).await;
        assert_eq!(told(&second.insights(), &again).await, "409 redemption_in_progress");
        assert!(Instant::now() < deadline, "the first payment buys nothing");
        sleep(Duration::from_secs(2)).await;
    }
    for app in [&second, &third] {
        let again = signed(&chain, &app.insights(), NAME).await;
        assert_eq!(told(&app.insights(), &again).await, "409 payment_id_conflict");
    }
    assert_eq!(takings(&chain).await, PRICE);
    second.kill();
    third.kill();
}
