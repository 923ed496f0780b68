//! A Python service sells a route to curl, to an official client, and to our own buyer, on a real chain.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower_x402::{
    alloy::signers::local::PrivateKeySigner,
    protocol::{Amount, TxHash, permit2::PERMIT2},
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

use crate::{
    program::{PATIENT, Running, SELLER, Shop, python, seen, upstream},
    support::{authorization::signature, tools::write_secret},
    tools,
};

const ROUTES: &str = r#"
[[route]]
match = "GET /reports/{id}"
price = "0.05 USDC"
label = "A report"
redeliver = "15m"
page = true
[[route]]
match = "POST /v1/echo"
price = "0.10 USDC"
[[route]]
match = "POST /v1/complete"
price = { up_to = "0.10 USDC" }
[[route]]
match = "GET /health"
free = true
[default]
action = "deny"
[mcp]
path = "/mcp"
[mcp.tools]
search = "0.01 USDC"
"#;
const PRICE: u128 = 50_000;

/// A chain on which a Python service sells.
struct Market {
    chain: DevChain,
    shop: Shop,
    gateway: Running,
    _upstream: Running,
}

async fn market() -> Market {
    let builder = DevChain::builder().install_with_npm(true).with_permit2();
    let chain = builder.mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = python("examples/gateway/upstream.py", &["0"]);
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    write_secret(shop.folder.path().join("settle.key"), chain.accounts()[3].private_key());
    shop.write("", "settle_key_file = \"settle.key\"", ROUTES);
    let gateway = shop.start();
    Market { chain, shop, gateway, _upstream: upstream }
}

impl Market {
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.gateway.url)
    }

    async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }

    async fn pay(&self, from: usize, units: u128) -> TxHash {
        let from = self.chain.accounts()[from].address();
        let transaction = self.chain.transfer(from, SELLER, Amount::from_base_units(units)).await.unwrap();
        self.chain.wait_until_mined(transaction).await.unwrap();
        transaction
    }
}

/// What curl prints: status, headers, body.
fn curl(arguments: &[&str]) -> (u16, String, String) {
    let output = Command::new("curl").args(["-si", "--max-time", "30"]).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
}

/// Shows a payment until it counts: one that is bound to nothing is held for some seconds.
async fn redeemed(arguments: &[&str], intent: &str, transaction: TxHash) -> (u16, String, String) {
    let proof = format!("x402-payment: {{\"intentId\":\"{intent}\",\"txHash\":\"{transaction}\"}}");
    let deadline = Instant::now() + PATIENT;
    loop {
        let answer = curl(&[arguments, &["-H", &proof]].concat());
        if answer.0 != 409 || Instant::now() > deadline {
            return answer;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn intent(body: &str) -> String {
    serde_json::from_str::<Value>(body).unwrap()["intentId"].as_str().unwrap().to_owned()
}

/// The first quote waits for a block: a new ledger begins in the present.
async fn quote(arguments: &[&str]) -> (u16, String, String) {
    let deadline = Instant::now() + PATIENT;
    loop {
        let answer = curl(arguments);
        if answer.0 != 503 || Instant::now() > deadline {
            return answer;
        }
        sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_buys_by_a_transfer_and_the_service_is_told_who_paid() {
    let market = market().await;
    assert_eq!(curl(&[&market.url("/health")]).0, 200);
    assert_eq!(curl(&[&market.url("/elsewhere")]).0, 404);
    let url = market.url("/reports/7");
    let (status, head, body) = quote(&[&url]).await;
    assert_eq!(status, 402, "{head}\n{body}");
    assert!(head.contains("\"amount\":\"50000\"") && head.contains("a report"), "{head}");

    let transaction = market.pay(1, PRICE).await;
    let forged = "X402-Payer: 0x000000000000000000000000000000000000dEaD";
    let (status, head, body) = redeemed(&[&url, "-H", forged], &intent(&body), transaction).await;
    assert_eq!(status, 200, "{head}\n{body}");
    let sold: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(sold["report"], "7");
    assert_eq!(sold["paid"]["X402-Payer"], market.chain.accounts()[1].address().to_string());
    assert_eq!(sold["paid"]["X402-Amount"], "50000");
    let id = sold["paid"]["X402-Payment-Id"].as_str().unwrap();
    assert!(id.contains(&transaction.to_string()), "{id}");
    assert!(head.contains("payment-response: "), "{head}");

    // Once: another intent does not buy again, and the seller's book has one sale.
    let (_, _, other) = curl(&[&url]);
    let (status, _, body) = redeemed(&[&url], &intent(&other), transaction).await;
    assert!(status == 409 && body.contains("tx_already_used"), "{status} {body}");
    let (code, out, complaint) = market.shop.run(&["sales", "--since", "2020-01-01", "--json"]);
    assert_eq!(code, Some(0), "{complaint}");
    let sales: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(sales.as_array().unwrap().len(), 1, "{out}");
    assert_eq!(sales[0]["resource"], "GET /reports/{id}");

    // A payment that bought nothing is found, and its refund is noted.
    let lost = market.pay(2, PRICE).await;
    let (code, out, complaint) = market.shop.run(&["unredeemed", "--since", "2020-01-01", "--json"]);
    assert_eq!(code, Some(0), "{complaint}");
    let owed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((owed.as_array().unwrap().len(), &owed[0]["transaction"]), (1, &Value::from(lost.to_string())), "{out}");
    let payment = owed[0]["payment"].as_str().unwrap();
    let refund = ["refund", "--payment", payment, "--transaction", &transaction.to_string(), "--since", "2020-01-01"];
    let (code, out, complaint) = market.shop.run(&refund);
    assert_eq!(code, Some(0), "{complaint}");
    assert!(out.contains("is noted as given back"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_in_the_body_does_not_reach_the_service() {
    let market = market().await;
    let url = market.url("/v1/echo");
    let json = "content-type: application/json";
    let (status, _, body) = quote(&[&url, "-H", json, "-d", "{\"prompt\":\"x\"}"]).await;
    assert_eq!(status, 402, "{body}");
    let intent = intent(&body);
    let transaction = market.pay(1, 100_000).await;
    let shown = format!("{{\"prompt\":\"x\",\"intentId\":\"{intent}\",\"txHash\":\"{transaction}\"}}");
    let deadline = Instant::now() + PATIENT;
    let (status, _, body) = loop {
        let answer = curl(&[&url, "-H", json, "-d", &shown]);
        if answer.0 != 409 || Instant::now() > deadline {
            break answer;
        }
        sleep(Duration::from_millis(500)).await;
    };
    assert_eq!(status, 200, "{body}");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["body"], json!({ "prompt": "x" }));
}

/// What the official client is answered; `None` without Node.
async fn bought(market: &Market, url: &str, method: &str, body: &str) -> Option<Value> {
    let scripts = tools::node().await?;
    let key = market.chain.accounts()[1].private_key();
    let output = tokio::process::Command::new("node")
        .arg(scripts.join("buy.mjs"))
        .args([url, key, market.chain.rpc_url(), method, body])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    Some(serde_json::from_str(said.lines().next().unwrap_or_else(|| panic!("{complaint}"))).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_official_client_buys() {
    let market = market().await;
    let url = market.url("/reports/8");
    assert_eq!(quote(&[&url]).await.0, 402);
    let Some(bought) = bought(&market, &url, "GET", "").await else { return };
    assert_eq!((&bought["status"], &bought["body"]["report"]), (&Value::from(200), &Value::from("8")), "{bought}");
    assert_eq!(bought["settled"]["success"], true, "{bought}");
    assert_eq!(market.takings().await, PRICE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_official_client_pays_what_the_service_says() {
    let market = market().await;
    let approve = contracts::approve(PERMIT2, Amount::MAX);
    let payer = market.chain.accounts()[1].address();
    let sent = market.chain.send(payer, market.chain.usdc(), &approve).await.unwrap();
    market.chain.wait_until_mined(sent).await.unwrap();
    let url = market.url("/v1/complete");
    let json = "content-type: application/json";
    // Nobody sends a transfer of an amount that is not known yet.
    let (status, head, body) = quote(&[&url, "-H", json, "-d", "{}"]).await;
    assert!(status == 402 && !head.contains("\npay:"), "{head}\n{body}");
    let mut charged = 0;
    for (prompt, words) in [("one two three", 3), ("", 0)] {
        let wish = json!({ "prompt": prompt }).to_string();
        let Some(bought) = bought(&market, &url, "POST", &wish).await else { return };
        assert_eq!(bought["status"], 200, "{bought}");
        assert_eq!(bought["body"]["words"].as_array().map(Vec::len), Some(words), "{bought}");
        charged += 1_000 * words as u128;
        assert_eq!(bought["settled"]["amount"], (1_000 * words).to_string(), "{bought}");
        assert_eq!(market.takings().await, charged, "{bought}");
    }
    // More than the maximum: nothing is sold, and nothing is taken.
    let wish = json!({ "prompt": "word ".repeat(101) }).to_string();
    let Some(bought) = bought(&market, &url, "POST", &wish).await else { return };
    assert_eq!((&bought["status"], market.takings().await), (&Value::from(500), charged), "{bought}");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_buyer_buys() {
    let market = market().await;
    let url = market.url("/reports/9");
    assert_eq!(quote(&[&url]).await.0, 402);
    let file = market.shop.folder.path().join("buyer.key");
    write_secret(&file, market.chain.accounts()[1].private_key());
    let (key, journal) = (file.display().to_string(), market.shop.folder.path().join("journal").display().to_string());
    let flags = [
        "buy",
        &url,
        "--method",
        "get",
        "--key-file",
        &key,
        "--rpc-url",
        market.chain.rpc_url(),
        "--journal",
        &journal,
    ];
    let code = crate::buy::buy(flags.into_iter().map(Into::into)).await;
    assert_eq!((code, market.takings().await), (0, PRICE));
}

/// A call of the tool, with this payment, if there is one; its result.
async fn called(url: &str, payment: Option<Value>) -> Value {
    let meta = payment.map(|payment| json!({ "x402/payment": payment })).unwrap_or_default();
    let parameters = json!({ "name": "search", "arguments": { "q": "why" }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(url).header("accept", "application/json, text/event-stream").json(&message);
    let text = request.send().await.unwrap().text().await.unwrap();
    let event = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str::<Value>(event).unwrap_or_else(|_| panic!("{text}"))["result"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_sold_by_the_call() {
    let market = market().await;
    let url = market.url("/mcp");
    let deadline = Instant::now() + PATIENT;
    let terms = loop {
        let bill = called(&url, None).await;
        let terms = bill["structuredContent"]["accepts"][0].clone();
        if terms.is_object() {
            break terms;
        }
        assert!(Instant::now() < deadline, "{bill}");
        sleep(Duration::from_millis(300)).await;
    };
    assert_eq!(terms["amount"], "10000");
    // Whatever the path looks like.
    assert!(called(&market.url("/x/../%6dcp/"), None).await["structuredContent"]["accepts"].is_array());

    let buyer: PrivateKeySigner = market.chain.accounts()[1].private_key().parse().unwrap();
    let from = market.chain.accounts()[1].address();
    let before = market.chain.timestamp().await.unwrap().unix() + 600;
    let words = [
        from.into(),
        SELLER.into(),
        Word::from(10_000),
        Word::from(0),
        Word::from(u128::from(before)),
        Word::new([7; 32]),
    ];
    let signed = signature(&market.chain, &buyer, &words);
    let payment = json!({
        "x402Version": 2,
        "accepted": terms,
        "payload": {
            "signature": format!("0x{}", const_hex::encode(signed.as_bytes())),
            "authorization": {
                "from": from.to_string(),
                "to": SELLER.to_string(),
                "value": "10000",
                "validAfter": "0",
                "validBefore": before.to_string(),
                "nonce": format!("0x{}", const_hex::encode([7; 32])),
            },
        },
    });
    let sold = called(&url, Some(payment)).await;
    assert_eq!(sold["content"][0]["text"], format!("found for {from}"), "{sold}");
    assert_eq!(sold["_meta"]["x402/payment-response"]["success"], true, "{sold}");
    assert_eq!(market.takings().await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_failed_is_not_sold_and_the_payment_stays_good() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", "[default]\naction = { price = \"0.05 USDC\" }");
    let gateway = shop.start();
    let market = Market { chain, shop, gateway, _upstream: upstream };
    let (status, _, body) = quote(&[&market.url("/broken")]).await;
    assert_eq!(status, 402, "{body}");
    let intent = intent(&body);
    let transaction = market.pay(1, PRICE).await;
    for (path, status, code) in [
        ("/broken", 502, "upstream_failed"),
        ("/bill", 502, "upstream_payment_required"),
        ("/slow", 504, "upstream_timeout"),
        ("/status/500", 500, "as it is"),
        ("/status/404", 404, "as it is"),
        // The way to where the same is for sale.
        ("/slashless", 301, ""),
    ] {
        let (found, head, body) = redeemed(&[&market.url(path)], &intent, transaction).await;
        assert!(found == status && body.contains(code) && !head.contains("payment-response"), "{path}: {head}\n{body}");
    }
    let (status, head, body) = redeemed(&[&market.url("/slashless/")], &intent, transaction).await;
    assert!(status == 200 && head.contains("payment-response: "), "{head}\n{body}");
    assert_eq!(seen(&market._upstream).await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_the_same_is_not_sold_whatever_it_looks_like() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &format!("{}/v1", upstream.url));
    shop.write("", "", "[default]\naction = { price = \"0.05 USDC\" }");
    let gateway = shop.start();
    let market = Market { chain, shop, gateway, _upstream: upstream };
    let url = market.url("/reports/1");
    let (_, _, body) = quote(&[&url]).await;
    let intent = intent(&body);
    let transaction = market.pay(1, PRICE).await;
    for (place, shown) in [
        ("1/", "1/"),
        ("?x=1", "?x=1"),
        ("/v1/reports/1/", "/reports/1/"),
        ("http://{told}/reports/1/", &format!("{url}/")),
        ("https://{host}/v1/reports/1/", "/reports/1/"),
    ] {
        let (status, head, _) = redeemed(&[&url, "-H", &format!("X-Location: {place}")], &intent, transaction).await;
        assert!(status == 302 && !head.contains("payment-response"), "{place}: {head}");
        assert!(head.contains(&format!("location: {shown}\r\n")), "{place}: {head}");
    }
    let elsewhere = "X-Location: http://other.example/reports/1/";
    let (status, head, _) = redeemed(&[&url, "-H", elsewhere], &intent, transaction).await;
    assert!(status == 302 && head.contains("payment-response: "), "{head}");
}

/// A job is sold by `POST`, and its result is free.
const JOBS: &str = r#"
[[route]]
match = "POST /jobs"
price = "0.05 USDC"
[[route]]
match = "/reports/{id}"
price = "0.05 USDC"
[default]
action = "free"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_after_which_nothing_is_for_sale_is_sold() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", JOBS);
    let gateway = shop.start();
    let market = Market { chain, shop, gateway, _upstream: upstream };
    let url = market.url("/jobs");
    for (path, status, place, is_sold) in [
        ("/jobs", 307, "/jobs/", false),
        ("/jobs", 308, "?id=1", false),
        ("/jobs", 303, "?id=1", true),
        ("/jobs", 302, "?id=1", true),
        ("/jobs", 301, "/jobs/", false),
        // A GET of it is sold as well.
        ("/reports/1", 303, "?id=1", false),
    ] {
        let url = market.url(path);
        let (_, _, body) = quote(&[&url, "-X", "POST"]).await;
        let (intent, transaction) = (intent(&body), market.pay(1, PRICE).await);
        let (status_header, place_header) = (format!("X-Status: {status}"), format!("X-Location: {place}"));
        let arguments = [&*url, "-X", "POST", "-H", &status_header, "-H", &place_header];
        let (found, head, body) = redeemed(&arguments, &intent, transaction).await;
        assert_eq!(found, status, "{path} {place}: {head}\n{body}");
        assert_eq!(head.contains("payment-response: "), is_sold, "{path} {status} {place}: {head}");
        // What is not sold can be bought still, and what is sold is sold once.
        if is_sold {
            let proof = format!("x402-payment: {{\"intentId\":\"{intent}\",\"txHash\":\"{transaction}\"}}");
            let (again, _, body) = curl(&[&arguments[..], &["-H", &proof]].concat());
            assert!(again == 409 && body.contains("already_consumed"), "{path} {status} {place}: {again} {body}");
        } else {
            assert_eq!(redeemed(&arguments, &intent, transaction).await.0, status, "{path} {place}");
        }
    }
    assert_eq!(curl(&[&url]).0, 200);
}

/// Of `/reports/annual` and `/files/annual`, a GET is dear, and the form of a page is not for sale.
const DEAR: &str = r#"
[[route]]
match = "GET /reports/annual"
price = "10 USDC"
[[route]]
match = "GET /reports/{id}"
price = "0.05 USDC"
page = true
[[route]]
match = "GET /files/annual"
price = "10 USDC"
[[route]]
match = "/files/{id}"
price = "0.05 USDC"
page = true
[default]
action = "free"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_a_cheap_page_does_not_buy_what_is_dear() {
    let chain = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).start().await.unwrap();
    let upstream = upstream();
    let shop = Shop::new(chain.rpc_url(), &upstream.url);
    shop.write("", "", DEAR);
    let gateway = shop.start();
    let market = Market { chain, shop, gateway, _upstream: upstream };
    for (folder, refused, method) in [("files", 405, ""), ("reports", 200, "POST")] {
        let cheap = market.url(&format!("/{folder}/1"));
        let (_, _, body) = quote(&[&cheap]).await;
        let form = format!("intentId={}&txHash={}", intent(&body), market.pay(1, PRICE).await);
        // To the dear path it is a form of the service's own, or none at all.
        let (status, body) = posted(&market.url(&format!("/{folder}/annual")), &form).await;
        assert!(status == refused && body.contains(method) && !body.contains("GET"), "{folder}: {status} {body}");
        let (status, body) = posted(&cheap, &form).await;
        assert!(status == 200 && body.contains(r#""method": "GET""#), "{folder}: {status} {body}");
    }
}

/// The answer to a browser's form, once the payment in it counts.
async fn posted(url: &str, form: &str) -> (u16, String) {
    let deadline = Instant::now() + PATIENT;
    loop {
        let (status, _, body) = curl(&[url, "-H", "accept: text/html", "-d", form]);
        if status != 409 || Instant::now() > deadline {
            return (status, body);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_form_of_a_page_buys_and_no_other_post_gets_through() {
    let market = market().await;
    let url = market.url("/reports/10");
    let html = "accept: text/html";
    let (status, head, body) = quote(&[&url, "-H", html]).await;
    assert!(status == 402 && head.contains("text/html") && body.contains("A report"), "{head}");
    let (_, _, body) = curl(&[&url]);
    let intent = self::intent(&body);
    let transaction = market.pay(1, PRICE).await;
    // Paid for in the header, a form is a POST, which this route does not sell.
    let proof = ["-H", "content-type: application/x-www-form-urlencoded", "-d", "a=b"];
    let (status, _, body) = redeemed(&[&[&*url][..], &proof].concat(), &intent, transaction).await;
    assert!(status == 405 && body.contains("method_not_allowed"), "{status} {body}");
    let form = format!("intentId={intent}&txHash={transaction}");
    let (status, head, body) = curl(&[&url, "-H", html, "-d", &form]);
    assert!(status == 200 && body.contains("\"report\": \"10\""), "{head}\n{body}");
}

#[test]
fn the_demo_buys_one_answer() {
    let output = Command::new(env!("CARGO_BIN_EXE_x402-gateway")).args(["demo", "--once"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(out.contains("/reports/1, paid by 0x") && said.contains("price = \"0.05 USDC\""), "{out}\n{said}");
}
