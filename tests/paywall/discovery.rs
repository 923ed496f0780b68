//! What programs are told of what is sold: documents, and `bazaar` in quotes.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Body, routing};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tower_x402::{
    BuildError, Merchant, PaymentIdentifier, Price, X402Layer,
    discovery::Endpoint,
    protocol::{
        Address, Amount, Network, TokenDomain,
        headers::PAYMENT_REQUIRED,
        v2::{Extensions, PaymentRequired},
    },
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::ScriptedSettler,
};

use super::standard::{Stall, offered, paid, pays};
use crate::support::{Answer, Counter, PRICE, Shop, ask, echo, layered};

fn question() -> Endpoint {
    Endpoint::post("/answer")
        .summary("Answers é")
        .input(json!({ "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] }))
        .example(json!({ "query": "warum nicht für alle?" }))
        .output(json!({ "type": "object" }))
        .output_example(json!({ "reply": "42" }))
}

fn dear(merchant: &Merchant) -> X402Layer {
    merchant.price_with("dear", |_, _| Price::Charge(Amount::from_base_units(1))).unwrap()
}

async fn told(app: impl Into<Router>, request: Request<Body>) -> (StatusCode, String, String) {
    let answer: Response<Body> = app.into().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap()).to_owned();
    (parts.status, kind, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

fn asked(method: Method, path: &str, host: Option<&str>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = host.into_iter().fold(request, |request, host| request.header(header::HOST, host));
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn documents_name_the_passes_that_count() {
    let shop = Shop::open().await;
    let merchant = &shop.merchant;
    let ten = merchant.pass("ten", "3.90 USDC").unwrap().calls(10).unwrap().at("/pass").unwrap();
    let purse = merchant.pass("purse", "4.50 USDC").unwrap().worth("5 USDC").unwrap();
    // Whatever comes first.
    let _ = shop.layer().describe(question()).unwrap().accept_pass(&ten).unwrap().accept_pass(&purse).unwrap();
    let _ = dear(merchant).accept_pass(&ten).unwrap().describe(Endpoint::post("/dear")).unwrap();
    let _ = merchant.charge("alone", PRICE).unwrap().describe(Endpoint::get("/alone")).unwrap();
    let ten = json!({ "name": "ten", "label": "ten", "price": "3.9", "calls": 10, "seconds": null, "url": "/pass" });
    let purse = json!({
        "name": "purse", "label": "purse", "price": "4.5", "calls": null, "seconds": null, "url": null, "worth": "5",
    });
    let discovery = merchant.discovery();
    let paths = discovery.paths();
    let operation = &paths["/answer"]["post"];
    assert_eq!(operation["x-passes"], json!([ten, purse]));
    assert_eq!(
        (&operation["parameters"][0]["name"], &operation["parameters"][0]["in"]),
        (&json!("x402-pass"), &json!("header"))
    );
    assert!(operation["responses"]["200"]["headers"].get("X402-Pass-Remaining").is_some());
    assert_eq!(paths["/dear"]["post"]["x-passes"], json!([ten]));
    let alone = &paths["/alone"]["get"];
    assert!(alone.get("x-passes").is_none() && alone.get("parameters").is_none());
    assert_eq!(discovery.well_known("https://shop.example")["passes"], json!([ten, purse]));
    let text = discovery.text("https://shop.example");
    assert!(text.contains("  Or by pass ten: 10 answers for 3.9 USDC, at POST /pass.\n"), "{text}");
    assert!(text.contains("  Or by pass purse: answers for 5 USDC for 4.5 USDC.\n"), "{text}");
    assert!(text.contains("x402-pass"), "{text}");
    // Another shop says nothing of passes.
    let other = Shop::open().await;
    let _ = other.layer().describe(question()).unwrap();
    let discovery = other.merchant.discovery();
    assert!(discovery.well_known("https://shop.example").get("passes").is_none());
    assert!(!discovery.text("https://shop.example").contains("pass"), "{}", discovery.text("https://shop.example"));
}

#[tokio::test]
async fn each_endpoint_has_its_price() {
    let shop = Shop::open().await;
    let merchant = &shop.merchant;
    let report = Endpoint::get("/reports/{id}").input(json!({
        "type": "object",
        "properties": { "id": { "type": "integer" }, "page": { "type": "integer" }, "q": { "type": "string" } },
        "required": ["id", "q"],
    }));
    // A label that comes later counts, and one name may stand at several places.
    let _ = shop.layer().describe(question()).unwrap().label("An answer").unwrap().clone().describe(report).unwrap();
    let _ = dear(merchant)
        .describe(Endpoint::post("/dear").price_between("0.01 USDC", "2.50 USDC"))
        .unwrap()
        .describe(Endpoint::get("/dear"))
        .unwrap();
    let _ = merchant
        .price_with("same", |_, _| Price::Free)
        .unwrap()
        .describe(Endpoint::post("/answer-").price_between("0.10 USDC", "0.10 USDC"));

    let discovery = merchant.discovery().title("Shop").version("7").about("About it.");
    let document = discovery.openapi("https://shop.example/");
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!((&document["info"]["title"], &document["info"]["version"]), (&json!("Shop"), &json!("7")));
    assert_eq!(document["info"]["description"], "About it.");
    assert_eq!(document["servers"], json!([{ "url": "https://shop.example" }]));
    assert_eq!(document["paths"], discovery.paths());

    let paths = &document["paths"];
    for (path, method, id, summary, price) in [
        ("/answer", "post", "postAnswer", "Answers é", json!({ "mode": "fixed", "currency": "USD", "amount": "0.49" })),
        (
            "/reports/{id}",
            "get",
            "getReportsById",
            "An answer",
            json!({ "mode": "fixed", "currency": "USD", "amount": "0.49" }),
        ),
        (
            "/dear",
            "post",
            "postDear",
            "dear",
            json!({ "mode": "dynamic", "currency": "USD", "min": "0.01", "max": "2.5" }),
        ),
        ("/dear", "get", "getDear", "dear", json!({ "mode": "dynamic", "currency": "USD" })),
        ("/answer-", "post", "postAnswer2", "same", json!({ "mode": "fixed", "currency": "USD", "amount": "0.1" })),
    ] {
        let operation = &paths[path][method];
        assert_eq!((&operation["operationId"], &operation["summary"]), (&json!(id), &json!(summary)), "{path}");
        assert_eq!(operation["x-payment-info"]["price"], price, "{path}");
        // This merchant takes transfers alone.
        assert_eq!(operation["x-payment-info"]["protocols"], json!([]));
        assert!(operation["responses"]["402"]["headers"].get("PAYMENT-REQUIRED").is_none());
    }
    let body = &paths["/answer"]["post"]["requestBody"]["content"]["application/json"];
    assert_eq!(body["example"], json!({ "query": "warum nicht für alle?" }));
    let parameters = paths["/reports/{id}"]["get"]["parameters"].as_array().unwrap();
    let places: Vec<_> = parameters.iter().map(|p| (p["name"].as_str(), p["in"].as_str(), &p["required"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(
        places,
        [(Some("id"), Some("path"), &yes), (Some("page"), Some("query"), &no), (Some("q"), Some("query"), &yes)]
    );
    assert_eq!(parameters[0]["schema"], json!({ "type": "integer" }));

    let listed = discovery.well_known("https://shop.example");
    assert_eq!(listed["version"], 1);
    let urls = ["https://shop.example/answer", "https://shop.example/answer-", "https://shop.example/dear"];
    assert_eq!(listed["resources"], json!(urls));
    let text = discovery.text("https://shop.example");
    for part in
        ["# Shop\n", "POST /answer: Answers é. 0.49 USDC.", "0.01 to 2.5 USDC", "https://shop.example/openapi.json"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn one_method_and_path_sell_one_thing() {
    let shop = Shop::open().await;
    let layer = shop.layer().describe(question()).unwrap();
    // Said again, it is said anew.
    let _ = layer.describe(question().summary("Anew")).unwrap();
    assert_eq!(shop.merchant.discovery().paths()["/answer"]["post"]["summary"], "Anew");
    let other = dear(&shop.merchant).describe(question());
    assert!(matches!(other, Err(BuildError::ConflictingEndpoint { path }) if path == "/answer"));
    for path in ["", "answer", "/a b", "/a?b", "/é", "/{a}b", "/{}", "/*rest", "/{*rest}"] {
        let found = shop.layer().describe(Endpoint::get(path));
        assert!(matches!(found, Err(BuildError::InvalidEndpoint { .. })), "{path}");
    }
    let found = shop.layer().describe(Endpoint::new(Method::CONNECT, "/a"));
    assert!(matches!(found, Err(BuildError::InvalidEndpoint { .. })));
    let found = shop.layer().describe(Endpoint::get("/a").price_between("1 EUR", "2 EUR"));
    assert!(matches!(found, Err(BuildError::WrongSymbol { .. })));
    assert_eq!(shop.merchant.discovery().paths().as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn it_answers_for_free_where_it_is_asked() {
    let shop = Shop::open().await;
    let paid = shop.layer().describe(question()).unwrap();
    let app = Router::new()
        .route("/answer", routing::post(async || "sold").route_layer(paid))
        .fallback_service(shop.merchant.discovery());
    for (path, kind, part) in [
        ("/openapi.json", "application/json", r#""servers":[{"url":"https://shop.example"}]"#),
        ("/.well-known/x402", "application/json", r#""https://shop.example/answer""#),
        ("/llms.txt", "text/plain; charset=utf-8", "POST /answer"),
        ("/", "text/plain; charset=utf-8", "POST /answer"),
    ] {
        let (status, found, body) = told(app.clone(), asked(Method::GET, path, Some("shop.example"))).await;
        assert_eq!((status, found.as_str()), (StatusCode::OK, kind), "{path}");
        assert!(body.contains(part), "{path}: {body}");
        let (status, _, body) = told(app.clone(), asked(Method::HEAD, path, None)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, ""), "{path}");
        let (status, ..) = told(app.clone(), asked(Method::POST, path, None)).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert_eq!(told(app.clone(), asked(Method::GET, "/other", None)).await.0, StatusCode::NOT_FOUND);
    // Whatever the host calls itself, the documents stay what they are.
    for (host, url) in [("127.0.0.1:80", "http://127.0.0.1:80"), ("a b", ""), ("x@shop.example", ""), ("\"", "")] {
        let (_, _, body) = told(app.clone(), asked(Method::GET, "/openapi.json", Some(host))).await;
        let document: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(document["servers"][0]["url"], url, "{host}");
    }
    let public = Shop::open_with(|builder| builder.public_url("https://api.example/v1/").contact("a@b.example")).await;
    let app = Router::new().fallback_service(public.merchant.discovery());
    let (_, _, body) = told(app, asked(Method::GET, "/openapi.json", Some("shop.example"))).await;
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document["servers"][0]["url"], "https://api.example/v1");
    assert_eq!(document["info"]["contact"], json!({ "email": "a@b.example" }));
}

fn said(answer: &Answer) -> Extensions {
    assert_eq!(answer.status(), 402);
    PaymentRequired::from_headers(answer.headers()).unwrap().unwrap().extensions
}

fn length(answer: &Answer) -> usize {
    answer.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

#[tokio::test]
async fn quotes_of_who_settles_say_how_to_ask() {
    let stall = Stall::open().await;
    let layer = stall.shop.layer().label("Wärme").unwrap().describe(question()).unwrap();
    let layer = layer.describe(Endpoint::get("/answer").example(json!({ "q": "x" }))).unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let answer = ask(&service, asked(Method::POST, "/answer", None)).await;
    let extensions = said(&answer);
    let input = &extensions.info("bazaar").unwrap()["input"];
    let expected = json!({
        "type": "http", "method": "POST", "bodyType": "json", "body": { "query": "warum nicht für alle?" },
    });
    assert_eq!(input, &expected);
    assert!(extensions.schema("bazaar").unwrap()["properties"]["input"].is_object());
    assert!(length(&answer) <= 2_900);
    for method in [Method::GET, Method::HEAD] {
        let answer = ask(&service, asked(method, "/answer", None)).await;
        let input = said(&answer).info("bazaar").unwrap()["input"].clone();
        assert_eq!(input, json!({ "type": "http", "method": "GET", "queryParams": { "q": "x" } }));
    }
    let answer = ask(&service, asked(Method::PUT, "/answer", None)).await;
    assert!(said(&answer).is_empty());
    let document = stall.shop.merchant.discovery().paths();
    assert_eq!(document["/answer"]["post"]["x-payment-info"]["protocols"], json!([{ "x402": {} }]));

    // Who settles nothing lists nothing, and says so.
    let shop = Shop::open_with(|builder| builder.accept_submitted_transfers()).await;
    let service = layered(&shop.layer().describe(question()).unwrap(), echo(Counter::default()));
    assert!(said(&ask(&service, asked(Method::POST, "/answer", None)).await).is_empty());
}

/// As the example grows, first the answer's goes, then the schema, then all of it; the quote stays what it was.
#[tokio::test]
async fn what_has_no_room_is_left_out() {
    let mut seen = Vec::new();
    let plain = Stall::open().await;
    let label = "Wärme";
    let service = layered(&plain.shop.layer().label(label).unwrap(), echo(Counter::default()));
    let long = || {
        let request = Request::post(format!("/{}", "p".repeat(3_000))).header(header::HOST, "h".repeat(300));
        request.body(Body::empty()).unwrap()
    };
    let without = PaymentRequired::from_headers(ask(&service, long()).await.headers()).unwrap().unwrap();
    for size in (0..4_000).step_by(50) {
        let stall = Stall::open().await;
        let endpoint = Endpoint::post("/answer")
            .input(json!({ "type": "object", "description": "d".repeat(80) }))
            .example(json!({ "query": "x".repeat(size / 2) }))
            .output_example(json!({ "reply": "r".repeat(80) }));
        let layer = stall.shop.merchant.charge("answer", PRICE).unwrap().label(label).unwrap();
        let service = layered(&layer.describe(endpoint).unwrap(), echo(Counter::default()));
        let answer = ask(&service, long()).await;
        assert!(length(&answer) <= 2_900, "{size}: {}", length(&answer));
        assert!(answer.headers()[PAYMENT_REQUIRED].len() % 4 == 0);
        let found = PaymentRequired::from_headers(answer.headers()).unwrap().unwrap();
        assert_eq!((&found.resource, found.accepts.len()), (&without.resource, without.accepts.len()));
        let bazaar = found.extensions.info("bazaar");
        let schema =
            found.extensions.schema("bazaar").map(|schema| &schema["properties"]["input"]["properties"]["body"]);
        let has =
            (bazaar.is_some_and(|info| info.get("output").is_some()), schema.map(|s| s.get("description").is_some()));
        if seen.last() != Some(&has) {
            seen.push(has);
        }
    }
    let shed = [(true, Some(true)), (false, Some(true)), (false, Some(false)), (false, None)];
    assert!(shed.ends_with(&seen) && seen.len() >= 2, "{seen:?}");
}

#[tokio::test]
async fn ordinary_ones_have_room() {
    let stall = Stall::open().await;
    let layer = stall.shop.layer().label("Demand insights").unwrap().describe(question()).unwrap();
    let service = layered(&layer, echo(Counter::default()));
    let mut request = asked(Method::POST, "/answer", Some("shop.example"));
    request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    let answer = ask(&service, request).await;
    let info = said(&answer).info("bazaar").unwrap().clone();
    assert_eq!(info["input"]["body"]["query"], "warum nicht für alle?");
}

/// Settles as the scripted one does, and tells what it was told beside.
#[derive(Clone)]
struct Listing {
    settler: ScriptedSettler,
    told: Arc<Mutex<Vec<Extensions>>>,
}

impl Settler for Listing {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.settler.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        self.settler.verify(payment).await
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.told.lock().unwrap().push(payment.extensions.clone());
        self.settler.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// In the seller's own words: what a client echoes, or makes up, is not passed on.
#[tokio::test]
async fn who_settles_is_told_what_was_bought() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let shop = Shop::open_on(|builder, chain| {
        builder.settler(Listing { settler: ScriptedSettler::new(chain.clone()), told: Arc::clone(&told) })
    })
    .await;
    let service = layered(&shop.layer().describe(question()).unwrap(), echo(Counter::default()));
    let made_up = Extensions::new().with("bazaar", json!({ "input": { "type": "http", "method": "GET" } }), None);
    let payment = pays(&offered(&service).await).with_extensions(made_up);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    let told = told.lock().unwrap();
    let info = told[0].info("bazaar").unwrap();
    assert_eq!((told.len(), &info["input"]["method"]), (1, &json!("POST")));
    assert_eq!(info["output"]["example"], json!({ "reply": "42" }));
}

/// Programs are told of names where quotes declare them, and of the header where MPP is spoken.
#[tokio::test]
async fn the_names_of_purchases_are_told() {
    let info = |required: bool| json!({ "payment-identifier": { "info": { "required": required } } });
    for (setting, mpp, extensions, said) in [
        (None, true, None, None),
        (Some(PaymentIdentifier::Optional), false, Some(info(false)), Some("may name its purchase")),
        (Some(PaymentIdentifier::Optional), true, Some(info(false)), Some("in MPP in the header Idempotency-Key.")),
        (Some(PaymentIdentifier::Required), true, Some(info(true)), Some("must name its purchase")),
    ] {
        let stall = Stall::open_with(|mut builder| {
            if let Some(setting) = setting {
                builder = builder.payment_identifier(setting);
            }
            if mpp { builder.mpp("api.example.com") } else { builder }
        })
        .await;
        let layer = stall.shop.layer().describe(question()).unwrap();
        // The document says what the quote declares.
        let service = layered(&layer, echo(Counter::default()));
        let declared = said_of(&ask(&service, asked(Method::POST, "/answer", None)).await);
        assert_eq!(declared, extensions.as_ref().map(|told| told["payment-identifier"]["info"].clone()));
        let discovery = stall.shop.merchant.discovery();
        let paths = discovery.paths();
        let operation = &paths["/answer"]["post"];
        assert_eq!(operation["x-payment-info"].get("extensions"), extensions.as_ref(), "{setting:?}");
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let keys = parameters.iter().filter(|parameter| parameter["name"] == "Idempotency-Key");
        let keys: Vec<_> = keys.map(|key| (key["in"].as_str(), &key["required"])).collect();
        let expected = if setting.is_some() && mpp { vec![(Some("header"), &json!(false))] } else { vec![] };
        assert_eq!(keys, expected, "{setting:?}");
        let text = discovery.text("https://shop.example");
        assert_eq!(text.contains("name its purchase"), said.is_some(), "{text}");
        assert!(said.is_none_or(|said| text.contains(said)), "{text}");
        let listed = discovery.well_known("https://shop.example");
        assert!(said.is_none_or(|said| listed["instructions"].as_str().unwrap().contains(said)), "{listed}");
    }
}

fn said_of(answer: &Answer) -> Option<Value> {
    said(answer).info("payment-identifier").cloned()
}
