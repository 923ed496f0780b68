//! Receipts of MPP that lie: they close nothing that may still be charged, and open no second payment.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tower_x402::{
    client::{PurchaseState, Standard},
    protocol::Amount,
};

use super::{
    mpp::{Challenge, payments, shop},
    *,
};

fn receipt_of(status: &str, transaction: &str) -> String {
    let receipt = json!({
        "method": "evm", "reference": transaction, "status": status, "timestamp": "2026-01-01T00:00:00Z",
    });
    URL_SAFE_NO_PAD.encode(receipt.to_string())
}

fn invented() -> String {
    TxHash::new([0xab; 32]).to_string()
}

/// With a refusal, or with a failure: the same authorization is all that is ever shown.
#[tokio::test(start_paused = true)]
async fn a_receipt_beside_no_answer_closes_nothing() {
    for (status, receipt, is_error) in [
        (402, receipt_of("success", &invented()), true),
        (500, receipt_of("success", &invented()), true),
        (307, receipt_of("success", &invented()), true),
        (403, receipt_of("success", &invented()), false),
        (200, receipt_of("failed", &invented()), false),
        (200, receipt_of("pending", ""), false),
    ] {
        let market = Market::open().await;
        let said = receipt.clone();
        let seller = shop(move |_, shows| {
            let challenge = Challenge::new(&format!("fresh-{shows}")).header();
            reply(status, &[("payment-receipt", &said), ("www-authenticate", &challenge)], "a text")
        });
        for call in 1..=2 {
            match buy(&market, &seller).await {
                Ok(got) => {
                    let purchase = got.purchase.unwrap();
                    let found = (purchase.state, purchase.confirmed, purchase.transaction);
                    assert_eq!(found, (PurchaseState::Unspent, false, None), "{status}, call {call}");
                    assert!(!is_error, "{status}, call {call}");
                }
                Err(error) => assert!(is_error && error.is_resumable(), "{status}, call {call}: {error}"),
            }
            assert_eq!((market.wallet.authorizations_signed(), payments(&seller).0), (1, 1), "{status}, call {call}");
        }
        let entry = market.journal.entries().remove(0);
        assert!(entry.state.is_open() && entry.transaction.is_none(), "{status}: {entry:?}");
        assert_eq!(market.layer().await.spent(), Amount::from_base_units(490_000), "{status}");
    }
}

/// A payment that seems used, and is not, must not be given up for another one: the seller could settle both.
#[tokio::test(start_paused = true)]
async fn a_receipt_beside_a_refusal_makes_no_payment_seem_used() {
    let market = Market::open().await;
    let receipt = receipt_of("success", &invented());
    let seller = super::seller(move |_, shows| match shows {
        0 => reply(403, &[("payment-receipt", &receipt)], "not for you"),
        _ => demand(&[way("490000")]),
    });
    let layer = market.layer().await;
    let got = ask(&layer, &seller, question("[1]")).await.unwrap();
    assert_eq!((got.status.as_u16(), got.purchase.unwrap().state), (403, PurchaseState::Unspent));
    // Another request to the same seller is paid by what is left.
    for _ in 0..2 {
        let error = ask(&layer, &seller, question("[2]")).await.unwrap_err();
        assert_eq!(error.kind(), PayErrorKind::Outstanding, "{error}");
        assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (1, 1));
    }
}

/// With an answer: the caller has what it wanted, and the payment counts as made, whatever transaction is named.
#[tokio::test(start_paused = true)]
async fn a_receipt_with_an_invented_transaction_counts_as_paid() {
    for (reference, recorded) in
        [(invented(), true), (TxHash::new([0; 32]).to_string(), false), ("none".to_owned(), false)]
    {
        let market = Market::open().await;
        let receipt = receipt_of("success", &reference);
        let seller = shop(move |_, _| reply(200, &[("payment-receipt", &receipt)], "the answer"));
        for bought in 1..=2_u64 {
            let purchase = buy(&market, &seller).await.unwrap().purchase.unwrap();
            assert_eq!((purchase.state, purchase.standard), (PurchaseState::Answered, Some(Standard::Mpp)));
            assert_eq!(purchase.transaction.is_some(), recorded, "{reference}");
            let spent = Amount::from_base_units(u128::from(bought) * 490_000);
            assert_eq!(market.layer().await.spent(), spent, "{reference}");
        }
        assert_eq!((market.wallet.authorizations_signed(), payments(&seller)), (2, (2, 2)));
    }
}
