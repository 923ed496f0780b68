//! A voucher whose quote does not open any more, as where its route has another name since: it is billed anew only if it bought nothing.

use axum::body::Body;
use http::Request;
use tower_x402::{
    X402, X402Layer,
    protocol::{
        PaymentSignature,
        channel::{ChannelPayload, Voucher},
    },
};

use crate::{
    counter::{PRICE, Stall, counting, is_silent, offered, refused, serving, shows, told, units},
    support::{Counter, Handler, ask, assert_problem, hanging, layered},
};

/// The same seller's route, by another name.
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
    // Also once others were sold.
    let _ = told(&ask(&service, stall.pays(&offered(&service).await, &config, 2 * PRICE)).await);
    is_counted(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    // One that bought nothing is billed, and so is whoever did not sign it.
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
    while counter.runs() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let answer = ask(&elsewhere, stall.pays(&offer, &config, PRICE)).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "channel_busy").await;
    first.abort();
}
