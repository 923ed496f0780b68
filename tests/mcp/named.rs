//! Purchases that clients name: each is charged once, also where the call is signed again.

use serde_json::json;
use tower_x402::{
    PaymentIdentifier,
    protocol::v2::{Extensions, PaymentPayload},
};

use super::rig::{Rig, Service, offered, say, search, sign, with_payment};

/// A new quote, signed for the purchase of this name.
async fn naming(service: &Service, nonce: u8, name: Option<&str>) -> PaymentPayload {
    let payment = sign(&offered(service, &search()).await, [nonce; 32]);
    match name {
        Some(name) => {
            payment.with_extensions(Extensions::new().with("payment-identifier", json!({ "id": name }), None))
        }
        None => payment,
    }
}

#[tokio::test]
async fn a_call_that_is_signed_twice_is_charged_once() {
    let rig = Rig::open_with(|builder| builder.payment_identifier(PaymentIdentifier::Required)).await;
    let service = rig.service();
    let quote = say(&service, &search()).await.bill();
    assert_eq!(quote.extensions.info("payment-identifier"), Some(&json!({ "required": true })));
    let unnamed = naming(&service, 1, None).await;
    assert_eq!(say(&service, &with_payment(search(), &unnamed)).await.refused(), "payment_id_required");
    let first = naming(&service, 2, Some("pay_7d5d747be160e280")).await;
    say(&service, &with_payment(search(), &first)).await.sold();
    let second = naming(&service, 3, Some("pay_7d5d747be160e280")).await;
    assert_eq!(say(&service, &with_payment(search(), &second)).await.refused(), "payment_id_conflict");
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}
