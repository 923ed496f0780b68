//! Vouchers whose quote no longer opens, for example because the route was renamed, or whose seller has other terms now. They are billed
//! anew only if they bought nothing.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower_x402::{
    ChannelPolicy, Merchant, Redelivery, X402, X402Layer,
    protocol::{
        ChainTime, PaymentSignature,
        channel::{ChannelPayload, Voucher},
    },
};

use crate::{
    counter::{PRICE, Stall, counting, is_silent, offered, refused, serving, shows, told, units},
    support::{Counter, Handler, NOW, ask, assert_problem, hanging, layered, read},
};

/// The same seller's route under another name.
fn renamed(layer: &X402Layer, counter: &Counter) -> X402<impl Handler + use<>> {
    layered(layer, counting(counter, None))
}

async fn is_counted(service: &X402<impl Handler>, request: Request<Body>) {
    let answer = ask(service, request).await;
    is_silent(&answer);
    let problem = assert_problem(answer, 409, "already_consumed").await;
    assert!(problem["detail"].as_str().unwrap().contains("Do not pay again"), "{problem}");
}

#[tokio::test]
async fn a_sold_voucher_whose_quote_does_not_open_any_more_is_never_billed() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let elsewhere = renamed(&stall.shop.merchant.charge("renamed", units(PRICE)).unwrap(), &counter);
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    is_counted(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    // This holds even after other vouchers were sold.
    let _ = told(&ask(&service, stall.pays(&offered(&service).await, &config, 2 * PRICE)).await);
    is_counted(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    // A voucher that bought nothing is billed, and so is a forged one.
    let answer = ask(&elsewhere, stall.pays(&offer, &config, 3 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_payment_requirements");
    let forged = Voucher::new(config.id(offer.network), PRICE, PaymentSignature::new(vec![7; 65]).unwrap());
    let forged = ChannelPayload::Voucher { channel_config: config, voucher: forged };
    assert_eq!(refused(&ask(&elsewhere, shows(&offer, forged)).await), "invalid_payment_requirements");
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn a_metered_voucher_that_cost_less_than_its_total_is_never_billed_anew() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.metered(), counting(&counter, Some(PRICE / 2)));
    let elsewhere = renamed(&stall.shop.merchant.charge_up_to("renamed", units(PRICE)).unwrap(), &counter);
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    is_counted(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn while_a_voucher_is_under_way_it_is_billed_nowhere() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.fixed(), hanging(counter.clone()));
    let elsewhere = renamed(&stall.shop.merchant.charge("renamed", units(PRICE)).unwrap(), &counter);
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let first = tokio::spawn({
        let (service, request) = (service.clone(), stall.pays(&offer, &config, PRICE));
        async move { ask(&service, request).await }
    });
    begins(&counter).await;
    let answer = ask(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "channel_busy").await;
    first.abort();
}

async fn begins(counter: &Counter) {
    while counter.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn is_in_progress(service: &X402<impl Handler>, request: Request<Body>) {
    let answer = ask(service, request).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "redemption_in_progress").await;
}

/// The same seller, whose channels must last longer.
async fn stricter(stall: &Stall) -> Merchant {
    let policy = ChannelPolicy::new().withdraw_delay(Duration::from_secs(2 * 86_400));
    stall.shop.sibling(|builder| builder.channel_settler(stall.channels.clone()).channel_policy(policy)).await
}

/// Until the deposit is made, the channel's account does not show it.
#[tokio::test]
async fn while_a_deposit_is_under_way_its_voucher_is_billed_nowhere() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.fixed(), hanging(counter.clone()));
    let elsewhere = renamed(&stall.shop.merchant.charge("renamed", units(PRICE)).unwrap(), &counter);
    let other_terms = renamed(&stricter(&stall).await.charge("answer", units(PRICE)).unwrap(), &counter);
    let offer = offered(&service).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    let first = tokio::spawn({
        let (service, request) = (service.clone(), shown());
        async move { ask(&service, request).await }
    });
    begins(&counter).await;
    is_in_progress(&elsewhere, shown()).await;
    is_in_progress(&other_terms, shown()).await;
    first.abort();
    let _ = first.await;
    // The voucher is billed once its deposit can no longer be made or await its confirmation.
    for (after, is_over) in [(659, false), (660, true)] {
        stall.shop.clock.set_unix(NOW + after);
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + after));
        match is_over {
            true => assert_eq!(refused(&ask(&elsewhere, shown()).await), "invalid_payment_requirements"),
            false => is_in_progress(&elsewhere, shown()).await,
        }
    }
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn a_voucher_that_bought_under_other_terms_is_answered_again_and_never_billed() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let kept = |layer: X402Layer| layer.redeliver(Redelivery::lasting(Duration::from_secs(900)));
    let service = layered(&kept(stall.fixed()), counting(&counter, None));
    let stricter = stricter(&stall).await;
    let now = || stricter.charge("answer", units(PRICE)).unwrap();
    let (keeping, other_terms) = (renamed(&kept(now()), &counter), renamed(&now(), &counter));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    let shown = || stall.pays(&offer, &config, PRICE);
    let _ = told(&ask(&service, shown()).await);
    let again = ask(&keeping, shown()).await;
    assert_eq!(again.status(), 200);
    assert_eq!(read(again).await.1, "run 1");
    let answer = ask(&other_terms, shown()).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "already_consumed").await;
    // A voucher that bought nothing is billed, and so is a forged one.
    let unsold = stall.pays(&offered(&service).await, &config, 2 * PRICE);
    assert_eq!(refused(&ask(&keeping, unsold).await), "invalid_batch_settlement_evm_withdraw_delay_mismatch");
    let forged = Voucher::new(config.id(offer.network), PRICE, PaymentSignature::new(vec![7; 65]).unwrap());
    let forged = ChannelPayload::Voucher { channel_config: config, voucher: forged };
    assert_eq!(
        refused(&ask(&keeping, shows(&offer, forged)).await),
        "invalid_batch_settlement_evm_withdraw_delay_mismatch"
    );
    assert_eq!(counter.runs(), 1);
}
