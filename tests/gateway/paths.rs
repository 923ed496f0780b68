//! SECURITY row 68: whatever a path looks like, it costs what it costs at the upstream, or is refused.

use serde_json::Value;
use tower_x402::testing::DevChain;

use crate::{
    program::{Shop, seen, upstream},
    raw::ask,
};

const ROUTES: &str = r#"
[[route]]
match = "GET /reports/{id}"
price = "0.05 USDC"
[[route]]
match = "POST /v1/complete"
price = "0.10 USDC"
[default]
action = "free"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_spelling_of_a_priced_path_is_priced_or_refused() {
    let chain = DevChain::builder().install_with_npm(true).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", ROUTES);
    let gateway = shop.start();
    crate::operation::quote(&format!("{}/reports/1", gateway.url)).await;

    for (line, status) in [
        ("GET /reports/1", 402),
        ("GET /reports/1?x=1", 402),
        ("GET /reports/1?/../free", 402),
        ("GET http://other.example/reports/1", 402),
        ("HEAD /reports/1", 402),
        ("GET /%72eports/1", 402),
        ("GET /%72%65%70%6F%72%74%73/%31", 402),
        ("GET /x/../reports/1", 402),
        ("GET /x/%2e%2e/reports/1", 402),
        ("GET /../reports/1", 402),
        ("GET /./reports/./1", 402),
        ("GET //reports/1", 402),
        ("GET /reports//1", 402),
        ("GET /reports/1/", 402),
        ("GET /reports/1//", 402),
        ("GET /reports/1/.", 402),
        ("GET /reports/1/x/..", 402),
        ("GET /Reports/1", 402),
        ("GET /REPORTS/1", 402),
        ("GET /reports;v=1/1", 402),
        ("GET /reports/1;v=1", 402),
        ("GET /reports./1", 402),
        ("GET /reports%20/1", 402),
        ("GET /reports%2f1", 400),
        ("GET /reports%2F1", 400),
        ("GET /reports%5c1", 400),
        ("GET /reports\\1", 400),
        ("GET /x/..%2freports/1", 400),
        ("GET /x/..;/reports/1", 400),
        ("GET /%2572eports/1", 400),
        ("GET /reports/1%00", 400),
        ("GET /reports/%ff", 400),
        ("GET /reports/%zz", 400),
        ("GET *", 400),
        ("get /reports/1", 405),
        ("Get /reports/1", 405),
        ("TRACE /reports/1", 405),
        ("POST /v1/complete/", 402),
        ("POST /V1/complete", 402),
        ("GET /v1/complete", 200),
        ("POST /reports/1", 200),
        ("GET /reports", 200),
        ("GET /free/%7e?q=%2F", 200),
    ] {
        let answer = ask(&gateway.url, line, "").await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
    }
    // The quotes did not touch it, and what was free arrived in the one spelling.
    let paths: Vec<Value> = seen(&upstream).await.into_iter().map(|request| request["path"].clone()).collect();
    assert_eq!(paths, ["/v1/complete", "/reports/1", "/reports", "/free/~?q=%2F"]);
}
