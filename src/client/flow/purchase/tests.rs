//! Tests of the flow where a part reports something that it cannot resolve itself.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU32, Ordering},
};

use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use tower::service_fn;

use super::*;
use crate::{
    client::{
        Body as RequestBody, Budget, MemoryJournal, Purchase, PurchaseState, flow::PurchaseRegistry, settings::Settings,
    },
    protocol::{Address, Asset, ChainTime},
    testing::{FakeClock, ScriptedPayer, ScriptedVerifier, Sending},
};

const NOW: u64 = 1_795_280_400;

fn bill(expiry: u64) -> Response<Full<Bytes>> {
    let pay = format!(
        r#"{{"recipient":"0x0202020202020202020202020202020202020202","chainId":8453,"label":"x","expiry":{expiry},"amount":"490000","decimals":6,"symbol":"USDC"}}"#
    );
    let bill = Response::builder().status(StatusCode::PAYMENT_REQUIRED).header("pay", pay);
    let bill = bill.header("x-price-intent", "intent");
    bill.header("x-payment-contracts", Asset::USDC_BASE.contract().to_string()).body(Full::default()).unwrap()
}

async fn inner(wallet: ScriptedPayer, clock: FakeClock, journal: MemoryJournal) -> Arc<ClientInner> {
    let clock: Arc<dyn crate::clock::Clock> = Arc::new(clock);
    Arc::new(ClientInner {
        payer: Box::new(wallet),
        budget: Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_day("1").build().unwrap(),
        registry: PurchaseRegistry::load(Box::new(journal), Arc::clone(&clock)).await.unwrap(),
        clock,
        on_progress: None,
        settings: Settings::default(),
    })
}

/// Two transfers are lost, and then the quote expires: the seller is asked for a new quote before the transfer is sent
/// again.
#[tokio::test(start_paused = true)]
async fn a_lost_transfer_whose_quote_is_over_is_sent_again_under_a_fresh_one() {
    let chain = ScriptedVerifier::new(ChainTime::from_unix(NOW));
    let (wallet, clock) = (ScriptedPayer::new(chain, Address::new([1; 20])), FakeClock::new(NOW));
    wallet.script([Sending::Lost, Sending::Lost]);
    let (bills, journal) = (AtomicU32::new(0), MemoryJournal::new());
    let inner = inner(wallet.clone(), clock.clone(), journal.clone()).await;
    let bills = Arc::new(bills);
    let counted = Arc::clone(&bills);
    let service = service_fn(move |request: Request<RequestBody>| {
        let (bills, clock) = (Arc::clone(&counted), clock.clone());
        async move {
            if request.headers().contains_key("x402-payment") {
                let sold = Response::builder().header("payment-response", "e30=");
                return Ok::<_, Infallible>(sold.body(Full::from("the answer")).unwrap());
            }
            let before = bills.fetch_add(1, Ordering::Relaxed);
            if before == 0 {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    clock.advance(Duration::from_secs(60));
                });
            }
            Ok(bill(NOW + 30 + 600 * u64::from(before)))
        }
    });
    let request = Request::post("https://seller.example/x").body(RequestBody::from("{}")).unwrap();
    let answer =
        PurchaseFlow::new(inner, service, ReplayRequest::new(request), Instant::now()).run(None).await.unwrap();
    let bought = answer.extensions().get::<Purchase>().unwrap().clone();
    assert_eq!((bought.state, bought.sent), (PurchaseState::Answered, 1));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "the answer");
    assert_eq!((wallet.transfers(), wallet.sent(), bills.load(Ordering::Relaxed)), (1, 3, 2));
    assert_eq!(journal.entries()[0].expiry.unix(), NOW + 630);
}
