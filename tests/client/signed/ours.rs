//! A purchase by authorization at a seller of our own, with every fault of its settler.

use tower_x402::{
    Receipt, Redelivery,
    client::{PaymentMethod, PurchaseState},
    protocol::{ProvedBy, TxHash, v2::Reason},
    testing::{ScriptedSettler, Settling},
};

use super::*;
use crate::support::Shop;

/// A market whose seller takes both.
async fn market() -> (Market, ScriptedSettler) {
    let mut settler = None;
    let shop = Shop::open_on(|builder, chain| {
        let scripted = ScriptedSettler::new(chain.clone());
        settler = Some(scripted.clone());
        builder.settler(scripted)
    })
    .await;
    let wallet = tower_x402::testing::ScriptedPayer::new(shop.chain.clone(), crate::support::payer());
    let market = Market { shop, wallet, journal: Default::default(), runs: Default::default() };
    (market, settler.unwrap())
}

#[tokio::test(start_paused = true)]
async fn one_client_pays_our_sellers_in_both_ways() {
    for (preferred, proved) in
        [(PaymentMethod::Authorization, ProvedBy::Authorization), (PaymentMethod::Transfer, ProvedBy::Tag)]
    {
        let (market, settler) = market().await;
        let seller = market.seller_of(move |request| {
            assert_eq!(request.extensions().get::<Receipt>().unwrap().proved_by(), proved);
            http::Response::new("the answer".into())
        });
        let layer = market.layer_with(|builder| builder.prefer(preferred)).await;
        let got = super::super::rig::call(&tower::Layer::layer(&layer, seller), question("{}")).await.unwrap();
        let bought = got.purchase.unwrap();
        assert_eq!((bought.paid_by, bought.confirmed, got.text.as_str()), (preferred, true, "the answer"));
        let settled = usize::from(preferred == PaymentMethod::Authorization);
        assert_eq!((settler.settlements(), market.wallet.transfers()), (settled, 1 - settled));
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_settler_does_one_payment_gets_one_answer() {
    let faults = [
        vec![Settling::SettledUnsure],
        vec![Settling::SettledUnheard],
        vec![Settling::SettledDenied(Reason::UNEXPECTED_SETTLE_ERROR)],
        vec![Settling::SettledHanging],
        vec![Settling::Unknown],
        vec![Settling::Hanging],
        vec![Settling::Claimed(TxHash::new([0; 32]))],
        vec![Settling::Invented],
        vec![Settling::Refused(Reason::UNEXPECTED_SETTLE_ERROR)],
        vec![Settling::Unknown, Settling::SettledUnheard],
    ];
    for fault in faults {
        let (market, settler) = market().await;
        settler.script(fault.clone());
        let client = tower::Layer::layer(&market.layer().await, market.seller());
        let mut got = super::super::rig::call(&client, question("{}")).await;
        for minutes in 1..=4 {
            let Err(error) = &got else { break };
            assert!(error.is_resumable(), "{fault:?}: {error}");
            // Where nobody settles it, its time passes, and only then another one is signed.
            tokio::time::advance(std::time::Duration::from_secs(200)).await;
            market.shop.clock.advance(std::time::Duration::from_secs(200));
            market.shop.chain.set_head(ChainTime::from_unix(NOW + minutes * 200));
            got = super::super::rig::call(&client, question("{}")).await;
        }
        assert_eq!(got.unwrap_or_else(|error| panic!("{fault:?}: {error}")).text, "the answer", "{fault:?}");
        let settled = market.journal.entries().iter().filter(|entry| entry.transaction.is_some()).count();
        assert_eq!((settled, market.wallet.transfers()), (1, 0), "{fault:?}");
        let states: Vec<_> = market.journal.entries().iter().map(|entry| entry.state).collect();
        assert!(
            states.iter().all(|state| matches!(state, PurchaseState::Answered | PurchaseState::Void)),
            "{states:?}"
        );
    }
}

/// The seller crashed between settling and the sale, and its reservation ran out: the payer redeems the transaction.
#[tokio::test(start_paused = true)]
async fn what_was_settled_before_a_crash_is_redeemed_by_its_transaction() {
    let (market, settler) = market().await;
    settler.always(Settling::Refused(Reason::INSUFFICIENT_FUNDS));
    let client = tower::Layer::layer(&market.layer().await, market.seller());
    let error = super::super::rig::call(&client, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Outstanding, "{error}");
    // Somebody settles it all the same.
    settler.always(None);
    let entry = market.journal.entries().remove(0);
    let signed = entry.authorization().unwrap().clone();
    let accepted = tower_x402::protocol::v2::PaymentRequirements::new(&Asset::USDC_BASE, entry.amount, recipient(), 60);
    settle(&market.shop.chain, &PaymentPayload::new(accepted, signed));
    let got = super::super::rig::call(&client, question("{}")).await.unwrap();
    assert_eq!(
        (got.text.as_str(), market.wallet.authorizations_signed(), market.wallet.transfers()),
        ("the answer", 1, 0)
    );
    let bought = got.purchase.unwrap();
    assert!(bought.confirmed && bought.transaction.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_delivered_again_for_the_same_authorization() {
    let (market, settler) = market().await;
    let runs = market.runs.clone();
    let layer = market.shop.layer().redeliver(Redelivery::default());
    let handler = tower::service_fn(move |_: http::Request<tower_x402::RequestBody<Body>>| {
        runs.run();
        async {
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<bytes::Bytes>::from(
                "the answer",
            )))
        }
    });
    let sold = tower::Layer::layer(&layer, handler);
    let lossy = tower::service_fn({
        let lost = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        move |request: http::Request<Body>| {
            let (sold, lost) = (sold.clone(), lost.clone());
            async move {
                let shows = request.headers().contains_key("payment-signature");
                let answer = tower::ServiceExt::oneshot(sold, request).await.unwrap();
                let first = shows && lost.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
                if first { Err("the connection broke".to_owned()) } else { Ok(answer) }
            }
        }
    });
    let client = tower::Layer::layer(&market.layer().await, lossy);
    let got = super::super::rig::call(&client, question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), market.runs.runs(), settler.settlements()), ("the answer", 1, 1));
    assert_eq!(got.headers["idempotent-replayed"], "true");
}
