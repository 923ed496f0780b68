//! `datasets sales`, `refund` and `unredeemed`, as a seller asks them beside a server that sells.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use tower_x402::{
    ledger::UtcDay,
    protocol::{Network, PaymentId},
};

use super::{
    app::{App, ended_in},
    market::{Market, PRICE, SELLER},
};

const LEDGER: [&str; 2] = ["--ledger", "sqlite:x402-ledger.db"];

/// What it said; it must have gone well.
async fn said(folder: &Path, flags: &[&str]) -> String {
    let (code, said) = ended_in(folder, &[flags, &LEDGER].concat(), &[]).await;
    assert_eq!(code, Some(0), "{flags:?}: {said}");
    said
}

#[tokio::test]
async fn a_seller_reads_the_book_and_gives_money_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let market = Market::new().await;
    let app = App::start_in(folder.to_owned(), market.chain.rpc_url(), &LEDGER).await;
    let (intent, sold) = (app.intent().await, market.pay(PRICE).await);
    let _ = app.redeem(&intent, sold).await.taken();
    let (twice, small) = (market.pay(PRICE).await, market.pay(PRICE - 1).await);

    let now = SystemTime::now();
    let days = Duration::from_secs(2 * 86_400);
    let [since, after] = [now - days, now + days].map(|time| UtcDay::of(time).to_string());
    let payment = PaymentId::of_transfer(Network::BASE, sold, 0).to_string();

    let table = said(folder, &["sales", "--since", &since]).await;
    assert!(table.contains("sold_at") && table.contains("0.49 USDC") && table.contains(&payment), "{table}");
    let csv = said(folder, &["sales", "--since", &since, "--csv"]).await;
    let token = market.chain.usdc();
    for part in [
        "sold_at,resource,amount,base_units,token,network,payer,recipient,transaction,block,block_time,payment,refund",
        &format!("demand-insights,0.49 USDC,490000,{token},eip155:8453,{},{SELLER},{sold},", market.buyer(0)),
    ] {
        assert!(csv.contains(part), "{part} in {csv}");
    }
    let json = said(folder, &["sales", "--since", &since, "--json"]).await;
    assert!(json.contains(&format!("\"transaction\":\"{sold}\"")), "{json}");
    let totals = said(folder, &["sales", "--since", &since, "--totals", "--json"]).await;
    assert!(totals.contains("\"sales\":\"1\"") && totals.contains("\"base_units\":\"490000\""), "{totals}");
    for empty in [
        vec!["sales", "--since", after.as_str()],
        vec!["sales", "--since", since.as_str(), "--until", since.as_str()],
        vec!["sales", "--since", since.as_str(), "--resource", "nothing"],
    ] {
        assert!(said(folder, &empty).await.lines().any(|line| line.ends_with("none")), "{empty:?}");
    }

    let seller = SELLER.to_string();
    let chain = ["--recipient", &seller, "--rpc-url", market.chain.rpc_url()];
    let owed = said(folder, &[&["unredeemed", "--since", &since, "--csv"][..], &chain].concat()).await;
    let [twice_id, small_id] = [twice, small].map(|paid| PaymentId::of_transfer(Network::BASE, paid, 0).to_string());
    for part in [&twice_id, &small_id, "not redeemed"] {
        assert!(owed.contains(part), "{part} in {owed}");
    }
    // Of a service whose price is not said, no payment is known to be below it.
    assert!(!owed.contains("below every price"), "{owed}");
    let priced = ["unredeemed", "--since", &since, "--csv", "--price", "0.49"];
    let owed = said(folder, &[&priced[..], &chain].concat()).await;
    assert!(owed.contains("not redeemed") && owed.contains("below every price"), "{owed}");
    assert!(!owed.contains(&payment), "{owed}");

    let (first, second) = (format!("0x{}", "ab".repeat(32)), format!("0x{}", "cd".repeat(32)));
    let run = async |payment: &str, by: &str| {
        let flags = [&["refund", "--payment", payment, "--transaction", by][..], &LEDGER].concat();
        ended_in(folder, &flags, &[]).await
    };
    let (code, noted) = run(&payment, &first).await;
    assert!(code == Some(0) && noted.contains("is noted as given back") && !noted.contains("not on record"), "{noted}");
    let (code, again) = run(&payment, &first).await;
    assert!(code == Some(0) && again.contains("was noted as given back"), "{again}");
    let (code, other) = run(&payment, &second).await;
    assert!(code == Some(1) && other.contains("twice") && other.contains(&first), "{other}");
    // What is not on record as sold is looked for on the chain.
    let (code, unasked) = run(&small_id, &second).await;
    assert!(code == Some(2) && unasked.contains("--rpc-url"), "{unasked}");
    let nowhere = PaymentId::of_transfer(Network::BASE, sold, 7).to_string();
    for (payment, expected, part) in
        [(&nowhere, Some(1), "nor on the chain since"), (&small_id, Some(0), "not on record as sold")]
    {
        let flags = ["refund", "--payment", payment, "--transaction", &second];
        let (code, unsold) = ended_in(folder, &[&flags[..], &LEDGER, &chain].concat(), &[]).await;
        assert!(code == expected && unsold.contains(part), "{unsold}");
    }
    assert!(said(folder, &["sales", "--since", &since, "--json"]).await.contains(&first));
    let owed = said(folder, &[&["unredeemed", "--since", &since][..], &chain].concat()).await;
    assert!(owed.contains(&second), "{owed}");

    // It sells on: and what was paid twice buys an answer all the same.
    let _ = app.redeem(&app.intent().await, twice).await.taken();
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, sentence) in [
        (&["sales", "--since", "yesterday"][..], "2026-11-22"),
        (&["sales"], "--since"),
        (&["sales", "--since", "2026-11-01", "--csv", "--json"], "--json"),
        (&["sales", "--since", "2026-11-01"], "there is no ledger"),
        (&["sales", "--since", "2026-11-01", "--ledger", "memory"], "--ledger"),
        (&["refund", "--payment", "7", "--transaction", "0x1"], "--payment"),
        (&["unredeemed", "--since", "2026-11-01"], "--recipient"),
    ] {
        let (code, said) = ended_in(folder.path(), flags, &[]).await;
        assert!(code == Some(2) && said.contains(sentence), "{flags:?}: {code:?} {said}");
    }
}
