//! Nodes that lag, or lie, about what a channel holds: no single one stops anything for good.

use std::time::Duration;

use tower_x402::client::{ChannelPhase, PayErrorKind};

use super::{corrections::given_up, *};

/// The contract lets no more be withdrawn than is left now. What was claimed or refunded a moment ago is in no deep block yet.
#[tokio::test(start_paused = true)]
async fn so_much_is_withdrawn_as_is_left_now() {
    const ALL: u128 = PRICE_OF_TEN;
    for (balance, claimed, other_holds, other_claims, withdrawn) in [
        (ALL, 0, None, None, ALL),
        (ALL, PRICE, None, None, ALL - PRICE),
        (ALL - 1, 0, None, None, ALL - 1),
        (ALL - 1, PRICE, None, None, ALL - 1 - PRICE),
        // One of the nodes lags, or lies: what the payer has not signed away is left all the same.
        (ALL, 0, Some(0), None, ALL - PRICE),
        (ALL, 0, Some(1), None, ALL - PRICE),
        (ALL, 0, Some(ALL), Some(ALL), ALL - PRICE),
        (ALL, PRICE, Some(2 * ALL), Some(0), ALL - PRICE),
    ] {
        let context = format!("{balance} {claimed} {other_holds:?} {other_claims:?}");
        let trade = Trade::open().await;
        let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
        trade.buy(&layer, 0).await.unwrap();
        let id = layer.channels().remove(0).id;
        *trade.purse.deep.lock().unwrap() = Some((ALL, 0));
        trade.stall.channels.set_state(id, ChannelOnChain::new(units(balance), units(claimed)));
        *trade.purse.other_node.lock().unwrap() = other_holds;
        *trade.purse.other_claims.lock().unwrap() = other_claims;
        let begun = layer.withdraw_channel(id).await;
        let begun = begun.unwrap_or_else(|error| panic!("{context}: {error:?}")).unwrap();
        assert!(matches!(begun.phase, ChannelPhase::Withdrawing(_)), "{context}: {:?}", begun.phase);
        assert_eq!(trade.stall.channels.state(id).withdrawing, units(withdrawn), "{context}");
    }
}

/// Too few nodes show the withdrawal that this payer began: begun again, its delay would begin again.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_was_begun_goes_on_by_the_payers_own_count() {
    for is_lost in [false, true] {
        let trade = Trade::open().await;
        let layer = trade.layer_with(|builder| builder.patience(Duration::from_secs(20))).await;
        trade.buy(&layer, 0).await.unwrap();
        let held = layer.channels().remove(0);
        let begun = layer.withdraw_channel(held.id).await.unwrap().unwrap();
        trade.purse.hides_withdrawals.store(true, SeqCst);
        trade.stall.shop.clock.advance(Duration::from_secs(10));
        assert_eq!(layer.withdraw_channel(held.id).await.unwrap().unwrap().phase, begun.phase, "{is_lost}");
        if is_lost {
            // It went with the block that it was in.
            trade.stall.channels.set_state(held.id, ChannelOnChain::new(units(PRICE_OF_TEN), units(0)));
        }
        trade.stall.shop.clock.advance(Duration::from_secs(held.config.withdraw_delay.into()));
        let phase = layer.withdraw_channel(held.id).await.unwrap().unwrap().phase;
        if is_lost {
            assert!(matches!(phase, ChannelPhase::Withdrawing(_)), "{phase:?}");
            assert_eq!(trade.stall.channels.state(held.id).withdrawing, units(PRICE_OF_TEN));
        } else {
            assert_eq!(phase, ChannelPhase::Closed);
        }
    }
}

/// One node says that more was claimed than was ever signed: the next deposit waits, and nothing is broken.
#[tokio::test(start_paused = true)]
async fn one_node_that_claims_too_much_breaks_no_channel() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    for what in 0..10 {
        trade.buy(&layer, what).await.unwrap();
    }
    *trade.purse.other_claims.lock().unwrap() = Some(PRICE_OF_TEN + 1);
    let error = trade.buy(&layer, 10).await.unwrap_err();
    assert_eq!((error.kind(), layer.channels()[0].phase), (PayErrorKind::Payer, ChannelPhase::Open), "{error}");
    *trade.purse.other_claims.lock().unwrap() = None;
    trade.buy(&layer, 10).await.unwrap();
    assert_eq!((trade.channels(), trade.purse.deposits()), (1, 2));
    // All of them say so.
    for what in 11..20 {
        trade.buy(&layer, what).await.unwrap();
    }
    let id = layer.channels().remove(0).id;
    trade.stall.channels.set_state(id, ChannelOnChain::new(units(2 * PRICE_OF_TEN), units(2 * PRICE_OF_TEN + 1)));
    trade.buy(&layer, 20).await.unwrap_err();
    assert_eq!((trade.purse.deposits(), layer.channels().remove(0).phase), (2, ChannelPhase::Broken));
}

/// The same of a seller that corrects the count: it is not condemned by one node's word.
#[tokio::test(start_paused = true)]
async fn one_node_that_claims_too_much_condemns_no_seller() {
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    given_up(&trade, &layer).await;
    *trade.purse.other_claims.lock().unwrap() = Some(2 * PRICE + 1);
    let error = trade.buy(&layer, 2).await.unwrap_err();
    assert!(error.is_resumable(), "{error}");
    assert_eq!(layer.channels().remove(0).phase, ChannelPhase::Open);
    *trade.purse.other_claims.lock().unwrap() = None;
    let (text, _) = trade.buy(&layer, 2).await.unwrap();
    assert_eq!((text.as_str(), trade.charged().await), ("run 3", 3 * PRICE));
}
