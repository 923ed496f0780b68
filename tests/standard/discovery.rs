//! What the datasets tell programs, as an OpenAPI linter, an indexer's reader of prices and the official `bazaar` validator see it.

use std::{process::Stdio, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, time::timeout};
use tower::ServiceExt as _;
use tower_x402::{
    Redelivery,
    discovery::Endpoint,
    protocol::{Network, headers::PAYMENT_REQUIRED},
    testing::ScriptedSettler,
};

use super::{PATIENT, programs::script, tools};
use crate::{served::program as datasets, support::Shop};

async fn market() -> (Shop, Router) {
    let shop = Shop::open_on(|builder, chain| builder.settler(ScriptedSettler::new(chain.clone()))).await;
    let service = datasets::Service::new(datasets::data::Data::example().unwrap()).await.unwrap();
    let app =
        datasets::router(Arc::new(service), &shop.merchant, "0.49", Redelivery::lasting(Duration::ZERO), None).unwrap();
    (shop, app)
}

async fn body(app: &Router, request: Request<Body>) -> Vec<u8> {
    let answer = app.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes().to_vec()
}

fn get(path: &str, accept: &str) -> Request<Body> {
    let request = Request::get(path).header(header::HOST, "shop.test").header(header::ACCEPT, accept);
    request.body(Body::empty()).unwrap()
}

/// What the official tools say of a document and of quotes.
async fn checked(openapi: &Value, required: &[String]) -> Value {
    let mut command = script("discovery.mjs").await;
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut process = piped.spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let question = json!({ "openapi": openapi, "required": required }).to_string();
    input.write_all(question.as_bytes()).await.unwrap();
    drop(input);
    let output = timeout(PATIENT * 2, process.wait_with_output()).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn official_tools_find_nothing_wrong_with_the_datasets() {
    let Some(_) = tools::node().await else { return };
    let (shop, app) = market().await;
    let openapi: Value = serde_json::from_slice(&body(&app, get("/openapi.json", "*/*")).await).unwrap();
    let listed: Value = serde_json::from_slice(&body(&app, get("/.well-known/x402", "*/*")).await).unwrap();
    let paths: Vec<_> = openapi["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/ai-early-adopters-goals", "/analytics/agent-conversions", "/demand-insights"]);

    // An indexer's probe: no body at all.
    let mut required = Vec::new();
    for path in &paths {
        let url = format!("https://shop.test{path}");
        assert!(listed["resources"].as_array().unwrap().contains(&json!(url)), "{url}");
        let probe = Request::post(path.as_str()).header(header::HOST, "shop.test").body(Body::empty()).unwrap();
        let quote = app.clone().oneshot(probe).await.unwrap();
        assert_eq!(quote.status(), 402, "{path}");
        required.push(quote.headers()[PAYMENT_REQUIRED].to_str().unwrap().to_owned());
    }
    let found = checked(&openapi, &required).await;
    assert_eq!((&found["lint"], &found["unread"]), (&json!([]), &json!([])));
    for (path, bazaar) in paths.iter().zip(found["bazaar"].as_array().unwrap()) {
        assert_eq!(bazaar["valid"], true, "{path}: {bazaar}");
        let operation = &openapi["paths"][path.as_str()]["post"];
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        let input = &bazaar["info"]["input"];
        assert_eq!((&input["method"], &input["bodyType"], &input["body"]), (&json!("POST"), &json!("json"), example));
        let price = json!({ "mode": "fixed", "currency": "USD", "amount": "0.49" });
        assert_eq!(operation["x-payment-info"], json!({ "price": price, "protocols": [{ "x402": {} }] }));
    }
    assert_eq!(shop.merchant.network(), Network::BASE);

    let text = String::from_utf8(body(&app, get("/", "text/plain")).await).unwrap();
    assert!(text.starts_with("# Answers from three datasets\n") && text.contains("POST /demand-insights"), "{text}");
    let same = body(&app, get("/llms.txt", "*/*")).await;
    assert_eq!(String::from_utf8(same).unwrap(), text);
}

/// The same tools see what is wrong, and what other endpoints are like.
#[tokio::test]
async fn official_tools_read_every_kind_of_endpoint() {
    let Some(_) = tools::node().await else { return };
    let shop = Shop::open_on(|builder, chain| builder.settler(ScriptedSettler::new(chain.clone()))).await;
    let input = json!({ "type": "object", "properties": { "id": { "type": "string" }, "n": { "type": "integer" } } });
    let report = || Endpoint::get("/reports/{id}").input(input.clone());
    let layer = shop.layer().label("A report, für alle").unwrap();
    let layer = layer.describe(report().example(json!({ "n": 3 })).output_example(json!(["é", 1]))).unwrap();
    let layer = layer.describe(Endpoint::new(http::Method::PUT, "/reports/{id}")).unwrap();
    let layer = layer.describe(Endpoint::new(http::Method::DELETE, "/reports/{id}")).unwrap();
    let app = Router::new().route("/reports/{id}", axum::routing::any(async || "a report").layer(layer));
    let mut required = Vec::new();
    for method in ["GET", "PUT", "DELETE"] {
        let request = Request::builder().method(method).uri("/reports/7").body(Body::empty()).unwrap();
        let quote = app.clone().oneshot(request).await.unwrap();
        required.push(quote.headers()[PAYMENT_REQUIRED].to_str().unwrap().to_owned());
    }
    let document = shop.merchant.discovery().openapi("https://shop.test");
    let found = checked(&document, &required).await;
    assert_eq!((&found["lint"], &found["unread"]), (&json!([]), &json!([])));
    let verdicts: Vec<_> = found["bazaar"].as_array().unwrap().iter().map(|bazaar| &bazaar["valid"]).collect();
    assert_eq!(verdicts, [true, true, true], "{found}");
    assert_eq!(found["bazaar"][0]["info"]["output"]["example"], json!(["é", 1]));

    let mut broken = document;
    broken["paths"]["/reports/{id}"]["get"]["x-payment-info"]["price"]["mode"] = json!("cheap");
    broken["paths"]["/reports/{id}"]["get"]["parameters"] = json!([]);
    let found = checked(&broken, &[]).await;
    assert_eq!(found["unread"], json!(["get /reports/{id}"]));
    assert!(found["lint"].as_array().is_some_and(|lint| !lint.is_empty()), "{found}");
}
