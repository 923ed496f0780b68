//! Official clients call the tools of `datasets`, on a local chain.

use std::{path::Path, path::PathBuf, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{process::Command, sync::OnceCell, time::timeout};
use tower_x402::protocol::v2::PaymentRequired;

use super::place::{PRICE, Place};
use crate::support::{
    servers::missing,
    tools::{filled, found, npm_packages, succeeds, tools},
};

const PACKAGES: [(&str, &str); 2] =
    [("package.json", include_str!("js/package.json")), ("package-lock.json", include_str!("js/package-lock.json"))];
const SCRIPTS: [(&str, &str); 1] = [("read.mjs", include_str!("js/read.mjs"))];
const REQUIREMENTS: [(&str, &str); 1] = [("requirements.txt", include_str!("python/requirements.txt"))];

async fn node() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || filled(&npm_packages("mcp-node", &PACKAGES)?, "scripts", &SCRIPTS, |_| Some(())))
        .await
        .or_else(|| missing("node"))
}

async fn python() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    let environment = || {
        let environment = filled(&tools(), "mcp-python", &REQUIREMENTS, |folder| {
            succeeds(std::process::Command::new("python3").args(["-m", "venv", "."]).current_dir(folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement", "requirements.txt"];
            succeeds(std::process::Command::new(folder.join("bin/python")).args(pip).current_dir(folder))
        })?;
        Some(environment.join("bin/python"))
    };
    found(&FOUND, environment).await.or_else(|| missing("python"))
}

/// Runs a program to its end, and gives the lines of JSON that it printed.
async fn lines(command: &mut Command) -> Vec<Value> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(120), output).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_python_client_buys_each_tool() {
    let Some(python) = python().await else { return };
    let place = Place::open().await;
    let key = place.chain.accounts()[9].private_key();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/python/buy.py");
    let calls = [
        ("demand_insights", json!({ "query": "pricing" }), true),
        ("ai_early_adopters_goals", json!({ "query": "support" }), true),
        ("agent_conversions", json!({ "filters": { "aggregate": "agent" } }), true),
        ("analytics_filters", json!({}), false),
    ];
    let mut sold = 0;
    for (tool, arguments, paid) in calls {
        let mut command = Command::new(python);
        command.arg(&script).args([&place.mcp(), key, tool, &arguments.to_string()]);
        let said = lines(&mut command).await;
        let said = &said[0];
        assert_eq!(said["tools"].as_array().unwrap().len(), 4, "{said}");
        assert_eq!((&said["isError"], &said["paid"]), (&json!(false), &json!(paid)), "{said}");
        sold += u128::from(paid) * PRICE;
        if paid {
            assert_eq!(said["settled"]["success"], true, "{said}");
        }
        // The answer of the route of HTTP.
        let text: Value = serde_json::from_str(said["text"][0].as_str().unwrap()).unwrap();
        assert!(
            text["reply"].as_str().is_some_and(|reply| reply.starts_with("# "))
                || text["stats"]["rows"].is_array()
                || text["countries"].is_array(),
            "{text}"
        );
        assert_eq!(place.takings().await, sold);
    }
    // Refused before anything is asked for.
    let mut command = Command::new(python);
    command.arg(&script).args([&place.mcp(), key, "demand_insights", "{}"]);
    let said = lines(&mut command).await;
    assert_eq!((&said[0]["isError"], &said[0]["paid"]), (&json!(true), &json!(false)), "{said:?}");
    assert_eq!(place.takings().await, sold);
}

/// It checks structured content by the tool's schema, also where a result is an error.
#[tokio::test]
async fn the_typescript_client_reads_the_quote() {
    let Some(node) = node().await else { return };
    let place = Place::open().await;
    let mut command = Command::new("node");
    command.arg(node.join("read.mjs")).args([&place.mcp(), "demand_insights", r#"{"query":"pricing"}"#]);
    let said = lines(&mut command).await;
    let told = &said[0];
    let tool = told["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "demand_insights").unwrap();
    assert_eq!(tool["_meta"]["x402/price"], json!({ "name": "Demand insights", "currency": "USDC" }));
    assert!(tool["outputSchema"]["anyOf"][0]["properties"]["reply"].is_object(), "{tool}");
    let result = &told["result"];
    assert_eq!((told.get("error"), &result["isError"]), (None, &json!(true)), "{told}");
    let required = PaymentRequired::from_json(result["structuredContent"].to_string()).unwrap();
    assert_eq!(required.accepts[0].exact().unwrap().amount.to_string(), PRICE.to_string());
    // A free tool's result passes the same check.
    let mut command = Command::new("node");
    command.arg(node.join("read.mjs")).args([&place.mcp(), "analytics_filters", "{}"]);
    let said = lines(&mut command).await;
    assert!(said[0]["result"]["structuredContent"]["countries"].is_array(), "{said:?}");
}
