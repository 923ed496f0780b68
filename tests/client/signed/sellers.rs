//! A purchase at an official seller that does as it should, or nearly.

use serde_json::json;
use tower_x402::{
    client::{PaymentMethod, PurchaseState},
    protocol::{ChainTime, PaymentTag, headers::PAYMENT_SIGNATURE},
};

use super::*;

#[tokio::test(start_paused = true)]
async fn one_signature_buys_one_answer_and_no_transfer_is_sent() {
    let market = Market::open().await;
    let (chain, journal) = (market.shop.chain.clone(), market.journal.clone());
    let seller = seller(move |payment, _| {
        // Before anybody sees it, it is in the journal.
        let entries = journal.entries();
        assert_eq!((entries.len(), entries[0].state), (1, PurchaseState::Paying));
        assert_eq!(entries[0].authorization().unwrap().authorization, signed(payment));
        delivered(settle(&chain, payment))
    });
    let got = buy(&market, &seller).await.unwrap();
    let bought = got.purchase.unwrap();
    assert_eq!((got.text.as_str(), bought.state, bought.confirmed), ("the answer", PurchaseState::Answered, true));
    assert_eq!((bought.paid_by, bought.attempts, bought.sent), (PaymentMethod::Authorization, 1, 1));
    assert_eq!((market.wallet.authorizations_signed(), market.wallet.transfers()), (1, 0));
    let entry = market.journal.entries().remove(0);
    assert_eq!((entry.state, entry.transaction), (PurchaseState::Answered, bought.transaction));
    assert!(bought.transaction.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_signed_is_the_price_for_a_minute_under_the_tag_of_a_secret() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| delivered(settle(&chain, payment)));
    buy(&market, &seller).await.unwrap();
    let payment = seller.asked().iter().find_map(shown).unwrap();
    let authorization = signed(&payment);
    let entry = market.journal.entries().remove(0);
    assert_eq!(authorization.nonce, *PaymentTag::of(entry.secret.as_deref().unwrap()).as_bytes());
    assert_eq!((authorization.to, authorization.value), (recipient(), entry.amount));
    assert_eq!((authorization.valid_after.unix(), authorization.valid_before), (0, ChainTime::from_unix(NOW + 60)));
    assert_eq!(payment.resource.unwrap().url, "https://seller.example/answer");
    assert!(entry.intent.is_empty() && entry.secret.as_deref().unwrap().len() >= 32);
}

/// Official servers compare what a payment says that it accepted with what they offered, member by member.
#[tokio::test(start_paused = true)]
async fn what_the_seller_wrote_is_repeated_as_it_was() {
    let market = Market::open().await;
    let mut odd = way("490000");
    odd["asset"] = json!(odd["asset"].as_str().unwrap().to_lowercase());
    odd["ofALaterVersion"] = json!({"kept": [1, 2.5, "ü"]});
    odd["extra"]["more"] = json!(true);
    let (offered, chain) = (odd.clone(), market.shop.chain.clone());
    let seller = Seller::new(move |asked| match shown(asked) {
        Some(payment) => delivered(settle(&chain, &payment)),
        None => demand(std::slice::from_ref(&odd)),
    });
    buy(&market, &seller).await.unwrap();
    let asked = seller.asked().into_iter().find(|asked| asked.headers.contains_key(PAYMENT_SIGNATURE)).unwrap();
    let written: Value = serde_json::from_slice(&STANDARD.decode(&asked.headers[PAYMENT_SIGNATURE]).unwrap()).unwrap();
    assert_eq!(written["accepted"], offered);
}

#[tokio::test(start_paused = true)]
async fn a_seller_of_the_first_version_is_paid_in_its_words() {
    let market = Market::open().await;
    let mut way = way("0");
    way["network"] = json!("base");
    way["maxAmountRequired"] = json!("490000");
    let body = json!({"x402Version": 1, "error": "X-PAYMENT header is required", "accepts": [way]}).to_string();
    let transaction = TxHash::new([7; 32]);
    let seller = Seller::new(move |asked| {
        let Some(payment) = asked.headers.get("x-payment") else {
            return reply(402, &[("content-type", "application/json")], body.clone());
        };
        let payment: Value = serde_json::from_slice(&STANDARD.decode(payment).unwrap()).unwrap();
        assert_eq!((&payment["x402Version"], &payment["network"]), (&json!(1), &json!("base")));
        assert_eq!(payment["payload"]["authorization"]["value"], "490000");
        let settled = json!({"success": true, "transaction": transaction, "network": "base"});
        reply(200, &[("x-payment-response", &encoded(&settled))], "the answer")
    });
    let bought = ask(&market.layer().await, &seller, get()).await.unwrap().purchase.unwrap();
    assert_eq!((bought.transaction, bought.confirmed), (Some(transaction), true));
    assert_eq!((market.wallet.authorizations_signed(), seller.asked().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_confirmation_is_handed_over_and_its_authorization_shown_again() {
    let market = Market::open().await;
    let seller = seller(|_, _| reply(200, &[], "the answer"));
    for _ in 0..2 {
        let got = buy(&market, &seller).await.unwrap();
        let bought = got.purchase.unwrap();
        assert_eq!((got.text.as_str(), bought.state, bought.transaction), ("the answer", PurchaseState::Unspent, None));
        assert!(!bought.confirmed);
    }
    assert_eq!((market.wallet.authorizations_signed(), nonces(&seller).0.len()), (1, 1));
    expire(&market);
    buy(&market, &seller).await.unwrap();
    assert_eq!((market.wallet.authorizations_signed(), nonces(&seller).0.len()), (2, 2), "the first can never be used");
}

/// The seller took the money for the answer that it delivered: the next answer costs another payment.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_confirmation_that_was_settled_is_paid_for() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, _| {
        let used = chain.calls();
        let _ = (used, settle(&chain, payment));
        reply(200, &[], "the answer")
    });
    for paid in 1..=2 {
        assert_eq!(buy(&market, &seller).await.unwrap().text, "the answer");
        assert!(market.wallet.authorizations_signed() <= paid);
    }
}

/// A refusal of the service's own takes nothing: the corrected request uses the same signature.
#[tokio::test(start_paused = true)]
async fn a_corrected_request_is_paid_with_the_same_authorization() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = Seller::new(move |asked| match shown(asked) {
        None => demand(&[way("490000")]),
        Some(_) if asked.body == "{}" => reply(400, &[], "which?"),
        Some(payment) => delivered(settle(&chain, &payment)),
    });
    let layer = market.layer().await;
    let got = ask(&layer, &seller, question("{}")).await.unwrap();
    assert_eq!((got.status.as_u16(), got.purchase.unwrap().state), (400, PurchaseState::Unspent));
    let got = ask(&layer, &seller, question(r#"{"query":"why"}"#)).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().state), ("the answer", PurchaseState::Answered));
    assert_eq!((market.wallet.authorizations_signed(), nonces(&seller)), (1, (nonces(&seller).0, 2)));
    assert_eq!(nonces(&seller).0.len(), 1);
    assert!(layer.unfinished().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_asked_for_with_the_same_authorization() {
    use futures_util::stream;
    use http_body_util::StreamBody;

    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| {
        let transaction = settle(&chain, payment);
        if shows > 0 {
            return delivered(transaction);
        }
        let settled = json!({"success": true, "transaction": transaction, "network": "eip155:8453"});
        let pieces = [Ok(http_body::Frame::data("the a".into())), Err("the connection broke".to_owned())];
        let body = super::super::rig::any(StreamBody::new(stream::iter(pieces)));
        Reply::Answer(http::Response::builder().header("payment-response", encoded(&settled)).body(body).unwrap())
    });
    let got = buy(&market, &seller).await.unwrap();
    assert_eq!((got.text.as_str(), nonces(&seller).0.len(), nonces(&seller).1), ("the answer", 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_proof_of_the_callers_own_is_forwarded() {
    let market = Market::open().await;
    let seller = Seller::new(|_| demand(&[way("490000")]));
    for name in ["payment-signature", "x-payment", "x402-payment"] {
        let mut request = question("{}");
        request.headers_mut().insert(name, "mine".parse().unwrap());
        let got = ask(&market.layer().await, &seller, request).await.unwrap();
        assert_eq!((got.status.as_u16(), market.wallet.authorizations_signed()), (402, 0), "{name}");
    }
}
