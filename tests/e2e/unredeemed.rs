//! What was paid and bought nothing, on each ledger: found on the chain, told from what was sold, and changed in nothing.

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse as _};
use serde_json::{Value, json};
use tower_x402::{
    Merchant, Unredeemed,
    UnredeemedReason::{BelowEveryPrice, NotRedeemed, TooOld},
    ledger::{RefundOutcome, SalesBook as _, SqliteLedger},
    protocol::{Address, Amount, Asset, ChainTime, Network, PaymentId, PaymentTag, TxHash},
    testing::contracts,
    verify::{EvmVerifier, TransferHistory as _, TransferQuery},
};

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{INSIGHTS, Shop, client, serve},
};
use crate::{
    kinds::{AnyLedger, Kind, Place, on_each_kind},
    support::authorization::authorization,
};

on_each_kind! {
    what_bought_nothing_is_listed
}

const AGE: Duration = Duration::from_secs(24 * 60 * 60);

async fn listed(merchant: &Merchant, verifier: &EvmVerifier, ledger: &AnyLedger, since: ChainTime) -> Vec<Unredeemed> {
    merchant.unredeemed(verifier, ledger, since, None).await.unwrap()
}

/// A transfer that anybody sends, by an authorization of the payer's.
async fn send_authorized(market: &Market, payer: usize, nonce: [u8; 32]) -> TxHash {
    let signer = market.chain.accounts()[payer].private_key().parse().unwrap();
    let call = authorization(&market.chain, &signer, SELLER, usdc(PRICE), nonce);
    market.call(market.buyer(9), market.chain.usdc(), &call).await
}

async fn what_bought_nothing_is_listed(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let market = Market::new().await;
    let ledger = AnyLedger::booking(place.address()).await;
    ledger.migrate().await.unwrap();
    let verifier = market.verifier().connect().await.unwrap();
    let builder = market.merchant().await.verifier(verifier.clone()).ledger(ledger.clone());
    let shop = Shop::open(builder).await;
    market.block().await;
    let start = ChainTime::from_unix(market.now().await);
    market.block().await;

    let intent = shop.intent(INSIGHTS).await;
    let sold = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, &intent, sold).await.sold();
    // Again for the same intent, by a payer who did not wait.
    let twice = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, &intent, twice).await.refused("already_consumed");
    let never = market.pay(PRICE + 7).await;
    // The cheapest resource costs 10,000.
    let small = market.pay(9_999).await;
    let nothing = market.pay(0).await;
    // Two from authorizations, of which one names its intent by its nonce, and buys the answer.
    let intent = shop.intent(INSIGHTS).await;
    let tag = PaymentTag::of(&intent);
    let used = send_authorized(&market, 3, *tag.as_bytes()).await;
    let unused = send_authorized(&market, 4, [2; 32]).await;
    shop.redeem(INSIGHTS, &intent, used).await.sold();
    let elsewhere = market.chain.transfer(market.buyer(1), Address::new([0x77; 20]), usdc(PRICE)).await.unwrap();
    market.block().await;

    let query = TransferQuery::new([SELLER], [Asset::USDC_BASE]).since(start);
    let transfers = verifier.transfers(&query).await.unwrap();
    assert!(transfers.is_sorted_by_key(|transfer| transfer.block_number));
    let all: Vec<_> = transfers.iter().map(|transfer| transfer.transaction).collect();
    assert_eq!(all, [sold, twice, never, small, used, unused]);
    assert!(!all.contains(&nothing) && !all.contains(&elsewhere));
    let authorized = |payer, nonce| PaymentId::of_authorization(Network::BASE, market.chain.usdc(), payer, nonce);
    assert_eq!(transfers[4].payment_id(), authorized(market.buyer(3), *tag.as_bytes()));
    let owed = listed(&shop.merchant, &verifier, &ledger, start).await;
    let seen: Vec<_> = owed.iter().map(|owed| (owed.transfer.transaction, owed.reason)).collect();
    let lowest = usdc(10_000);
    let expected =
        [(twice, NotRedeemed), (never, NotRedeemed), (small, BelowEveryPrice { lowest }), (unused, NotRedeemed)];
    assert_eq!(seen, expected);
    let [first, second, third, fourth] = owed.as_slice() else { panic!("four") };
    assert_eq!(first.payment, PaymentId::of_transfer(Network::BASE, twice, 0));
    assert_eq!(first.redeemable_until, Some(first.transfer.block_time.after(AGE)));
    assert_eq!((second.transfer.amount, second.transfer.payer), (usdc(PRICE + 7), market.buyer(0)));
    assert_eq!((third.redeemable_until, third.refund), (None, None));
    assert_eq!(fourth.payment, authorized(market.buyer(4), [2; 32]));

    // A span, to the second.
    let (from, to) = (second.transfer.block_time, third.transfer.block_time);
    for (until, length) in [(to, 1), (ChainTime::from_unix(to.unix() + 1), 2)] {
        let owed = shop.merchant.unredeemed(&verifier, &ledger, from, Some(until)).await.unwrap();
        assert_eq!(owed.len(), length);
    }
    let later = ChainTime::from_unix(market.now().await + 1);
    assert_eq!(listed(&shop.merchant, &verifier, &ledger, later).await, []);
    assert_eq!(shop.merchant.unredeemed(&verifier, &ledger, to, Some(from)).await.unwrap(), []);

    // What is given back says so; and nothing of all this took a payment from its payer.
    let refund = TxHash::new([0xab; 32]);
    assert_eq!(ledger.note_refund(third.payment, refund).await, Ok(RefundOutcome::Noted));
    let owed = listed(&shop.merchant, &verifier, &ledger, start).await;
    assert_eq!(owed[2].refund.map(|refund| refund.transaction), Some(refund));
    shop.buy_with(never).await.sold();
    let owed = listed(&shop.merchant, &verifier, &ledger, start).await;
    assert_eq!(owed.iter().map(|owed| owed.transfer.transaction).collect::<Vec<_>>(), [twice, small, unused]);

    // Too late for everybody.
    market.block_at(first.transfer.block_time.unix() + AGE.as_secs() + 1).await;
    let owed = listed(&shop.merchant, &verifier, &ledger, start).await;
    assert_eq!((owed[0].reason, owed[0].redeemable_until), (TooOld, None));
    shop.buy_with(twice).await.refused("payment_too_old");
    place.remove().await;
}

/// What an endpoint in front of the chain does with a question for logs.
#[derive(Clone, Copy)]
enum Logs {
    /// Refuses more blocks than that, with a status.
    AtMost(u64),
    /// Has none.
    Lacks,
    /// Says that there is one in a transaction that is not there.
    Invents,
}

#[derive(Clone)]
struct Proxy {
    chain: Arc<str>,
    logs: Logs,
}

async fn answer(State(proxy): State<Proxy>, body: axum::body::Bytes) -> axum::response::Response {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    if asked["method"] == "eth_getLogs" {
        let height = |name: &str| {
            let text = asked["params"][0][name].as_str().unwrap();
            u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
        };
        let (from, to) = (height("fromBlock"), height("toBlock"));
        let result = match proxy.logs {
            Logs::AtMost(most) if to - from >= most => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
            Logs::AtMost(_) => None,
            Logs::Lacks => Some(json!([])),
            Logs::Invents => Some(json!([{
                "address": asked["params"][0]["address"][0],
                "topics": [
                    asked["params"][0]["topics"][0], format!("0x{:064x}", 7), asked["params"][0]["topics"][2][0],
                ],
                "data": format!("0x{:064x}", 1), "blockNumber": format!("{from:#x}"),
                "blockHash": format!("0x{:064x}", 5), "transactionHash": format!("0x{:064x}", 9),
                "transactionIndex": "0x0", "logIndex": "0x0", "removed": false,
            }])),
        };
        if let Some(result) = result {
            return axum::Json(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).into_response();
        }
    }
    let answer = client().post(&*proxy.chain).header("content-type", "application/json").body(body).send().await;
    answer.unwrap().bytes().await.unwrap().into_response()
}

/// An endpoint in front of the market's chain.
async fn proxy(market: &Market, logs: Logs) -> String {
    let state = Proxy { chain: market.chain.rpc_url().into(), logs };
    serve(Router::new().fallback(answer).with_state(state)).await
}

async fn found(market: &Market, endpoints: &[String]) -> Result<Vec<TxHash>, String> {
    let builder = EvmVerifier::builder().endpoints(endpoints).clock(market.clock.clone()).max_head_age(None);
    let verifier = builder.connect().await.unwrap();
    let query = TransferQuery::new([SELLER, SELLER], [Asset::USDC_BASE]);
    let transfers = verifier.transfers(&query).await.map_err(|error| error.to_string())?;
    Ok(transfers.iter().map(|transfer| transfer.transaction).collect())
}

#[tokio::test]
async fn thousands_of_blocks_are_searched_in_ranges_that_an_endpoint_takes() {
    let market = Market::new().await;
    let first = market.pay(PRICE).await;
    market.chain.mine(4_500).await.unwrap();
    let last = market.pay(PRICE).await;
    let chain = market.chain.rpc_url().to_owned();
    assert_eq!(found(&market, &[chain]).await, Ok(vec![first, last]));
    let narrow = proxy(&market, Logs::AtMost(300)).await;
    assert_eq!(found(&market, &[narrow]).await, Ok(vec![first, last]));
    let never = proxy(&market, Logs::AtMost(0)).await;
    assert!(found(&market, std::slice::from_ref(&never)).await.is_err(), "half a list is none");
    // Nor is it kept from selling by that.
    let verifier = market.verifier_at(&never).connect().await.unwrap();
    let query = TransferQuery::new([SELLER], [Asset::USDC_BASE]);
    assert!(verifier.transfers(&query).await.is_err());
    let shop = Shop::open(market.merchant().await.verifier(verifier)).await;
    market.block().await;
    shop.buy_with(market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn a_second_endpoint_has_the_logs_that_the_first_lacks_and_a_lie_is_found_out() {
    let market = Market::new().await;
    let paid = market.pay(PRICE).await;
    let (lacks, invents) = (proxy(&market, Logs::Lacks).await, proxy(&market, Logs::Invents).await);
    let chain = market.chain.rpc_url().to_owned();
    assert_eq!(found(&market, &[lacks.clone(), chain.clone()]).await, Ok(vec![paid]));
    assert_eq!(found(&market, &[chain.clone(), lacks]).await, Ok(vec![paid]));
    assert!(found(&market, &[invents, chain]).await.is_err(), "a transaction that nobody has");
}

/// Three customers in one transaction: each transfer is listed, and told apart, by its place.
#[tokio::test]
async fn transfers_of_one_transaction_are_listed_one_by_one() {
    let market = Market::new().await;
    let verifier = market.verifier().connect().await.unwrap();
    let batch = market.deploy(contracts::BATCH).await;
    let payments =
        [(1, PRICE), (2, PRICE + 1), (3, PRICE + 2)].map(|(buyer, units)| (market.buyer(buyer), usdc(units)));
    for (payer, _) in payments {
        market.chain.send(payer, market.chain.usdc(), &contracts::approve(batch, Amount::MAX)).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let ledger = SqliteLedger::open(folder.path().join("ledger.db")).await.unwrap();
    let builder = market.merchant().await.verifier(verifier.clone()).ledger(ledger.clone());
    let shop = Shop::open(builder).await;
    market.block().await;
    let collected = contracts::collect(market.chain.usdc(), SELLER, payments);
    let paid = market.call(market.buyer(0), batch, &collected).await;
    let start = ChainTime::from_unix(0);
    let owed = shop.merchant.unredeemed(&verifier, &ledger, start, None).await.unwrap();
    let seen: Vec<_> =
        owed.iter().map(|owed| (owed.transfer.transaction, owed.transfer.payer, owed.transfer.amount)).collect();
    assert_eq!(seen, payments.map(|(payer, amount)| (paid, payer, amount)));
    // The smallest is sold first.
    shop.buy_with(paid).await.sold();
    let left = shop.merchant.unredeemed(&verifier, &ledger, start, None).await.unwrap();
    assert_eq!(left, owed[1..]);

    let foreign = Asset::new(Network::BASE_SEPOLIA, market.chain.usdc(), 6, "USDC");
    assert!(verifier.transfers(&TransferQuery::new([SELLER], [foreign])).await.is_err(), "another chain's token");
}
