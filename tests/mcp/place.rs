//! `datasets` in a process of its own, on a local chain, and a payer who signs by hand.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tower_x402::{
    protocol::{
        ChainTime,
        v2::{Authorization, PaymentPayload, PaymentRequired, PaymentRequirements, SignedAuthorization},
    },
    testing::{DevChain, contracts::Word},
};

use crate::{
    served::{app::App, market::SELLER, shop::client},
    support::authorization::signature,
};

/// In base units.
pub const PRICE: u128 = 490_000;
/// Who pays.
pub const PAYER: usize = 8;

pub struct Place {
    pub chain: DevChain,
    pub app: App,
    pub folder: TempDir,
}

/// A ledger and a key that outlive the process.
const LASTING: [&str; 6] =
    ["--ledger", "sqlite:ledger.db", "--sealing-key", "sealing.key", "--settle-key", "settle.key"];

impl Place {
    pub async fn open() -> Self {
        Self::on(DevChain::builder().mine_every(Duration::from_secs(1))).await
    }

    pub async fn on(builder: tower_x402::testing::DevChainBuilder) -> Self {
        let chain = builder.install_with_npm(true).start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        crate::support::tools::write_secret(folder.path().join("settle.key"), chain.accounts()[3].private_key());
        crate::support::tools::write_secret(folder.path().join("sealing.key"), "07".repeat(32));
        let app = App::start_in(folder.path().to_owned(), chain.rpc_url(), &LASTING).await;
        Self { chain, app, folder }
    }

    /// Kills it at once, and starts it again.
    pub async fn dies_and_lives_again(self) -> Self {
        let Self { chain, app, folder } = self;
        app.kill();
        let app = App::start_in(folder.path().to_owned(), chain.rpc_url(), &LASTING).await;
        Self { chain, app, folder }
    }

    /// The address of its tools.
    pub fn mcp(&self) -> String {
        format!("{}/mcp", self.app.url())
    }

    /// What the seller has, in base units.
    pub async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }

    /// Says something to the server; gives the message that comes back.
    pub async fn say(&self, message: &Value) -> Value {
        let url = self.mcp();
        say(&url, message).await
    }

    /// Calls the tool; gives its result.
    pub async fn call(&self, tool: &str, arguments: Value, payment: Option<&PaymentPayload>) -> Value {
        self.say(&message(tool, arguments, payment)).await["result"].take()
    }

    pub async fn offer(&self, tool: &str, arguments: Value) -> PaymentRequirements {
        let bill = self.call(tool, arguments, None).await;
        let required = PaymentRequired::from_json(bill["structuredContent"].to_string());
        required.unwrap_or_else(|_| panic!("{bill}")).accepts[0].exact().unwrap().clone()
    }

    /// The payer's payment for an offer.
    pub async fn pays(&self, offer: &PaymentRequirements) -> PaymentPayload {
        let account = &self.chain.accounts()[PAYER];
        let (from, nonce): (_, [u8; 32]) = (account.address(), rand::random());
        let until = self.chain.timestamp().await.unwrap().unix() + 600;
        let terms = [
            from.into(),
            offer.pay_to.into(),
            offer.amount.into(),
            0.into(),
            u128::from(until).into(),
            Word::new(nonce),
        ];
        let signed = signature(&self.chain, &account.private_key().parse().unwrap(), &terms);
        let authorization = Authorization::new(from, nonce)
            .paying(offer.pay_to, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
        PaymentPayload::new(offer.clone(), SignedAuthorization::new(authorization, signed.to_string().parse().unwrap()))
    }
}

/// A call, as a client of the stateless revision sends it: it needs no session.
pub fn message(tool: &str, arguments: Value, payment: Option<&PaymentPayload>) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "by-hand", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(payment) = payment {
        meta["x402/payment"] = serde_json::from_str(&payment.to_json()).unwrap();
    }
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// Says something to a server; gives the last message that comes back.
pub async fn say(url: &str, message: &Value) -> Value {
    let request = client()
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", message["method"].as_str().unwrap_or_default())
        .header("mcp-name", message["params"]["name"].as_str().unwrap_or_default());
    let text = request.json(message).send().await.unwrap().text().await.unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or(&text);
    serde_json::from_str(last).unwrap_or_else(|_| panic!("no message: {text}"))
}
