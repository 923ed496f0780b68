//! A shop with pages, on a socket and a chain of its own.

use std::{io, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};
use tower_x402::{
    Merchant, MerchantBuilder, Receipt, Redelivery, X402Layer,
    discovery::Endpoint,
    ledger::MemoryLedger,
    page::Page,
    protocol::{Address, SealingKeys},
    settle::WalletSettler,
    testing::DevChain,
    verify::EvmVerifier,
};

use crate::support::Counter;

/// Nobody that the chain begins with.
pub const SELLER: Address = Address::new([0x5e; 20]);
pub const PRICE: &str = "0.49 USDC";
pub const UNITS: u128 = 490_000;

/// What is sold to a browser.
const REPORT: &str = r#"<!doctype html><title>r</title><h1>The report</h1>
<p>What visitors <strong>say</strong>, <a href="https://example.org/more">more</a>.</p>
<table><tr><th scope="col">Theme</th><th scope="col">Chats</th></tr><tr><td>pricing</td><td>12</td></tr></table>"#;
/// The same with markup that the page does not take over.
const HOSTILE: &str = r##"<!doctype html><title>r</title><style>h1{color:red}</style><h1 onclick="__pwned()">The report</h1>
<p style="position:fixed">A <a href="javascript:__pwned()">link</a>, <a href=" java&#10;script:__pwned()">another</a>.</p>
<script>__pwned()</script><img src="x" onerror="__pwned()"><svg onload="__pwned()"></svg><iframe srcdoc="<script>__pwned()</script>"></iframe>
<math><mtext><table><mglyph><style><img src=x onerror="__pwned()"></style></mglyph></table></mtext></math>
<form action="/steal"><input name="q"></form><template><img src=x onerror="__pwned()"></template>"##;

/// As models write it, with what should stay text.
const MARKDOWN: &str = "# The *report*\n\nWhat visitors **say**,\nand [more](https://example.org/a?b=1&c).\n\n\
    - one `<b>`\n- two\n  more\n\n3. third\n\n> quoted\n> **twice**\n\n| Theme | Chats |\n|---|---:|\n| pricing | 12 |\n\n\
    ```js\n<script>__pwned()</script>\n```\n---\n\
    <img src=x onerror=__pwned()> [bad](javascript:__pwned()) snake_case_name 2 * 3 * 4\n";

/// Where a handler sends who paid.
pub const ELSEWHERE: &str = "https://files.example/signed?key=1";

/// A chain that mines every second, and what is sold on it.
pub struct Shop {
    pub chain: DevChain,
    pub url: String,
    pub handler: Counter,
}

/// How a shop differs from the usual.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// Whether signed payments are taken.
    pub settles: bool,
    /// Whether unbound payments are refused.
    pub bound_only: bool,
    /// Whether the routes say that no answer is kept.
    pub unkept: bool,
    /// A label for each of `/0`, `/1`, …
    pub labels: Vec<String>,
    /// Whether a pass of two calls is sold at `/pass`, and taken for the report.
    pub passes: bool,
}

impl Shop {
    pub async fn open(kind: Kind) -> Self {
        let chain =
            DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
        let mut builder = merchant(&chain).await;
        if kind.settles {
            builder = builder.settler(settler(&chain).await);
        }
        if kind.bound_only {
            builder = builder.require_bound();
        }
        let merchant =
            builder.contact("help@shop.example").page(Page::new().title("A shop & more")).build().await.unwrap();
        let handler = Counter::default();
        let app = routes(&merchant, &kind).with_state(handler.clone());
        Self { chain, url: serve(app).await, handler }
    }

    /// Who pays.
    pub fn buyer(&self) -> Address {
        self.chain.accounts()[1].address()
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }
}

/// The seller of these shops, without a page yet.
pub async fn merchant(chain: &DevChain) -> MerchantBuilder {
    Merchant::builder(SELLER)
        .hold_unbound(Duration::from_secs(2))
        .verifier(verifier(chain).await)
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]))
}

pub async fn verifier(chain: &DevChain) -> EvmVerifier {
    EvmVerifier::builder().endpoints([chain.rpc_url()]).connect().await.unwrap()
}

pub async fn settler(chain: &DevChain) -> WalletSettler {
    let key = chain.accounts()[3].private_key();
    WalletSettler::builder().key(key).endpoint(chain.rpc_url()).connect().await.unwrap()
}

pub fn routes(merchant: &Merchant, kind: &Kind) -> Router<Counter> {
    let layer = |name: &str, label: &str| -> X402Layer {
        let layer = merchant.charge(name, PRICE).unwrap().label(label).unwrap();
        if kind.unkept { layer.redeliver(Redelivery::lasting(Duration::ZERO)) } else { layer }
    };
    let described = |layer: X402Layer, path: &str| {
        let input = json!({ "type": "object", "properties": { "query": { "type": "string" } } });
        layer.describe(Endpoint::get(path).input(input)).unwrap()
    };
    let mut report = described(layer("report", "The report"), "/report");
    let mut app = Router::new();
    if kind.passes {
        let two = merchant.pass("two", "0.90 USDC").unwrap().calls(2).unwrap();
        let two = two.label("Two <answers>").unwrap().at("/pass").unwrap();
        report = report.accept_pass(&two).unwrap();
        app = app.route_service("/pass", two.service().unwrap());
    }
    app = app
        .route("/report", get(answer).post(answer).route_layer(report.clone()))
        .route("//evil.example/report", get(answer).route_layer(report));
    for (number, label) in kind.labels.iter().enumerate() {
        let layer = described(layer(&format!("label {number}"), label), &format!("/{number}"));
        app = app.route(&format!("/{number}"), get(answer).post(answer).route_layer(layer));
    }
    let frames = r#"<iframe src="/report"></iframe><iframe src="/open"></iframe>"#;
    app.route("/frame", get(async move || ([(header::CONTENT_TYPE, "text/html")], frames)))
        .route("/open", get(async || "not guarded"))
}

/// By what the address asks for: HTML for browsers and JSON for others, unless it says `as=text` or `as=file`.
async fn answer(
    State(handler): State<Counter>,
    receipt: Receipt,
    method: Method,
    headers: HeaderMap,
    request: Request,
) -> Response {
    handler.run();
    assert_eq!(method, Method::GET, "what a form sent arrives as what it redeems");
    let of_type = |name: &'static str, body: Body| ([(header::CONTENT_TYPE, name)], body).into_response();
    let query = request.uri().query().unwrap_or_default();
    let html = headers.get_all(header::ACCEPT).iter().any(|accept| accept.to_str().unwrap().contains("text/html"));
    match query {
        query if query.contains("as=text") => of_type("text/plain; charset=utf-8", "a plain\nanswer".into()),
        query if query.contains("as=file") => of_type("application/octet-stream", vec![0_u8, 1, 2].into()),
        query if query.contains("as=exact") => {
            of_type("application/json", r#"{"b":1e400,"a":[1.10,{}],"s":"{\"x\": 1}"}"#.into())
        }
        query if query.contains("as=markdown") => of_type("text/markdown; charset=utf-8", MARKDOWN.into()),
        query if query.contains("as=csv") => {
            of_type("text/csv", "Theme,Chats\r\n\"pricing, \"\"all\"\" <b>\",12\r\n".into())
        }
        query if query.contains("as=slow") => {
            sleep(Duration::from_secs(4)).await;
            of_type("text/plain", "worth the wait".into())
        }
        query if query.contains("as=latin") => of_type("text/plain; charset=iso-8859-1", b"caf\xe9".to_vec().into()),
        query if query.contains("as=moved") => (StatusCode::SEE_OTHER, [(header::LOCATION, ELSEWHERE)]).into_response(),
        query if query.contains("as=events") => of_type("text/event-stream", events(false)),
        query if query.contains("as=broken") => of_type("text/event-stream", events(true)),
        query if query.contains("as=json") => of_type("application/json", r#"{"payer":"json"}"#.into()),
        query if query.contains("as=failure") && handler.runs() == 1 => {
            (StatusCode::UNPROCESSABLE_ENTITY, "no such report").into_response()
        }
        query if query.contains("as=hostile") => of_type("text/html", HOSTILE.into()),
        _ if html => of_type("text/html; charset=utf-8", REPORT.into()),
        _ => of_type("application/json", format!(r#"{{"payer":"{}"}}"#, receipt.payer()).into()),
    }
}

/// Two events with a pause between them, or one and a broken connection.
fn events(breaks: bool) -> Body {
    let (sender, mut receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        sender.send(Ok(Bytes::from("data: first\n\n"))).await.unwrap();
        sleep(Duration::from_secs(3)).await;
        let last = if breaks { Err(io::Error::other("broken")) } else { Ok(Bytes::from("data: second\n\n")) };
        sender.send(last).await.unwrap();
    });
    Body::from_stream(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
}

/// Serves on a free port until the test ends; answers where.
pub async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}
