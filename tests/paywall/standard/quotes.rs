//! What a quote says to clients of the standard.

use std::time::Duration;

use http::{Request, header};
use tower_x402::{
    Price,
    protocol::{Address, Amount, Asset, ChainTime, Network, TokenDomain, headers::PAYMENT_REQUIRED},
    settle::SettleError,
};

use super::{Stall, authorization, offered, paid, required, requirements, sign, units};
use crate::support::{Counter, NOW, Shop, ask, echo, intent_of, layered, post, recipient};

#[tokio::test]
async fn one_402_speaks_both_dialects_about_one_intent() {
    let stall = Stall::open().await;
    let layer = stall.shop.layer().label("Wärme \"heute\"").unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let mut request = post("{}");
    request.headers_mut().insert(header::HOST, "shop.example:8443".parse().unwrap());
    let answer = ask(&service, request).await;
    let offer = requirements(&answer);
    assert_eq!((offer.network, offer.asset), (Network::BASE, Asset::USDC_BASE.contract()));
    assert_eq!((offer.amount, offer.pay_to, offer.max_timeout_seconds), (units(490_000), recipient(), 720));
    assert_eq!((offer.extra.text("name"), offer.extra.text("version")), (Some("USD Coin"), Some("2")));
    assert_eq!(super::intent(&offer), intent_of(&answer));
    let resource = required(&answer).resource.unwrap();
    assert_eq!(resource.url, "https://shop.example:8443/answer");
    assert_eq!(resource.description.as_deref(), Some("Wärme \"heute\""));
    assert!(answer.headers().contains_key("pay") && answer.headers().contains_key("x-payment-contracts"));
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("PAYMENT-REQUIRED") && exposed.contains("PAYMENT-RESPONSE"), "{exposed}");
}

/// An authorization is settled when the handler is done: it has to be valid until then.
#[tokio::test]
async fn an_authorization_is_asked_to_outlast_the_longest_hold_within_the_quotes_life() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    for (hold, life, seconds) in [(10, 15, 720), (10, 12, 720), (10, 5, 300), (30, 60, 1_920)] {
        let stall = Stall::open_with(|builder| builder.max_hold(minutes(hold)).quote_ttl(minutes(life))).await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        assert_eq!(offered(&service).await.max_timeout_seconds, seconds);
    }
}

/// What is valid for longer than payments count is refused: nobody is asked to sign that, even by a clock that is a little ahead.
#[tokio::test]
async fn an_authorization_is_asked_to_end_before_the_ledger_forgets_it() {
    let stall = Stall::open_with(|builder| builder.max_payment_age(Duration::from_secs(300))).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    for (nonce, ahead) in [(1, 0), (2, 20)] {
        let offer = offered(&service).await;
        assert!(offer.max_timeout_seconds >= 240, "{}", offer.max_timeout_seconds);
        let end = ChainTime::from_unix(NOW + ahead + offer.max_timeout_seconds);
        let signed = authorization(&offer, [nonce; 32]).valid_between(ChainTime::from_unix(0), end);
        assert_eq!(ask(&service, paid(&sign(&offer, signed))).await.status(), 200, "{ahead} s ahead");
    }
}

#[tokio::test]
async fn all_headers_together_pass_every_platform() {
    let tokens = (1..=9).map(|byte| Asset::new(Network::BASE, Address::new([byte; 20]), 6, "USDC")).collect::<Vec<_>>();
    for known in [1, 2, 9] {
        let stall = Stall::open_with(|builder| tokens[..known].iter().cloned().fold(builder, |b, t| b.asset(t))).await;
        // The scripted chain states no domain of theirs.
        let service = layered(&stall.shop.layer().label(&"ü".repeat(100)).unwrap(), echo(Counter::default()));
        let mut request = Request::post(format!("/{}?{}", "é".repeat(2), "q".repeat(3000)));
        request = request.header(header::HOST, "h".repeat(300)).header(header::CONTENT_TYPE, "application/json");
        let answer = ask(&service, request.body("{}".into()).unwrap()).await;
        assert_eq!(answer.status(), 402);
        let bytes: usize = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        assert!(bytes <= 2_900, "{known}: {bytes}");
    }
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer().label(&"ü".repeat(100)).unwrap(), echo(Counter::default()));
    let long = Request::post(format!("/{}", "p".repeat(3000))).header(header::HOST, "h".repeat(300));
    let answer = ask(&service, long.header(header::CONTENT_TYPE, "application/json").body("{}".into()).unwrap()).await;
    let bytes: usize = answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    assert!(bytes <= 2_900 && answer.headers().contains_key(PAYMENT_REQUIRED), "{bytes}");
}

#[tokio::test]
async fn a_closures_price_and_label_are_what_is_offered() {
    let stall = Stall::open().await;
    let layer = stall.shop.merchant.price_with("by-length", |_, body| {
        Price::labelled(Amount::from_base_units(body.len() as u128), format!("{} bytes", body.len()))
    });
    let service = layered(&layer.unwrap(), echo(Counter::default()));
    let answer = ask(&service, post(r#"{"query":"why"}"#)).await;
    assert_eq!(requirements(&answer).amount, units(15));
    assert_eq!(required(&answer).resource.unwrap().description.as_deref(), Some("15 bytes"));
}

#[tokio::test]
async fn the_public_url_counts_where_it_is_set() {
    let stall = Stall::open_with(|builder| builder.public_url("https://api.example/v1/")).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let answer = ask(&service, post("{}")).await;
    assert_eq!(required(&answer).resource.unwrap().url, "https://api.example/v1/answer");
    for bad in [
        "api.example",
        "https://",
        "ftp://api.example",
        "https://a.example/?q",
        "https://a.example/\"",
        "https://ä.example",
    ] {
        let shop = Shop::open().await;
        let merchant = tower_x402::Merchant::builder(recipient())
            .verifier(shop.chain.clone())
            .ledger(shop.faults.clone())
            .sealing_keys(tower_x402::protocol::SealingKeys::new([1; 32]))
            .public_url(bad);
        assert!(merchant.build().await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn without_a_settler_there_is_no_such_header() {
    let shop = Shop::open().await;
    let answer = ask(&layered(&shop.layer(), echo(Counter::default())), post("{}")).await;
    assert!(answer.status() == 402 && !answer.headers().contains_key(PAYMENT_REQUIRED));
}

/// A settler that is down when the seller starts costs the standard's header, not the shop.
#[tokio::test]
async fn a_settler_that_is_down_at_the_start_is_asked_again() {
    let mut settler = None;
    let shop = Shop::open_on(|builder, chain| {
        let scripted = tower_x402::testing::ScriptedSettler::new(chain.clone());
        scripted.outage(SettleError::unavailable());
        settler = Some(scripted.clone());
        builder.settler(scripted)
    })
    .await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let quote = async || ask(&service, post("{}")).await;
    assert!(!quote().await.headers().contains_key(PAYMENT_REQUIRED) && shop.merchant.health().await.is_err());
    settler.unwrap().outage(None);
    shop.clock.advance(std::time::Duration::from_secs(6));
    assert_eq!(quote().await.status(), 402);
    tokio::task::yield_now().await;
    assert!(quote().await.headers().contains_key(PAYMENT_REQUIRED));
    assert!(shop.merchant.health().await.is_ok());
}

#[tokio::test]
async fn a_token_that_cannot_be_signed_for_is_not_offered() {
    let another = Asset::new(Network::BASE, Address::new([9; 20]), 6, "OTHER");
    let stall = Stall::open_with(|builder| builder.asset(Asset::USDC_BASE).asset(another)).await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let answer = ask(&service, post("{}")).await;
    assert_eq!(required(&answer).accepts.len(), 1);
    assert!(answer.headers()["x-payment-contracts"].to_str().unwrap().contains("0x0909"));
    let usdc = TokenDomain::usdc_of(Network::BASE).unwrap();
    assert_eq!(offered(&service).await.asset, usdc.token);
}
