//! The guide's block for nginx, in front of the datasets server: a purchase passes, with the public port in the quote, and too many
//! requests do not.

use std::{fs, path::Path, process::Command, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    app::App,
    market::{Market, PRICE},
    operating::app,
    shop::{INSIGHTS, client},
};
use crate::support::{
    servers::{Watched, free_port, installed, listens, missing},
    tools::write_secret,
};

const GUIDE: &str = include_str!("../../src/guide/going_live.md");

/// The guide's block, with its certificate here, and the paths and ports of this test.
fn configuration(folder: &Path, tls: u16, plain: u16, app: &App) -> String {
    let (_, block) = GUIDE.split_once("```text\n# In the context `http`:\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut block = block.to_owned();
    let own = folder.display();
    for (theirs, ours) in [
        // Without TLS as well, for a client that knows no such certificate.
        ("listen 443 ssl;", format!("listen 127.0.0.1:{tls} ssl; listen 127.0.0.1:{plain};")),
        ("/etc/ssl/shop.pem", format!("{own}/shop.pem")),
        ("/etc/ssl/shop.key", format!("{own}/shop.key")),
        ("http://127.0.0.1:4020", app.url().to_owned()),
    ] {
        assert_eq!(block.matches(theirs).count(), 1, "{theirs}");
        block = block.replace(theirs, &ours);
    }
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {own}/{kind};\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid {own}/pid; error_log {own}/error.log;\nevents {{}}\nhttp {{ access_log off;\n{paths}{block}}}\n"
    )
}

fn certificate(folder: &Path) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.example"]);
    openssl.args(["-keyout", "shop.key", "-out", "shop.pem"]).current_dir(folder);
    openssl.output().is_ok_and(|made| made.status.success())
}

#[tokio::test]
async fn the_guides_nginx_passes_a_purchase_and_limits_requests() {
    let Some(nginx) = installed("nginx", &["/usr/sbin".into()]).or_else(|| missing("nginx")) else { return };
    let folder = tempfile::tempdir().unwrap();
    if !certificate(folder.path()) {
        return missing("openssl").unwrap_or_default();
    }
    let market = Market::new().await;
    // The standard's quote and payments, whose headers are the largest.
    write_secret(folder.path().join("settle.key"), market.chain.accounts()[3].private_key());
    let app = app(folder.path(), &market, &["--settle-key", "settle.key"]).await;
    let (tls, plain) = (free_port(), free_port());
    let file = folder.path().join("nginx.conf");
    fs::write(&file, configuration(folder.path(), tls, plain, &app)).unwrap();
    let mut run = Command::new(&nginx);
    run.args(["-e", "stderr", "-p"]).arg(folder.path()).arg("-c").arg(&file);
    let tested = Command::new(run.get_program()).args(run.get_args()).arg("-t").output().unwrap();
    let said = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(tested.status.success() && !said.contains("[warn]"), "{said}");
    let _nginx = Watched::start(&run);
    for _ in 0..200 {
        if listens(([127, 0, 0, 1], plain).into()).await && listens(([127, 0, 0, 1], tls).into()).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let public = format!("http://127.0.0.1:{plain}{INSIGHTS}");
    let (http, question) = (client(), json!({ "query": "pricing" }));
    let quote = http.post(&public).json(&question).send().await.unwrap();
    assert_eq!(quote.status(), 402);
    let required = STANDARD.decode(quote.headers()["payment-required"].as_bytes()).unwrap();
    let required: Value = serde_json::from_slice(&required).unwrap();
    assert_eq!(required["resource"]["url"], public.as_str());
    let intent = quote.json::<Value>().await.unwrap()["intentId"].as_str().unwrap().to_owned();
    let proof = json!({ "query": "pricing", "intentId": intent, "txHash": market.pay(PRICE).await.to_string() });
    let mut answer = http.post(&public).json(&proof).send().await.unwrap();
    for _ in 0..8 {
        if answer.headers().get("x402-error").is_none_or(|code| code != "tx_not_confirmed") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        market.block().await;
        answer = http.post(&public).json(&proof).send().await.unwrap();
    }
    assert_eq!(answer.status(), 200, "{:?}", answer.headers());
    assert!(answer.headers().contains_key("payment-response"));
    assert!(!answer.bytes().await.unwrap().is_empty());

    // A burst passes, and what is more is told to slow down.
    let burst = (0..60).map(|_| http.post(&public).json(&question).send());
    let statuses: Vec<u16> =
        join_all(burst).await.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect();
    let count = |status| statuses.iter().filter(|seen| **seen == status).count();
    assert!(count(402) >= 15 && count(429) >= 20 && count(402) + count(429) == 60, "{statuses:?}");
}
