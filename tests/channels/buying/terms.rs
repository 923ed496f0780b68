//! A seller that changes its terms: a channel of its earlier ones does not fit any more.

use std::{sync::atomic::AtomicU64, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tower_x402::{client::PayErrorKind, protocol::headers::PAYMENT_REQUIRED, testing::ChannelStep};

use super::*;

/// From now on each bill names another delay.
fn varies(trade: &Trade) {
    let inner = trade.line.seller.lock().unwrap().clone();
    let delay = Arc::new(AtomicU64::new(1_000));
    let seller = tower::service_fn(move |request: Request<Body>| {
        let (inner, delay) = (inner.clone(), delay.clone());
        async move {
            let mut answer = inner.oneshot(request).await?;
            if let Some(header) = answer.headers().get(PAYMENT_REQUIRED) {
                let mut json: Value = serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap();
                for offer in json["accepts"].as_array_mut().unwrap() {
                    offer["extra"]["withdrawDelay"] = json!(delay.fetch_add(1, SeqCst));
                }
                answer.headers_mut().insert(PAYMENT_REQUIRED, STANDARD.encode(json.to_string()).parse().unwrap());
            }
            Ok::<_, Infallible>(answer)
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
}

/// Asks the same host at another port.
async fn at_port(trade: &Trade, layer: &PayLayer, what: usize) -> Result<(), PayError> {
    let request = Request::get(format!("https://seller.example:8443/answer?what={what}"));
    layer.layer(trade.line.clone()).oneshot(request.body(Body::empty()).unwrap()).await.map(drop)
}

/// It keeps the voucher and the deposit, and never answers.
#[tokio::test(start_paused = true)]
async fn a_seller_that_never_answers_gets_one_deposit_whatever_it_asks_for() {
    let trade = Trade::open().await;
    varies(&trade);
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    let left = trade.buy(&layer, 0).await.unwrap_err().purchase().unwrap();
    let next = async |layer: &PayLayer, kind, deposits| {
        for port in [false, true] {
            let bought = if port { at_port(&trade, layer, 1).await } else { trade.buy(layer, 1).await.map(drop) };
            let error = bought.unwrap_err();
            assert_eq!((error.kind(), trade.purse.deposits()), (kind, deposits), "{port}: {error}");
        }
    };
    next(&layer, PayErrorKind::Channel, 1).await;
    assert!(layer.abandon(left).await.unwrap());
    next(&layer, PayErrorKind::Payer, 1).await;
    next(&trade.layer().await, PayErrorKind::Payer, 1).await;
    // The chain shows that it was not made, and never will be.
    trade.stall.shop.clock.advance(Duration::from_secs(3_600));
    trade.buy(&layer, 2).await.unwrap_err();
    assert_eq!(trade.purse.deposits(), 2);
}

/// Several calls at once are billed each in another way.
#[tokio::test(start_paused = true)]
async fn calls_at_once_make_one_deposit_at_a_seller_that_varies_its_terms() {
    let trade = Trade::open().await;
    varies(&trade);
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    let calls = (0..4).map(|what| trade.buy(&layer, what));
    assert!(futures_util::future::join_all(calls).await.iter().all(Result::is_err));
    assert_eq!(trade.purse.deposits(), 1);
}

/// What works, and has money left, is no reason against other terms.
#[tokio::test(start_paused = true)]
async fn an_honest_seller_may_change_its_terms() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.stall.channels.always(ChannelStep::Unknown);
    varies(&trade);
    trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!((trade.purse.deposits(), layer.channels().len()), (2, 2));
}

/// A port is no other seller.
#[tokio::test(start_paused = true)]
async fn a_seller_that_was_not_believed_is_not_believed_at_another_port() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, answer| Ok(told(answer, |told| told["extra"]["chargedAmount"] = json!("101"))));
    trade.buy(&layer, 1).await.unwrap();
    trade.line.scripted(|_, answer| Ok(answer));
    // Another process has forgotten the host, but not the channel.
    let error = at_port(&trade, &trade.layer().await, 2).await.unwrap_err();
    assert_eq!((error.kind(), trade.channels()), (PayErrorKind::Channel, 1), "{error}");
}
