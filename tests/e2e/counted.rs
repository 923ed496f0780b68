//! `datasets --metrics`: what Prometheus fetches from a server that sold.

use super::{
    app::App,
    market::{Market, PRICE},
    shop::client,
};

#[tokio::test]
async fn prometheus_reads_what_was_sold() {
    let market = Market::new().await;
    let app = App::start(market.chain.rpc_url(), &["--ledger", "memory", "--metrics", "127.0.0.1:0"]).await;
    let url = app.says("metrics on ").await.split_whitespace().next().unwrap().trim_end_matches('"').to_owned();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/metrics"), "{url}");
    let intent = app.intent().await;
    let payment = market.pay(PRICE).await;
    let _ = app.redeem(&intent, payment).await.taken();

    let answer = client().get(&url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
    let text = answer.text().await.unwrap();
    let token = market.chain.usdc();
    for line in [
        "# TYPE x402_sales_total counter".to_owned(),
        "# HELP x402_sales_total Answers that were sold and recorded.".to_owned(),
        "x402_quotes_total{resource=\"demand-insights\"} 1".to_owned(),
        format!("x402_sales_total{{resource=\"demand-insights\",network=\"eip155:8453\",token=\"{token}\"}} 1"),
        format!(
            "x402_sold_base_units_total{{resource=\"demand-insights\",network=\"eip155:8453\",token=\"{token}\"}} {PRICE}"
        ),
        "x402_redemptions_total{resource=\"demand-insights\",outcome=\"sold\"} 1".to_owned(),
        "x402_leases_held 0".to_owned(),
        "x402_handler_seconds_bucket{resource=\"demand-insights\",le=\"+Inf\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
    }
    assert!(text.contains("x402_rpc_calls_total{endpoint=\"0\"}") && text.contains("x402_head_lag_seconds "), "{text}");
    for secret in [intent.as_str(), &payment.to_string(), market.chain.rpc_url()] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_said_in_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = super::app::ended(&["--dev", "--listen", "127.0.0.1:0", "--metrics", &address]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
}
