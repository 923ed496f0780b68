//! What is deposited is spent, within every limit.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tower_x402::{
    ChannelPolicy,
    client::{BudgetDenial, MaxPrice, PayErrorKind},
};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deposit_is_no_larger_than_the_limits_leave() {
    for (budget, deposit) in [
        (Trade::budget(), Ok(PRICE_OF_TEN)),
        (Trade::budget().per_deposit("0.00035"), Ok(350)),
        (Trade::budget().per_day("0.00045"), Ok(450)),
        (Trade::budget().per_host("0.00025"), Ok(250)),
        (Trade::budget().per_deposit("0.000099"), Err(BudgetDenial::PerDeposit)),
        (Trade::budget().per_day("0.000099"), Err(BudgetDenial::PerDay)),
        (Trade::budget().per_payment("0.000099"), Err(BudgetDenial::PerPayment)),
    ] {
        let trade = Trade::open().await;
        let layer = trade.layer_within(budget, |builder| builder).await;
        let bought = trade.buy(&layer, 0).await;
        match deposit {
            Ok(deposit) => {
                bought.unwrap();
                assert_eq!(layer.spent(), units(deposit));
            }
            Err(denial) => {
                let error = bought.unwrap_err();
                assert_eq!((error.kind(), error.denial()), (PayErrorKind::Declined, Some(denial)), "{error}");
                assert_eq!((trade.purse.deposits(), trade.journal.entries().len()), (0, 0));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_seller_asks_for_at_least_is_deposited_or_nothing() {
    let policy = || ChannelPolicy::new().min_deposit(units(5_000));
    let trade = Trade::at(Stall::open_with(policy()).await, None);
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    assert_eq!(layer.channels().remove(0).deposited, units(5_000));
    let trade = Trade::at(Stall::open_with(policy()).await, None);
    let layer = trade.layer_within(Trade::budget().per_deposit("0.004999"), |builder| builder).await;
    let error = trade.buy(&layer, 0).await.unwrap_err();
    assert_eq!((error.denial(), trade.purse.deposits()), (Some(BudgetDenial::PerDeposit), 0), "{error}");
}

/// A voucher out of a channel costs nothing more of the day; its price is still limited.
#[tokio::test(start_paused = true)]
async fn the_day_is_used_up_by_deposits_and_prices_are_limited_all_the_same() {
    let trade = Trade::open().await;
    let layer = trade.layer_within(Trade::budget().per_day("0.001"), |builder| builder).await;
    for what in 0..10 {
        trade.buy(&layer, what).await.unwrap();
    }
    let error = trade.buy(&layer, 10).await.unwrap_err();
    assert_eq!((error.denial(), layer.remaining()), (Some(BudgetDenial::PerDay), units(0)), "{error}");
    let trade = Trade::open().await;
    let layer = trade.layer().await;
    trade.buy(&layer, 0).await.unwrap();
    let mut request = question(1);
    request.extensions_mut().insert(MaxPrice(units(PRICE - 1)));
    let error = layer.layer(trade.line.clone()).oneshot(request).await.unwrap_err();
    assert_eq!((error.denial(), trade.line.seen().len()), (Some(BudgetDenial::MaxPrice), 1), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_human_sees_the_deposit_beside_the_price() {
    let trade = Trade::open().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let proposals = seen.clone();
    let budget = Trade::budget().approve(move |proposal| {
        proposals.lock().unwrap().push((proposal.amount, proposal.deposit, proposal.paid_by));
        std::future::ready(true)
    });
    let layer = trade.layer_within(budget, |builder| builder).await;
    for what in 0..2 {
        trade.buy(&layer, what).await.unwrap();
    }
    let (price, by) = (units(PRICE), PaymentMethod::Channel);
    assert_eq!(*seen.lock().unwrap(), [(price, Some(units(PRICE_OF_TEN)), by), (price, None, by)]);
}

/// The seller makes the deposit, and says that it takes no such voucher: the deposit counts, and is the only one.
#[tokio::test(start_paused = true)]
async fn a_deposit_that_was_made_counts_whatever_the_seller_says() {
    let words = ["invalid_payload", "invalid_batch_settlement_evm_cumulative_exceeds_balance"];
    let policies = [ChannelPolicy::new(), ChannelPolicy::new().deposits_by_permit2()];
    for (word, policy) in words.into_iter().flat_map(|word| policies.map(|policy| (word, policy))) {
        let trade = Trade::at(Stall::open_with(policy).await, None);
        let layer = trade.layer().await;
        trade.line.scripted(move |_, answer| {
            let (mut parts, body) = answer.into_parts();
            parts.status = http::StatusCode::PAYMENT_REQUIRED;
            let told = format!(r#"{{"success":false,"transaction":"","errorReason":"{word}"}}"#);
            parts.headers.insert(PAYMENT_RESPONSE, STANDARD.encode(told).parse().unwrap());
            Ok(Response::from_parts(parts, body))
        });
        trade.buy(&layer, 0).await.unwrap_err();
        assert_eq!((trade.stall.channels.deposits(), trade.purse.deposits()), (1, 1), "{word}");
        assert_eq!(layer.spent(), units(PRICE_OF_TEN), "{word}");
        assert_eq!(trade.layer().await.spent(), units(PRICE_OF_TEN), "{word}: the journal has it");
    }
}

/// A seller could keep a deposit for up to 30 days without an answer.
#[tokio::test(start_paused = true)]
async fn nothing_is_deposited_for_longer_than_the_limit() {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    for (delay, limit, is_bought) in [
        (DAY, None, true),
        (DAY + Duration::from_secs(1), None, false),
        (30 * DAY, Some(30 * DAY), true),
        (DAY, Some(DAY - Duration::from_secs(1)), false),
    ] {
        let trade = Trade::at(Stall::open_with(ChannelPolicy::new().withdraw_delay(delay)).await, None);
        let budget = limit.into_iter().fold(Trade::budget(), BudgetBuilder::longest_withdraw_delay);
        let layer = trade.layer_within(budget, |builder| builder).await;
        let bought = trade.buy(&layer, 0).await;
        if is_bought {
            bought.unwrap();
            continue;
        }
        let error = bought.unwrap_err();
        assert_eq!(
            (error.kind(), error.denial()),
            (PayErrorKind::Declined, Some(BudgetDenial::WithdrawDelay)),
            "{error}"
        );
        assert_eq!((trade.purse.deposits(), trade.journal.entries().len()), (0, 0), "{delay:?}");
    }
}
