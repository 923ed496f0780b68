//! Purchases that are named, at sellers who read the name.

use tower_x402::client::PurchaseState;

use super::*;

/// A bill that declares the extension, with something else in it.
fn declaring(accepts: &[Value]) -> Reply {
    let declared = json!({
        "bazaar": { "info": { "input": { "type": "http" } }, "schema": {} },
        "payment-identifier": { "info": { "required": true, "of": "later" }, "schema": { "type": "object" } },
    });
    let required = json!({ "x402Version": 2, "accepts": accepts, "extensions": declared });
    reply(402, &[("payment-required", &encoded(&required)), ("content-type", "application/json")], "{}")
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
