//! The journal is lost: its channel is taken up again, and goes on behind a voucher of the payer's own.

use tower_x402::client::{ChannelPhase, PayErrorKind};

use super::*;

/// Some answers are bought, and the journal is lost; what the channel is.
async fn lost(trade: &Trade) -> ChannelConfig {
    let layer = trade.layer().await;
    for what in 0..4 {
        trade.buy(&layer, what).await.unwrap();
    }
    layer.channels().remove(0).config
}

/// A layer with an empty journal.
async fn fresh(trade: &Trade) -> PayLayer {
    let builder = PayLayer::builder(trade.purse.clone(), Trade::budget().build().unwrap(), MemoryJournal::new());
    builder.prefer(PaymentMethod::Channel).clock(trade.stall.shop.clock.clone()).build().await.unwrap()
}

fn seller() -> http::Uri {
    "https://seller.example/answer".parse().unwrap()
}

async fn adopted(layer: &PayLayer, config: ChannelConfig) -> tower_x402::client::HeldChannel {
    layer.adopt_channel(Network::BASE, config, seller()).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_channel_of_a_lost_journal_is_closed_to_the_unit() {
    let trade = Trade::open().await;
    let config = lost(&trade).await;
    let layer = fresh(&trade).await;
    let held = adopted(&layer, config).await;
    assert_eq!((held.phase, held.deposited, held.charged), (ChannelPhase::Open, units(PRICE_OF_TEN), units(0)));
    let totals = trade.purse.signed.lock().unwrap().1.len();
    let closed = layer.layer(Unkept(trade.line.clone())).close_channel(held.id).await.unwrap().unwrap();
    assert_eq!((closed.phase, closed.charged, closed.refunded), (ChannelPhase::Closed, units(400), units(600)));
    // Nothing above what the seller had.
    assert_eq!(trade.purse.signed.lock().unwrap().1[totals..], [0, 400]);
}

#[tokio::test(start_paused = true)]
async fn a_channel_of_a_lost_journal_goes_on_behind_a_voucher_of_ones_own() {
    let trade = Trade::open().await;
    let config = lost(&trade).await;
    let layer = fresh(&trade).await;
    let held = adopted(&layer, config).await;
    // Again, it stays as it is.
    assert_eq!(adopted(&layer, config).await, held);
    let before = trade.purse.signed.lock().unwrap().1.len();
    let client = layer.layer(Unkept(trade.line.clone()));
    for _ in 0..2 {
        client.clone().oneshot(question(9)).await.unwrap().into_body().collect().await.unwrap();
    }
    assert_eq!(trade.purse.signed.lock().unwrap().1[before..], [PRICE, 5 * PRICE, 6 * PRICE]);
    let held = layer.channels().remove(0);
    assert_eq!((held.charged, trade.charged().await, trade.channels()), (units(6 * PRICE), 6 * PRICE, 1));
    assert_eq!(trade.purse.deposits(), 1);
}

fn changed(mut config: ChannelConfig, change: impl FnOnce(&mut ChannelConfig)) -> ChannelConfig {
    change(&mut config);
    config
}

#[tokio::test(start_paused = true)]
async fn no_channel_of_another_and_none_that_holds_nothing_is_adopted() {
    let trade = Trade::open().await;
    let config = lost(&trade).await;
    let layer = fresh(&trade).await;
    let other = Address::new([9; 20]);
    let id = |config: &ChannelConfig| config.id(Network::BASE);
    for (config, kind) in [
        (changed(config, |config| config.payer = other), PayErrorKind::Payer),
        (config.with_payer_authorizer(other), PayErrorKind::Payer),
        (changed(config, |config| config.token = other), PayErrorKind::Payer),
        (config.with_salt([8; 32]), PayErrorKind::Channel),
    ] {
        if kind == PayErrorKind::Payer {
            trade.stall.channels.set_state(id(&config), ChannelOnChain::new(units(PRICE), units(0)));
        }
        let error = layer.adopt_channel(Network::BASE, config, seller()).await.unwrap_err();
        assert_eq!((error.kind(), layer.channels().len()), (kind, 0), "{error}");
    }
    let error = layer.adopt_channel(Network::BASE, config, "/answer".parse().unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), layer.channels().len()), (PayErrorKind::Payer, 0), "{error}");
}

/// The line, whose own look at the journal sees the lost one.
#[derive(Clone)]
struct Unkept(Line);

impl Service<Request<Body>> for Unkept {
    type Response = Sold;
    type Error = String;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answered {
        let seller = self.0.seller.lock().unwrap().clone();
        Box::pin(async move {
            let mut answer = seller.oneshot(request).await.unwrap();
            answer.headers_mut().remove("pay");
            Ok(answer)
        })
    }
}
