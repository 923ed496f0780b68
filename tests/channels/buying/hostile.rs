//! Sellers that say of a charge what cannot be true.

use std::time::Duration;

use serde_json::{Value, json};
use tower_x402::client::{BudgetDenial, ChannelPhase, PayErrorKind};

use super::*;

/// The answer is handed on; nothing more is signed in that channel, nor paid to that host in this process.
#[tokio::test(start_paused = true)]
async fn a_charge_that_does_not_add_up_ends_the_channel_and_the_trade() {
    let lies: [fn(&mut Value); 8] = [
        |told| told["extra"]["chargedAmount"] = json!("101"),
        |told| told["extra"]["chargedAmount"] = json!("1"),
        |told| told["extra"]["channelState"]["chargedCumulativeAmount"] = json!("201"),
        |told| told["extra"]["channelState"]["chargedCumulativeAmount"] = json!("100"),
        |told| told["extra"]["channelState"]["channelId"] = json!(ChannelId::new([9; 32])),
        |told| told["extra"]["channelState"]["balance"] = json!("199"),
        |told| drop(told["extra"].as_object_mut().unwrap().remove("channelState")),
        |told| drop(told.as_object_mut().unwrap().remove("extra")),
    ];
    for (lie, change) in lies.into_iter().enumerate() {
        let trade = Trade::open().await;
        let layer = trade.layer().await;
        trade.buy(&layer, 0).await.unwrap();
        trade.line.scripted(move |_, answer| Ok(told(answer, change)));
        let (text, bought) = trade.buy(&layer, 1).await.unwrap();
        assert_eq!((text.as_str(), bought.charged), ("run 2", Some(units(PRICE))), "{lie}");
        let held = layer.channels().remove(0);
        assert_eq!((held.phase, held.charged), (ChannelPhase::Broken, units(2 * PRICE)), "{lie}");
        let error = trade.buy(&layer, 2).await.unwrap_err();
        assert_eq!(error.denial(), Some(BudgetDenial::Mischarged), "{lie}: {error}");
        // Another process has forgotten the host, but not the channel.
        let error = trade.buy(&trade.layer().await, 2).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Channel, "{lie}: {error}");
        assert_eq!((trade.line.totals(), trade.channels()), (vec![PRICE, 2 * PRICE], 1), "{lie}");
    }
}

/// Answers without a word of a charge are free, by the seller's own rule: the same total is signed for the next one.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_confirmation_adds_nothing_to_the_total() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, mut answer| {
        answer.headers_mut().remove(PAYMENT_RESPONSE);
        Ok(answer)
    });
    let (text, bought) = trade.buy(&layer, 1).await.unwrap();
    assert_eq!((text.as_str(), bought.confirmed, bought.charged), ("run 2", false, Some(units(0))));
    // It was charged after all: that is not what it said.
    trade.line.scripted(|_, answer| Ok(answer));
    let error = trade.buy(&layer, 2).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!(trade.line.totals(), [PRICE, 2 * PRICE, 2 * PRICE]);
    assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Broken);
}

#[tokio::test(start_paused = true)]
async fn terms_that_no_channel_can_have_are_no_offer() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use tower_x402::protocol::headers::PAYMENT_REQUIRED;
    let changes: [fn(&mut Value); 4] = [
        |offer| offer["extra"]["withdrawDelay"] = json!(899),
        |offer| offer["extra"]["withdrawDelay"] = json!(2_592_001),
        |offer| offer["extra"]["receiverAuthorizer"] = json!(Address::ZERO),
        |offer| offer["extra"]["name"] = json!("Another Coin"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let trade = Trade::open().await;
        let layer = trade.layer().await;
        let line = trade.line.clone();
        let altering = tower::service_fn(move |request: Request<Body>| {
            let seller = line.seller.lock().unwrap().clone();
            async move {
                let mut answer = seller.oneshot(request).await?;
                let header = answer.headers().get(PAYMENT_REQUIRED).unwrap();
                let mut json: Value = serde_json::from_slice(&STANDARD.decode(header).unwrap()).unwrap();
                json["accepts"].as_array_mut().unwrap().iter_mut().for_each(change);
                answer.headers_mut().insert(PAYMENT_REQUIRED, STANDARD.encode(json.to_string()).parse().unwrap());
                Ok::<_, Infallible>(answer)
            }
        });
        let client = layer.layer(tower::util::BoxCloneService::new(altering));
        let got = client.oneshot(question(0)).await;
        assert!(got.is_err() || got.unwrap().status() == 402, "{number}");
        assert_eq!((trade.purse.deposits(), layer.channels().len()), (0, 0), "{number}");
    }
}

/// Closing does not make a seller trusted again: it gets no other deposit before its channel is closed.
#[tokio::test(start_paused = true)]
async fn a_seller_that_was_not_believed_gets_no_other_deposit_while_its_channel_closes() {
    let trade = Trade::open().await;
    let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
    trade.buy(&layer, 0).await.unwrap();
    trade.line.scripted(|_, answer| Ok(told(answer, |told| told["extra"]["chargedAmount"] = json!("101"))));
    trade.buy(&layer, 1).await.unwrap();
    let id = layer.channels().remove(0).id;
    trade.line.scripted(|_, _| Err("broken".to_owned()));
    layer.layer(trade.line.clone()).close_channel(id).await.unwrap_err();
    assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Closing);
    trade.line.scripted(|_, answer| Ok(answer));
    // Another process has forgotten the host, but not the channel.
    let later = trade.layer().await;
    let error = trade.buy(&later, 2).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Channel, "{error}");
    assert_eq!(trade.channels(), 1);
    let closed = later.layer(trade.line.clone()).close_channel(id).await.unwrap().unwrap();
    assert_eq!(closed.phase, ChannelPhase::Closed);
    trade.buy(&later, 2).await.unwrap();
    assert_eq!(trade.channels(), 2);
}
