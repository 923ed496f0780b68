//! The datasets service of any merchant, in this process.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tower_x402::{MerchantBuilder, Redelivery, protocol::TxHash};

use super::program::{self as datasets, Service, data::Data};
use super::{market::Market, shop::Shop};
use crate::support::Counter;

pub async fn open(market: &Market) -> Shop {
    open_with(market.merchant().await).await
}

/// The service of any merchant.
pub async fn open_with(merchant: MerchantBuilder) -> Shop {
    let merchant = merchant.build().await.unwrap();
    let service = Service::new(Data::example().unwrap()).await.unwrap();
    // What is shown again gets its refusal here, as without any setting.
    let kept = Redelivery::lasting(Duration::ZERO);
    let app = datasets::router(Arc::new(service), &merchant, "0.49", kept, None).unwrap().layer(datasets::cors::cors());
    Shop::serving(merchant, app, Counter::default()).await
}

/// The same request with the proof in its body.
pub fn with_proof(body: &Value, intent: &str, payment: TxHash) -> Value {
    let mut body = body.clone();
    body["intentId"] = intent.into();
    body["txHash"] = payment.to_string().into();
    body
}
