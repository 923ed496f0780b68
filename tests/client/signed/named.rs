//! Purchases that are named, at sellers who read the name.

use http::HeaderMap;
use tower_x402::{
    client::{PurchaseState, Standard},
    protocol::headers::IDEMPOTENCY_KEY,
};

use super::{
    mpp::{Challenge, read, receipt, settled},
    *,
};

/// The extension, with something else in it.
fn declared() -> Value {
    json!({
        "bazaar": { "info": { "input": { "type": "http" } }, "schema": {} },
        "payment-identifier": { "info": { "required": true, "of": "later" }, "schema": { "type": "object" } },
    })
}

/// A bill that declares it.
fn declaring(accepts: &[Value]) -> Reply {
    let required = json!({ "x402Version": 2, "accepts": accepts, "extensions": declared() });
    reply(402, &[("payment-required", &encoded(&required)), ("content-type", "application/json")], "{}")
}

/// A bill of both standards, with these extensions.
fn challenging(challenge: &Challenge, extensions: &Value) -> Reply {
    let required = json!({ "x402Version": 2, "accepts": [way("490000")], "extensions": extensions });
    let headers = [("payment-required", &*encoded(&required)), ("www-authenticate", &*challenge.header())];
    reply(402, &headers, "")
}

/// The names that come beside credentials of MPP.
fn keys(seller: &Seller) -> Vec<Option<String>> {
    let key = |headers: &HeaderMap| headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap().to_owned());
    seller.asked().iter().filter(|asked| read(&asked.headers).is_some()).map(|asked| key(&asked.headers)).collect()
}

fn name(payment: &PaymentPayload) -> String {
    payment.extensions.purchase_name().unwrap().unwrap().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_purchase_has_one_name_at_every_try_and_after_a_restart() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let patient = std::sync::atomic::AtomicUsize::new(0);
    let seller = Seller::new(move |asked| match shown(asked) {
        // It is asked to come again, more often than one call does.
        Some(payment) if patient.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 7 => {
            delivered(settle(&chain, &payment))
        }
        Some(_) => reply(503, &[], ""),
        None => declaring(&[way("490000")]),
    });
    let mut calls = 0;
    // Each call is by another process on the same journal.
    while buy(&market, &seller).await.is_err() {
        calls += 1;
        assert!(calls < 9);
    }
    assert!(calls > 0, "one call was enough");
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.state, market.wallet.authorizations_signed()), (PurchaseState::Answered, 1));
    let payments: Vec<_> = seller.asked().iter().filter_map(shown).collect();
    assert!(payments.len() > 8);
    for payment in &payments {
        assert_eq!(name(payment), format!("pay_{}", entry.id));
        let info = payment.extensions.info("payment-identifier").unwrap();
        assert_eq!((&info["required"], &info["of"]), (&json!(true), &json!("later")));
        assert_eq!(payment.extensions.schema("payment-identifier"), Some(&json!({ "type": "object" })));
        assert!(payment.extensions.info("bazaar").is_some());
    }
    // Another purchase has another name; where none is asked for, none is given.
    buy(&market, &seller).await.unwrap();
    let last = seller.asked().iter().filter_map(shown).last().unwrap();
    assert_ne!(name(&last), name(&payments[0]));
    let chain = market.shop.chain.clone();
    let other = super::seller(move |payment, _| delivered(settle(&chain, payment)));
    buy(&market, &other).await.unwrap();
    let unnamed = other.asked().iter().find_map(shown).unwrap();
    assert_eq!(unnamed.extensions.purchase_name(), Ok(None));
}

/// The seller says that another payment bought the answer: nothing else is signed, by this call or the next.
#[tokio::test(start_paused = true)]
async fn after_a_conflict_nothing_is_signed_anew() {
    for (status, code) in [(409, "payment_id_conflict"), (400, "payment_id_required")] {
        let market = Market::open().await;
        let seller = Seller::new(move |asked| match shown(asked) {
            Some(_) => super::super::rig::problem(status, code, &[]),
            None => declaring(&[way("490000")]),
        });
        for _ in 0..3 {
            let error = buy(&market, &seller).await.err().unwrap();
            assert_eq!(error.kind(), PayErrorKind::Outstanding, "{error}");
            if status == 409 {
                assert!(error.to_string().contains(code), "{error}");
            }
        }
        let (seen, _) = nonces(&seller);
        assert_eq!((seen.len(), market.wallet.authorizations_signed()), (1, 1), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn by_mpp_a_purchase_has_one_name_at_every_try_and_after_a_restart() {
    let market = Market::open().await;
    let (chain, tries) = (market.shop.chain.clone(), std::sync::atomic::AtomicUsize::new(0));
    let seller = Seller::new(move |asked| match read(&asked.headers) {
        Some((_, signed)) if tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 7 => {
            receipt(settled(&chain, &signed))
        }
        Some(_) => reply(503, &[], ""),
        None => challenging(&Challenge::new("challenge"), &declared()),
    });
    let mut calls = 0;
    // Each call is by another process on the same journal.
    let answered = loop {
        let layer = market.layer_with(|builder| builder.standards([Standard::Mpp])).await;
        match ask(&layer, &seller, question("{}")).await {
            Ok(got) => break got,
            Err(error) => assert!(error.is_resumable(), "{error}"),
        }
        calls += 1;
        assert!(calls < 9);
    };
    assert!(calls > 0, "one call was enough");
    let purchase = answered.purchase.unwrap();
    assert_eq!((purchase.standard, market.wallet.authorizations_signed()), (Some(Standard::Mpp), 1));
    let name = Some(format!("pay_{}", purchase.id));
    assert!(keys(&seller).len() > 8 && keys(&seller).iter().all(|key| *key == name), "{:?}", keys(&seller));
    // A request without a payment has no name.
    assert!(
        seller
            .asked()
            .iter()
            .all(|asked| { read(&asked.headers).is_some() || !asked.headers.contains_key(IDEMPOTENCY_KEY) })
    );
}

#[tokio::test(start_paused = true)]
async fn by_mpp_only_what_is_asked_for_is_named_and_a_callers_own_name_stays() {
    let own = "own_7d5d747be160e280";
    for (extensions, of_caller, expected) in [
        (json!({}), None, None),
        (json!({ "payment-identifier": "unknown" }), None, None),
        (json!({}), Some(own), Some(own)),
        (declared(), Some(own), Some(own)),
    ] {
        let market = Market::open().await;
        let chain = market.shop.chain.clone();
        let bill = extensions.clone();
        let seller = Seller::new(move |asked| match read(&asked.headers) {
            Some((_, signed)) => receipt(settled(&chain, &signed)),
            None => challenging(&Challenge::new("challenge"), &bill),
        });
        let mut request = question("{}");
        request.headers_mut().extend(of_caller.map(|key| (IDEMPOTENCY_KEY, key.parse().unwrap())));
        let layer = market.layer_with(|builder| builder.standards([Standard::Mpp])).await;
        assert_eq!(ask(&layer, &seller, request).await.unwrap().text, "the answer");
        assert_eq!(keys(&seller), [expected.map(str::to_owned)], "{extensions}");
    }
}
