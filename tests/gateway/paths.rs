//! SECURITY row 68: whatever a path looks like, it costs what it costs at the upstream, or is refused.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};
use tower_x402::testing::DevChain;

use crate::{
    program::{PATIENT, Shop, seen, upstream},
    raw::ask,
    support::tools::write_secret,
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

const SPELLED: &str = r#"
[[route]]
match = "GET /reports/sample"
free = true
[[route]]
match = "GET /reports/small"
price = "0.01 USDC"
[[route]]
match = "GET /reports/insights.csv"
price = "0.02 USDC"
[[route]]
match = "GET /reports/insights"
price = "10 USDC"
[[route]]
match = "GET /reports/{id}"
price = "0.05 USDC"
[[route]]
match = "GET /reports/{id}/preview"
free = true
[[route]]
match = "GET /Notes"
price = "0.03 USDC"
[default]
action = "deny"
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
        ("GET /;/reports/1", 400),
        ("GET /;x=1/reports/1", 400),
        ("GET /%20/reports/1", 400),
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
        ("POST /v1/complete.json", 402),
        ("POST /v1/compl%C3%A9te", 402),
        ("POST /v1/complete%3Fx", 402),
        // For Fastify, a semicolon ends the path.
        ("POST /v1/complete;/x", 402),
        ("POST /v1/complete%3b/x/y", 402),
        ("GET /reports%3F/1", 400),
        ("GET /reports/1%23/x", 400),
    ] {
        let answer = ask(&gateway.url, line, "").await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
    }
    // The quotes did not touch it, and what was free arrived in the one spelling.
    let paths: Vec<Value> = seen(&upstream).await.into_iter().map(|request| request["path"].clone()).collect();
    assert_eq!(paths, ["/v1/complete", "/reports/1", "/reports", "/free/~?q=%2F"]);
}

/// Of a path that is another route's by its spelling, only the upstream knows which it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_costs_what_the_dearer_of_its_readings_costs() {
    let chain = DevChain::builder().install_with_npm(true).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", SPELLED);
    let gateway = shop.start();
    crate::operation::quote(&format!("{}/reports/1", gateway.url)).await;
    for (path, price) in [
        ("/reports/sample", None),
        ("/reports/sample/", None),
        ("/reports/%73ample", None),
        ("/reports/SAMPLE", Some("50000")),
        ("/reports/sample.", Some("50000")),
        ("/reports/sample;of=7", Some("50000")),
        ("/reports/small", Some("10000")),
        ("/reports/Small", Some("50000")),
        ("/reports/small%20", Some("50000")),
        ("/Notes", Some("30000")),
        ("/reports/small.json", Some("50000")),
        ("/reports/sample.json", Some("50000")),
        // For Rails and Spring, an extension names a format.
        ("/reports/insights.json", Some("10000000")),
        ("/reports/insights.tar.gz", Some("10000000")),
        ("/reports/INSIGHTS.x;v=1", Some("10000000")),
        ("/reports/insights.CSV", Some("10000000")),
        ("/reports/insights.csv", Some("20000")),
        // Java and JavaScript fold some letters into others, and databases fold accents.
        ("/reports/in%C5%BFights", Some("10000000")),
        ("/reports/%C4%B0nsights", Some("10000000")),
        ("/reports/%C4%B1nsights", Some("10000000")),
        ("/reports/ins%C3%ADghts", Some("10000000")),
        ("/reports/ins%C2%ADights", Some("10000000")),
        // What is decoded too early ends the path.
        ("/reports/insights%3Fx", Some("10000000")),
        ("/reports/insights%23x", Some("10000000")),
        // So does a semicolon, for Fastify.
        ("/reports/1/preview", None),
        ("/reports/1;/preview", Some("50000")),
        ("/reports/1%3B/preview", Some("50000")),
        ("/reports/sample;/preview", None),
        ("/reports/Sample;/preview", Some("50000")),
        ("/reports/insights;v/preview", Some("10000000")),
        // What is named like none of them keeps its price.
        ("/reports/7.json", Some("50000")),
        ("/reports/in.sights", Some("50000")),
        ("/reports/why%3F", Some("50000")),
        ("/reports/c%23", Some("50000")),
    ] {
        let answer = ask(&gateway.url, &format!("GET {path}"), "").await;
        assert_eq!(answer.status, if price.is_some() { 402 } else { 200 }, "{path}: {answer:?}");
        let asked = answer.all("pay").first().map(|pay| serde_json::from_str::<Value>(pay).unwrap());
        assert_eq!(asked.as_ref().and_then(|pay| pay["amount"].as_str()), price, "{path}");
    }
    // What is sold under one spelling only is not there under another.
    for path in ["/REPORTS/1", "/notes", "/reports;/1", "/nothing;/1/preview"] {
        assert_eq!(ask(&gateway.url, &format!("GET {path}"), "").await.status, 404, "{path}");
    }
    assert_eq!(seen(&upstream).await.len(), 5);
}

/// rmcp and others answer at each path below the one that they are mounted at.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_below_the_tools_is_no_way_around_their_prices() {
    let chain = DevChain::builder().install_with_npm(true).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    write_secret(shop.folder.path().join("settle.key"), chain.accounts()[3].private_key());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}"#;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |url: &str, path: &str| {
        let request = client.post(format!("{url}{path}")).header("content-type", "application/json").body(call);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let below = [
        "/mcp/x",
        "/mcp/x/y",
        "/MCP;v=1/x",
        "/x/../%6dcp//x/",
        "/mcp/NOTES",
        "/mcp/notes;x",
        "/mcp/notes.x",
        "/mcp/notes/",
    ];
    for (default, status) in [("\"free\"", 200), ("{ price = \"0.001 USDC\" }", 404), ("\"deny\"", 404)] {
        let rest = format!(
            "[[route]]\nmatch = \"/mcp/notes\"\nfree = true\n[default]\naction = {default}\n[mcp]\npath = \"/mcp\"\n\
             [mcp.tools]\nsearch = \"0.01 USDC\""
        );
        shop.write("", "settle_key_file = \"settle.key\"", &rest);
        let gateway = shop.start();
        let sells = async {
            while !ask(&gateway.url, "/mcp").await.1.contains("\"amount\":\"10000\"") {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(PATIENT, sells).await.unwrap();
        for path in below {
            let (told, body) = ask(&gateway.url, path).await;
            // It is free, and so only the tools have a price.
            let status = if path == "/mcp/notes/" { 200 } else { status };
            assert_eq!(told, status, "{default} {path}: {body}");
            assert!(status == 404 || body.contains("\"amount\":\"10000\""), "{default} {path}: {body}");
        }
        // A route says what its own path costs.
        assert_eq!(ask(&gateway.url, "/mcp/notes").await.0, 200);
    }
    assert_eq!(seen(&upstream).await.len(), 3);

    // Neither is a route that takes all that no other takes.
    for (target, status) in [("free = true", 200), ("price = \"0.001 USDC\"", 404)] {
        let rest = format!(
            "[[route]]\nmatch = \"/{{*rest}}\"\n{target}\n[default]\naction = \"free\"\n[mcp]\npath = \"/mcp\"\n\
             [mcp.tools]\nsearch = \"0.01 USDC\""
        );
        shop.write("", "settle_key_file = \"settle.key\"", &rest);
        let gateway = shop.start();
        let (told, body) = ask(&gateway.url, "/mcp/x").await;
        assert_eq!(told, status, "{target}: {body}");
    }
    assert_eq!(seen(&upstream).await.len(), 3);
}
