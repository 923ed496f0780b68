//! A seller as the standard's are: it meters, knows no answer that it gave, and sells by any voucher over what is charged and the price.

use serde_json::json;
use tower_x402::{
    client::{ChannelPhase, PayErrorKind},
    protocol::channel::ChannelState,
};

use super::{
    unanswered::{MISMATCH, refusing},
    *,
};

/// What it knows of the one channel.
#[derive(Default)]
struct Counted {
    charged: u128,
    last: Option<Voucher>,
    /// The statement of the first sale, which the deposit settled.
    told: Option<HeaderValue>,
}

/// Sells in that way, at what an answer costs at the time.
fn meters(trade: &Trade, costs: &Arc<Mutex<u128>>) {
    let (inner, costs) = (trade.line.seller.lock().unwrap().clone(), costs.clone());
    let counted: Arc<Mutex<Counted>> = Arc::default();
    let seller = tower::service_fn(move |request: Request<Body>| {
        let (inner, costs, counted) = (inner.clone(), costs.clone(), counted.clone());
        async move {
            let Some(payment) = PaymentPayload::from_headers(request.headers()).unwrap() else {
                return inner.oneshot(request).await;
            };
            let voucher = payload(&payment).voucher().clone();
            let (charged, last, told_first) = {
                let known = counted.lock().unwrap();
                (known.charged, known.last.clone(), known.told.clone())
            };
            let Some(last) = last else {
                let answer = inner.oneshot(request).await?;
                let told = answer.headers().get(PAYMENT_RESPONSE).cloned();
                *counted.lock().unwrap() = Counted { charged: PRICE, last: Some(voucher), told };
                return Ok(answer);
            };
            if voucher.max_claimable != charged + PRICE {
                let mut state = ChannelState::new(last.channel, units(PRICE_OF_TEN), units(0));
                state.charged_cumulative_amount = Some(units(charged));
                let shown = json!({"signedMaxClaimable": last.max_claimable.to_string(), "signature": last.signature.to_string()});
                return Ok(refusing(inner, MISMATCH, json!({"channelState": state, "voucherState": shown})).await);
            }
            let cost = *costs.lock().unwrap();
            let charged = charged + cost;
            {
                let mut known = counted.lock().unwrap();
                (known.charged, known.last) = (charged, Some(voucher));
            }
            let mut answer = inner.oneshot(question(0)).await?;
            *answer.status_mut() = http::StatusCode::OK;
            answer.headers_mut().clear();
            answer.headers_mut().insert(PAYMENT_RESPONSE, told_first.unwrap());
            Ok(told(answer, |told| {
                told["extra"]["chargedAmount"] = json!(cost.to_string());
                told["extra"]["channelState"]["chargedCumulativeAmount"] = json!(charged.to_string());
            }))
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
}

/// An answer costs nothing, or less, and its body is dropped. The next purchase signs the same total; the first one is shown again beside
/// it, and sold anew. What the seller then says of the second one is the truth, though that was never shown before.
#[tokio::test(start_paused = true)]
async fn a_total_that_was_not_charged_may_be_at_a_later_showing() {
    let trade = Trade::open().await;
    let costs: Arc<Mutex<u128>> = Arc::new(Mutex::new(0));
    meters(&trade, &costs);
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    drop(layer.layer(trade.line.clone()).oneshot(question(1)).await.unwrap());
    *costs.lock().unwrap() = PRICE;
    let mut second = Box::pin(trade.buy(&layer, 2));
    while trade.line.seen().len() < 3 {
        let polled = futures_util::poll!(&mut second);
        assert!(polled.is_pending(), "{polled:?}");
    }
    trade.buy(&layer, 1).await.unwrap();
    let error = second.await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::AnswerLost, "{error}");
    let held = layer.channels().remove(0);
    assert_eq!((held.phase, held.charged), (ChannelPhase::Open, units(2 * PRICE)));
    trade.buy(&layer, 3).await.unwrap();
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE, 2 * PRICE, 2 * PRICE, 3 * PRICE]);
}

/// A claim shows the voucher of a metered answer, which cost half of it. An answer of exactly the rest has the same total.
#[tokio::test(start_paused = true)]
async fn a_total_that_a_claim_has_shown_is_not_signed_again_and_its_channel_goes_on() {
    let trade = Trade::selling(Some(50)).await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    let _ = trade.stall.shop.merchant.claim_now().await.unwrap();
    let metered = trade.line.seller.lock().unwrap().clone();
    let half = trade.stall.shop.merchant.charge("half", units(50)).unwrap();
    let handler = tower::service_fn(|_: Request<RequestBody<Body>>| async {
        Ok::<_, Infallible>(Response::new(Full::from("half")))
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(half.layer(handler));
    for _ in 0..2 {
        let error = trade.buy(&layer, 1).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Payer, "{error}");
    }
    assert!(layer.unfinished().is_empty());
    // It was shown once, and is known since.
    assert_eq!(trade.line.totals(), [PRICE, PRICE]);
    let held = layer.channels().remove(0);
    assert_eq!((held.phase, held.charged), (ChannelPhase::Open, units(50)));
    *trade.line.seller.lock().unwrap() = metered;
    trade.buy(&layer, 2).await.unwrap();
    assert_eq!(trade.line.totals()[2..], [50 + PRICE]);
    assert_eq!((trade.charged().await, trade.channels(), trade.stall.channels.deposits()), (100, 1, 1));
}

/// A seller that never had the voucher says that its signature does not count: it gets no other payment by that in the same call.
#[tokio::test(start_paused = true)]
async fn a_voucher_that_is_shown_for_the_first_time_is_followed_by_no_other_payment() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    let inner = trade.line.seller.lock().unwrap().clone();
    let seller = tower::service_fn({
        let inner = inner.clone();
        move |request: Request<Body>| {
            let inner = inner.clone();
            async move {
                match PaymentPayload::from_headers(request.headers()).unwrap() {
                    Some(_) => Ok(refusing(inner, "invalid_batch_settlement_evm_voucher_signature", json!({})).await),
                    None => inner.oneshot(request).await,
                }
            }
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Refused, "{error}");
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE]);
    *trade.line.seller.lock().unwrap() = inner;
    trade.buy(&layer, 2).await.unwrap();
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE, 2 * PRICE]);
}
