//! The datasets in a browser: the first page, a question, its price, and the answer.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tower_x402::{Merchant, Redelivery, settle::WalletSettler, testing::DevChain};

use super::{
    shop::{Shop, UNITS, merchant, serve},
    visit::Browser,
};
use crate::{
    served::program::{self as datasets, Service, data::Data},
    support::Counter,
};

/// The service, on a chain of its own, with a key that settles.
async fn datasets() -> Shop {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let key = chain.accounts()[3].private_key();
    let settler = WalletSettler::builder().key(key).endpoint(chain.rpc_url()).connect().await.unwrap();
    let merchant: Merchant = merchant(&chain).await.settler(settler).build().await.unwrap();
    let service = Service::new(Data::example().unwrap()).await.unwrap();
    let kept = Redelivery::lasting(Duration::from_secs(600));
    let app = datasets::router(Arc::new(service), &merchant, "0.49", kept).unwrap().layer(datasets::cors::cors());
    Shop { chain, url: serve(app).await, handler: Counter::default() }
}

fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_else(|| panic!("no {name} in {told}"))
}

#[tokio::test]
async fn a_visitor_asks_pays_by_signature_and_reads() {
    let Some(browser) = Browser::find().await else { return };
    let shop = datasets().await;
    let question = "What stops visitors from paying for a <year>?";
    let more = json!({
        "field": "#insights",
        "submit": "form[action='demand-insights'] button",
        "question": question,
        "press": "without network fee",
    });
    let told = browser.visit(&shop, "shopping", &shop.at("/"), more).await;
    assert_eq!(told["found"], json!([]), "axe-core, and what is too wide: {told}");
    assert!(text(&told["quoted"], "address").contains("/demand-insights?query=What+stops"));
    let quote = text(&told["quoted"], "text");
    assert!(
        quote.contains("Demand insights") && quote.contains(question) && quote.contains("0.49 USDC on Base"),
        "{quote}"
    );
    let answer = text(&told, "shown");
    assert!(answer.contains("Demand insights: ") && answer.contains("Themes"), "{answer}");
    assert!(told["tables"].as_u64().unwrap() > 3, "{told}");
    assert_eq!((&told["complaints"], &told["dialogs"]), (&json!([]), &json!(0)));
    assert_eq!(shop.takings().await, UNITS);
}

#[tokio::test]
async fn a_visitor_pays_for_numbers_by_a_transaction() {
    let Some(browser) = Browser::find().await else { return };
    let shop = datasets().await;
    let url = shop.at("/analytics/agent-conversions?aggregate=agent&country=Germany");
    let more = json!({ "press": "Send a transaction instead", "redelivered": true });
    let told = browser.visit(&shop, "pay", &url, more).await;
    assert!(text(&told, "shown").contains("Conversions"), "{told}");
    assert_eq!(told["again"]["shown"], told["shown"], "the answer is kept, and loading the page anew shows it again");
    assert_eq!(shop.takings().await, UNITS);
}

/// Without script, the answer is a page of the service's own.
#[tokio::test]
async fn a_visitor_without_script_is_answered_too() {
    let Some(browser) = Browser::find().await else { return };
    let shop = datasets().await;
    let told = browser.visit(&shop, "plain", &shop.at("/demand-insights?query=refunds"), json!({})).await;
    assert_eq!(told["status"], 200);
    assert!(text(&told, "text").contains("Demand insights: refunds"), "{told}");
    assert_eq!(shop.takings().await, UNITS);
}
