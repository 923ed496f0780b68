//! How a facilitator is asked: addresses, headers, bodies, and patience.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, header::AUTHORIZATION};
use tower_x402::{
    protocol::{
        Asset, Network,
        v2::{FacilitatorRequest, SchemePayload},
    },
    settle::{
        FacilitatorAction, FacilitatorCall, FacilitatorSettler, SettleError, SettleErrorKind, Settlement, Settler as _,
        TransactionRecorder, Validity,
    },
};

use super::{CANARY, Facilitator, Fault, Market, builder, payment, settler};

#[tokio::test]
async fn each_request_has_headers_of_its_own() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let calls: Arc<Mutex<Vec<FacilitatorCall>>> = Arc::default();
    let log = Arc::clone(&calls);
    let authorize = move |call: FacilitatorCall| {
        let number = {
            let mut calls = log.lock().unwrap();
            calls.push(call.clone());
            calls.len()
        };
        async move {
            let token = format!("Bearer {number} {} {}", call.method(), call.path);
            Ok::<_, http::Error>(HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(token)?)]))
        }
    };
    let settler = builder(&[&facilitator]).authorize(authorize).build().unwrap();
    let payment = payment(&market);
    settler.health().await.unwrap();
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));

    let calls = calls.lock().unwrap().clone();
    let seen: Vec<_> = calls.iter().map(|call| (call.action, call.method())).collect();
    let (get, post) = (Method::GET, Method::POST);
    let actions = [FacilitatorAction::Supported, FacilitatorAction::Verify, FacilitatorAction::Settle];
    assert_eq!(seen, actions.into_iter().zip([get, post.clone(), post]).collect::<Vec<_>>());
    assert!(calls.iter().all(|call| call.host == facilitator.address()));
    for (number, action) in (1..).zip(["supported", "verify", "settle"]) {
        let [seen] = &facilitator.seen(action)[..] else { panic!("{action} is asked once") };
        let method = if action == "supported" { "GET" } else { "POST" };
        let path = format!("/v2/{CANARY}/{action}");
        assert_eq!((&seen.path, &*seen.query), (&path, &*format!("apikey={CANARY}")));
        assert_eq!(seen.headers[AUTHORIZATION], format!("Bearer {number} {method} {path}"));
        assert_eq!(seen.headers.get_all(AUTHORIZATION).iter().count(), 1);
        assert!(!seen.headers.contains_key("accept-encoding") && !seen.headers.contains_key("referer"));
    }
}

#[tokio::test]
async fn without_its_headers_nothing_is_sent() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = builder(&[&facilitator])
        .authorize(|_| async { Err::<HeaderMap, _>(format!("no key at {CANARY}")) })
        .build()
        .unwrap();
    let payment = payment(&market);
    assert_eq!(settler.verify(&payment).await, Err(SettleError::unavailable()));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert_eq!(settler.health().await, Err(SettleError::unavailable()));
    assert!(["verify", "settle", "supported"].iter().all(|action| facilitator.calls(action) == 0));
    // And its time counts.
    let settler = builder(&[&facilitator])
        .verify_timeout(Duration::from_millis(50))
        .settle_timeout(Duration::from_millis(50))
        .authorize(|_| std::future::pending::<Result<HeaderMap, std::io::Error>>())
        .build()
        .unwrap();
    assert_eq!(settler.verify(&payment).await, Err(SettleError::unavailable()));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
}

#[tokio::test]
async fn what_is_sent_is_what_was_judged() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let payment = payment(&market);
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
    assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
    for action in ["verify", "settle"] {
        let [seen] = &facilitator.seen(action)[..] else { panic!("{action} is asked once") };
        assert_eq!(seen.headers["content-type"], "application/json");
        let request = FacilitatorRequest::from_json(&seen.body).unwrap();
        assert_eq!(request.payment_requirements.exact(), Some(&payment.requirements));
        assert_eq!(request.payment_payload.resource, payment.resource);
        let SchemePayload::Authorization(signed) = request.payment_payload.payload else { panic!("no authorization") };
        assert_eq!(signed, payment.authorization);
    }
}

#[tokio::test]
async fn what_it_can_settle_is_asked_once() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let domain = || settler.domain(Network::BASE, Asset::USDC_BASE.contract(), None);
    let payment = payment(&market);
    let none = TransactionRecorder::none();
    let (first, second, third) = tokio::join!(domain(), domain(), settler.settle(&payment, &none));
    assert!(first.is_ok() && first == second && matches!(third, Settlement::Settled(_)));
    assert_eq!(facilitator.calls("supported"), 1);
}

#[tokio::test]
async fn a_busy_facilitator_is_waited_for() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    facilitator.fault("supported", Fault::Busy(2, "1"));
    let started = tokio::time::Instant::now();
    assert_eq!(settler(&[&facilitator]).health().await, Ok(()));
    assert!(started.elapsed() >= Duration::from_secs(2), "as it asked");
    assert_eq!(facilitator.calls("supported"), 3);
    // Not longer than there is time.
    for wait in ["3600", "18446744073709551615"] {
        facilitator.fault("supported", Fault::Busy(1, wait));
        assert_eq!(settler(&[&facilitator]).health().await, Err(SettleError::unavailable()));
    }
    facilitator.fault("supported", Fault::Status(401));
    let denied = SettleError::new(SettleErrorKind::Denied { status: 401 });
    assert_eq!(settler(&[&facilitator]).health().await, Err(denied));
    facilitator.fault("supported", Fault::Html);
    assert_eq!(settler(&[&facilitator]).health().await, Err(SettleError::unavailable()));
}

#[test]
fn settings_that_cannot_be_used() {
    let kind = |builder: tower_x402::settle::FacilitatorSettlerBuilder| builder.build().map(drop).unwrap_err();
    let endpoint = SettleError::new(SettleErrorKind::InvalidEndpoint);
    assert_eq!(kind(FacilitatorSettler::builder()), endpoint);
    for url in ["", "facilitator.example", "http://facilitator.example", "http://10.0.0.1", "ftp://f.example"] {
        assert_eq!(kind(FacilitatorSettler::builder().url("https://f.example").url(url)), endpoint, "{url}");
    }
    let base = || FacilitatorSettler::builder().url("https://f.example");
    for limit in [Duration::ZERO, Duration::MAX] {
        for (what, builder) in [
            ("verify_timeout", base().verify_timeout(limit)),
            ("settle_timeout", base().settle_timeout(limit)),
            ("supported_timeout", base().supported_timeout(limit)),
        ] {
            assert_eq!(kind(builder), SettleError::new(SettleErrorKind::InvalidSetting { what }));
        }
    }
    assert!(base().url("http://localhost:4021/").url("http://[::1]:4021").build().is_ok());
}
