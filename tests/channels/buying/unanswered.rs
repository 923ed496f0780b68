//! An answer is lost at a seller that does not give it again, and that corrects whoever asks for it, as the standard's servers do.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tower_x402::{
    client::{ChannelPhase, PayErrorKind},
    protocol::{channel::ChannelState, headers::PAYMENT_REQUIRED},
};

use super::*;

pub(super) const MISMATCH: &str = "invalid_batch_settlement_evm_cumulative_amount_mismatch";
const BUSY: &str = "invalid_batch_settlement_evm_channel_busy";

/// The bill, refusing for this reason, with this in the `extra` of the channel's offer.
pub(super) async fn refusing(seller: Seller, reason: &str, extra: Value) -> Sold {
    let mut bill = seller.oneshot(question(0)).await.unwrap();
    let header = bill.headers().get(PAYMENT_REQUIRED).unwrap();
    let mut json: Value = serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap();
    json["error"] = json!(reason);
    for offer in json["accepts"].as_array_mut().unwrap() {
        if offer["scheme"] == "batch-settlement" {
            offer["extra"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        }
    }
    bill.headers_mut().insert(PAYMENT_REQUIRED, STANDARD.encode(json.to_string()).parse().unwrap());
    bill
}

/// Corrects each voucher that was sold before, as one over another total than what was charged and the price. `busy`: how often it says
/// first that it is still at work.
fn as_the_standard_does(trade: &Trade, charge: u128, busy: usize) {
    let inner = trade.line.seller.lock().unwrap().clone();
    let sold: Arc<Mutex<Option<(Voucher, u128)>>> = Arc::default();
    let busy = Arc::new(Mutex::new(busy));
    let seller = tower::service_fn(move |request: Request<Body>| {
        let (inner, sold, busy) = (inner.clone(), sold.clone(), busy.clone());
        async move {
            let Some(payment) = PaymentPayload::from_headers(request.headers()).unwrap() else {
                return inner.oneshot(request).await;
            };
            let voucher = payload(&payment).voucher().clone();
            let last = sold.lock().unwrap().clone();
            if let Some((last, charged)) = last.filter(|(last, _)| *last == voucher) {
                let is_busy = std::mem::replace(&mut *busy.lock().unwrap(), 0) > 0;
                if is_busy {
                    return Ok(refusing(inner, BUSY, json!({})).await);
                }
                let mut state = ChannelState::new(last.channel, units(PRICE_OF_TEN), units(0));
                state.charged_cumulative_amount = Some(units(charged));
                let shown = json!({"signedMaxClaimable": last.max_claimable.to_string(), "signature": last.signature.to_string()});
                let extra = json!({"channelState": state, "voucherState": shown});
                return Ok(refusing(inner, MISMATCH, extra).await);
            }
            let answer = inner.oneshot(request).await?;
            if answer.status().is_success() {
                *sold.lock().unwrap() = Some((voucher.clone(), voucher.max_claimable - PRICE + charge));
            }
            Ok(answer)
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
}

/// Paid, and the answer is lost: the payer is told, loses that one answer, and goes on in the same channel.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_at_a_seller_of_the_standard_costs_that_answer_alone() {
    for (charge, lost, busy) in [(PRICE, 0, 0), (PRICE, 1, 0), (PRICE, 1, 1), (40, 1, 0), (40, 0, 1)] {
        let context = format!("{charge} {lost} {busy}");
        let trade = Trade::selling((charge != PRICE).then_some(charge)).await;
        as_the_standard_does(&trade, charge, busy);
        let layer = trade.layer().await;
        for what in 0..lost {
            trade.buy(&layer, what).await.unwrap();
        }
        trade.line.scripted(move |number, answer| if number == lost { Err("broken".to_owned()) } else { Ok(answer) });
        let error = trade.buy(&layer, lost).await.unwrap_err();
        assert_eq!((error.kind(), error.is_resumable()), (PayErrorKind::AnswerLost, false), "{context}: {error}");
        assert!(error.purchase().is_some() && layer.unfinished().is_empty(), "{context}");
        let held = layer.channels().remove(0);
        let so_far = (lost as u128 + 1) * charge;
        assert_eq!((held.phase, held.charged, held.waits_for), (ChannelPhase::Open, units(so_far), None), "{context}");
        assert_eq!(trade.charged().await, so_far, "{context}");
        for what in lost + 1..lost + 4 {
            trade.buy(&layer, what).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let in_all = so_far + 3 * charge;
        assert_eq!((trade.charged().await, layer.channels().remove(0).charged), (in_all, units(in_all)), "{context}");
        let highest = trade.purse.signed.lock().unwrap().1.iter().copied().max();
        assert_eq!(
            highest,
            Some(in_all - charge + PRICE),
            "{context}: signed above what was bought and one open request"
        );
        assert_eq!((trade.channels(), trade.stall.channels.deposits()), (1, 1), "{context}");
        assert_eq!(layer.spent(), units(PRICE_OF_TEN), "{context}");
    }
}

/// The process dies before the answer is asked for again.
#[tokio::test(start_paused = true)]
async fn another_process_is_told_of_the_lost_answer_and_goes_on() {
    let trade = Trade::open().await;
    as_the_standard_does(&trade, PRICE, 0);
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let mut call = Box::pin(trade.buy(&layer, 1));
    while trade.charged().await < 2 * PRICE {
        assert!(futures_util::poll!(&mut call).is_pending());
    }
    drop(call);
    drop(layer);
    trade.line.scripted(|_, answer| Ok(answer));
    let layer = trade.layer().await;
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::AnswerLost, "{error}");
    let (text, _) = trade.buy(&layer, 1).await.unwrap();
    assert_eq!((text.as_str(), trade.line.totals()), ("run 3", vec![PRICE, 2 * PRICE, 2 * PRICE, 3 * PRICE]));
}

/// What was never shown before cannot have been sold: that ends the channel.
#[tokio::test(start_paused = true)]
async fn nothing_was_sold_before_it_was_shown() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    let inner = trade.line.seller.lock().unwrap().clone();
    let seller = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let Some(payment) = PaymentPayload::from_headers(request.headers()).unwrap() else {
                return inner.oneshot(request).await;
            };
            let shown = payload(&payment).voucher();
            let mut state = ChannelState::new(shown.channel, units(PRICE_OF_TEN), units(0));
            state.charged_cumulative_amount = Some(units(shown.max_claimable));
            let voucher = json!({"signedMaxClaimable": shown.max_claimable.to_string(), "signature": shown.signature.to_string()});
            Ok(refusing(inner, MISMATCH, json!({"channelState": state, "voucherState": voucher})).await)
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
    let error = trade.buy(&layer, 1).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!((layer.channels().remove(0).phase, trade.line.totals()), (ChannelPhase::Broken, vec![PRICE, 2 * PRICE]));
}

/// The answer of a header, refusing for another reason.
fn refusing_for(mut answer: Sold, reason: &str) -> Sold {
    let header = answer.headers().get(PAYMENT_REQUIRED).unwrap();
    let mut json: Value = serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap();
    json["error"] = json!(reason);
    answer.headers_mut().insert(PAYMENT_REQUIRED, STANDARD.encode(json.to_string()).parse().unwrap());
    answer
}

/// The answer is lost, and asked for again the seller refuses for another reason: the next purchase signs the same voucher.
#[tokio::test(start_paused = true)]
async fn a_voucher_that_another_call_showed_may_have_been_sold() {
    for restarted in [false, true] {
        let trade = Trade::open().await;
        as_the_standard_does(&trade, PRICE, 0);
        let mut layer = trade.layer().await;
        trade.buy(&layer, 0).await.unwrap();
        trade.line.scripted(|number, answer| match number {
            1 => Err("broken".to_owned()),
            2 => Ok(refusing_for(answer, "unexpected_verify_error")),
            _ => Ok(answer),
        });
        let error = trade.buy(&layer, 1).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Refused, "{error}");
        if restarted {
            layer = trade.layer().await;
        }
        let error = trade.buy(&layer, 2).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::AnswerLost, "{restarted}: {error}");
        let held = layer.channels().remove(0);
        assert_eq!((held.phase, held.charged), (ChannelPhase::Open, units(2 * PRICE)), "{restarted}");
        let (text, _) = trade.buy(&layer, 2).await.unwrap();
        assert_eq!(text, "run 3", "{restarted}");
        assert_eq!(trade.line.totals(), [1, 2, 2, 2, 3].map(|times| times * PRICE), "{restarted}");
    }
}

/// Corrected, the client shows another voucher for the first time: how often it showed the earlier one says nothing of that.
#[tokio::test(start_paused = true)]
async fn a_corrected_voucher_was_not_sold_before_it_was_shown() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    super::corrections::given_up(&trade, &layer).await;
    let inner = trade.line.seller.lock().unwrap().clone();
    let seller = tower::service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let payment = PaymentPayload::from_headers(request.headers()).unwrap();
            let Some(shown) = payment.map(|payment| payload(&payment).voucher().clone()) else {
                return inner.oneshot(request).await;
            };
            if shown.max_claimable <= 2 * PRICE {
                return inner.oneshot(request).await;
            }
            let mut state = ChannelState::new(shown.channel, units(PRICE_OF_TEN), units(0));
            state.charged_cumulative_amount = Some(units(shown.max_claimable));
            let voucher = json!({"signedMaxClaimable": shown.max_claimable.to_string(), "signature": shown.signature.to_string()});
            Ok(refusing(inner, MISMATCH, json!({"channelState": state, "voucherState": voucher})).await)
        }
    });
    *trade.line.seller.lock().unwrap() = tower::util::BoxCloneService::new(seller);
    let before = trade.line.totals().len();
    let error = trade.buy(&layer, 2).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!(trade.line.totals()[before..], [2 * PRICE, 3 * PRICE]);
    assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Broken);
}
