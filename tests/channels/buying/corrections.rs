//! Sellers that count another total: believed with this payer's own voucher, and for what was given up.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tower_x402::{
    client::{ChannelPhase, PayErrorKind},
    protocol::headers::PAYMENT_REQUIRED,
};

use super::*;

/// One answer is charged and lost, and given up.
pub(super) async fn given_up(trade: &Trade, layer: &PayLayer) {
    trade.buy(layer, 0).await.unwrap();
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    let left = trade.buy(layer, 1).await.unwrap_err().purchase().unwrap();
    assert!(layer.abandon(left).await.unwrap());
    trade.line.scripted(|_, answer| Ok(answer));
    assert_eq!(trade.charged().await, 2 * PRICE);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_and_charged_is_counted_by_the_sellers_proof() {
    for restarted in [false, true] {
        let trade = Trade::open().await;
        let mut layer = trade.layer().await;
        given_up(&trade, &layer).await;
        if restarted {
            layer = trade.layer().await;
        }
        let before = trade.line.seen().len();
        let (text, _) = trade.buy(&layer, 2).await.unwrap();
        assert_eq!((text.as_str(), trade.charged().await), ("run 3", 3 * PRICE));
        // Nothing above what was signed before was shown before the correction, and one retry.
        assert_eq!(trade.line.totals()[before..], [2 * PRICE, 3 * PRICE]);
        let held = layer.channels().remove(0);
        assert_eq!((held.charged, held.phase), (units(3 * PRICE), ChannelPhase::Open));
        trade.buy(&layer, 3).await.unwrap();
        assert_eq!(trade.line.totals().len(), before + 3);
    }
}

/// The seller lost its memory: it asks for less, which the chain does not contradict.
#[tokio::test(start_paused = true)]
async fn a_seller_that_forgot_is_believed() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    for what in 0..3 {
        trade.buy(&layer, what).await.unwrap();
    }
    let fresh = Trade::open().await;
    let id = trade.line.seen()[0].voucher().channel;
    fresh.stall.channels.set_state(id, ChannelOnChain::new(units(PRICE_OF_TEN), units(0)));
    *trade.line.seller.lock().unwrap() = fresh.line.seller.lock().unwrap().clone();
    let (text, _) = trade.buy(&layer, 3).await.unwrap();
    assert_eq!(text, "run 1");
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE, 3 * PRICE, 4 * PRICE, PRICE]);
}

fn altered(mut answer: Sold, change: &impl Fn(&mut Value)) -> Sold {
    if let Some(header) = answer.headers().get(PAYMENT_REQUIRED) {
        let mut json: Value = serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap();
        for offer in json["accepts"].as_array_mut().unwrap().iter_mut() {
            if offer["extra"]["channelState"].is_object() {
                change(&mut offer["extra"]);
            }
        }
        answer.headers_mut().insert(PAYMENT_REQUIRED, STANDARD.encode(json.to_string()).parse().unwrap());
    }
    answer
}

/// A corrective 402 that proves nothing, or more than was ever signed: nothing is signed for it, then or later.
#[tokio::test(start_paused = true)]
async fn a_correction_without_this_payers_own_voucher_is_refused() {
    let stranger = PrivateKeySigner::from_slice(&[6; 32]).unwrap();
    let theirs = move |id: ChannelId, total| {
        let digest = B256::new(id.voucher_digest(total, Network::BASE));
        PaymentSignature::new(stranger.sign_hash_sync(&digest).unwrap().as_bytes()).unwrap().to_string()
    };
    for lie in 0..6 {
        let trade = Trade::open().await;
        let layer = trade.layer().await;
        given_up(&trade, &layer).await;
        let before = trade.line.seen().len();
        let (id, theirs) = (trade.line.seen()[0].voucher().channel, theirs.clone());
        let change = move |extra: &mut Value| match lie {
            0 => drop(extra.as_object_mut().unwrap().remove("voucherState")),
            1 => extra["voucherState"]["signature"] = json!(theirs(id, 200)),
            2 => extra["channelState"]["chargedCumulativeAmount"] = json!("300"),
            3 => {
                extra["channelState"]["chargedCumulativeAmount"] = json!("300");
                extra["voucherState"] = json!({"signedMaxClaimable": "300", "signature": theirs(id, 300)});
            }
            4 => extra["channelState"]["channelId"] = json!(ChannelId::new([9; 32])),
            _ => drop(extra.as_object_mut().unwrap().remove("channelState")),
        };
        trade.line.scripted(move |_, answer| Ok(altered(answer, &change)));
        let error = trade.buy(&layer, 2).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Channel, "{lie}: {error}");
        assert_eq!(trade.line.totals()[before..], [2 * PRICE], "{lie}");
        assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Broken, "{lie}");
        let error = trade.buy(&trade.layer().await, 3).await.unwrap_err();
        assert_eq!((error.kind(), trade.line.seen().len()), (PayErrorKind::Channel, before + 1), "{lie}: {error}");
    }
}

/// Corrected again and again: one retry for each purchase.
#[tokio::test(start_paused = true)]
async fn a_purchase_is_corrected_once() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    given_up(&trade, &layer).await;
    let before = trade.line.seen().len();
    let first = Arc::new(Mutex::new(None));
    trade.line.scripted(move |_, answer| {
        let mut kept = first.lock().unwrap();
        let correction = kept.get_or_insert_with(|| answer.headers().get(PAYMENT_REQUIRED).unwrap().clone()).clone();
        let (mut parts, body) = answer.into_parts();
        parts.status = http::StatusCode::PAYMENT_REQUIRED;
        parts.headers.remove(PAYMENT_RESPONSE);
        parts.headers.insert(PAYMENT_REQUIRED, correction);
        Ok(Response::from_parts(parts, body))
    });
    let error = trade.buy(&layer, 2).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!(trade.line.totals()[before..], [2 * PRICE, 3 * PRICE]);
}
