//! `--dev`: a local chain, and accounts with money on it.

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use alloy::primitives::hex;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use rmcp::{ServiceExt as _, transport::StreamableHttpClientTransport};
use tempfile::NamedTempFile;
use tower::{Layer as _, util::ServiceExt as _};
use tower_x402::{
    client::{
        Body, Budget, MemoryJournal, PaidTools, Pay, PayLayer, PaymentMethod, Purchase, ReqwestClient, WalletPayer,
    },
    protocol::{Address, Amount, Asset},
    testing::{DevAccount, DevChain},
};

use super::{steps, theft};

/// The account that the printed commands pay with.
const BUYER: usize = 1;
/// The account that pays by transfers.
const PAYER: usize = 2;
/// The account that settles signed payments.
const SETTLER: usize = 3;
/// The account that signs, and sends nothing.
const SIGNER: usize = 4;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One request for each endpoint.
const ORDERS: [(&str, &str); 3] = [
    ("/demand-insights", r#"{"query":"What stops visitors from paying for a year?"}"#),
    ("/ai-early-adopters-goals", r#"{"query":"Who wants to automate customer support?"}"#),
    ("/analytics/agent-conversions", r#"{"filters":{"aggregate":"agent","country":"Germany"}}"#),
];

/// One call of a tool.
const TOOL_CALL: (&str, &str) = ("demand_insights", r#"{"query":"What do visitors say about pricing?"}"#);

/// The chain and its participants.
#[derive(Debug)]
pub(crate) struct Dev {
    chain: DevChain,
    /// The buyer's key, readable by its owner alone, and deleted when this is dropped.
    key_file: NamedTempFile,
    /// The key of the account that settles signed payments, likewise.
    settle_key: NamedTempFile,
}

impl Dev {
    /// Starts the chain.
    ///
    /// # Errors
    /// The error says how to get what is missing.
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let chain = DevChain::builder().install_with_npm(true).start().await?;
        let key_file = key_file("x402-buyer-", &chain.accounts()[BUYER])?;
        let settle_key = self::key_file("x402-settle-", &chain.accounts()[SETTLER])?;
        Ok(Self { chain, key_file, settle_key })
    }

    /// Returns the key file of the account that settles signed payments.
    pub(crate) fn settle_key(&self) -> &Path {
        self.settle_key.path()
    }

    pub(crate) fn rpc_url(&self) -> &str {
        self.chain.rpc_url()
    }

    /// Returns the address that is paid.
    pub(crate) fn recipient(&self) -> Address {
        self.account(0).address()
    }

    /// Returns one of the ten accounts that own ether and USDC.
    fn account(&self, number: usize) -> &DevAccount {
        &self.chain.accounts()[number]
    }

    /// Shows how to buy: with commands to copy, after buying if asked to.
    pub(crate) async fn show(&self, base: &str, price: &str, buy: bool) {
        if buy && let Err(error) = self.buy(base, price).await {
            eprintln!("error: {error}");
        }
        // The reader may have closed the pipe.
        let _ = writeln!(io::stdout(), "{}", self.commands(base, price));
    }

    /// Buys one answer from each endpoint: the last by a signed payment, which the seller settles, the others by a
    /// transfer. After the first, another client shows its transaction. Then calls one tool.
    async fn buy(&self, base: &str, price: &str) -> Result<(), BoxError> {
        let client = self.client(PAYER, PaymentMethod::Transfer, price).await?;
        let signer = self.client(SIGNER, PaymentMethod::Authorization, price).await?;
        for (number, (path, body)) in ORDERS.into_iter().enumerate() {
            eprintln!("\nPOST {path} {body}");
            let url = format!("{base}{path}");
            let client = if number == ORDERS.len() - 1 { &signer } else { &client };
            let order = Request::post(&url).header(CONTENT_TYPE, "application/json");
            let (head, answer) = client.clone().oneshot(order.body(Body::from(body))?).await?.into_parts();
            eprintln!("\n{}", beginning(&answer.collect().await?.to_bytes()));
            let paid_with = head.extensions.get::<Purchase>().and_then(|purchase| purchase.transaction);
            if let (0, Some(transaction)) = (number, paid_with) {
                eprintln!("\n{}", theft::attempt(&url, body, transaction).await?);
            }
        }
        self.call_tool(base, price).await
    }

    /// Calls one tool as an agent does, and pays for the call by a signed payment.
    async fn call_tool(&self, base: &str, price: &str) -> Result<(), BoxError> {
        let (tool, arguments) = TOOL_CALL;
        let url = format!("{base}/mcp");
        eprintln!("\ntools/call {tool} {arguments}");
        let session = Arc::new(().serve(StreamableHttpClientTransport::from_uri(&*url)).await?);
        let layer = self.pay_layer(SIGNER, PaymentMethod::Authorization, price).await?;
        let tools = PaidTools::new(&layer, &url, move |params| {
            let session = Arc::clone(&session);
            async move {
                let result = session.call_tool(serde_json::from_value(params)?).await?;
                Ok(serde_json::to_value(result)?)
            }
        })?;
        let called = tools.call(tool, serde_json::from_str(arguments)?).await?;
        eprintln!("\n{}", beginning(called.result["structuredContent"].to_string().as_bytes()));
        Ok(())
    }

    /// Returns a client that pays from this account in this way. It must not be the account of the printed commands:
    /// two programs with one wallet disturb each other.
    async fn client(&self, account: usize, method: PaymentMethod, price: &str) -> Result<Pay<ReqwestClient>, BoxError> {
        let layer = self.pay_layer(account, method, price).await?;
        Ok(layer.layer(ReqwestClient::new(reqwest::Client::builder())?))
    }

    async fn pay_layer(&self, account: usize, method: PaymentMethod, price: &str) -> Result<PayLayer, BoxError> {
        let key = self.account(account).private_key();
        let wallet = WalletPayer::builder().key(key).endpoint(self.rpc_url()).connect().await?;
        let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment(price).per_day("1000000").build()?;
        let layer = PayLayer::builder(wallet, budget, MemoryJournal::new()).prefer(method).on_event(steps::show);
        Ok(layer.build().await?)
    }

    /// Returns commands to copy, which buy an answer.
    fn commands(&self, base: &str, price: &str) -> String {
        let (rpc, from, token) = (self.rpc_url(), self.account(BUYER).address(), self.chain.usdc());
        let key = self.key_file.path().display();
        let (path, body) = ORDERS[0];
        let members = body.trim_start_matches('{');
        let call = transfer(self.recipient(), Amount::parse_decimal(price, 6).unwrap_or(Amount::ZERO));
        format!(
            r#"
A local chain runs at {rpc}. A buyer with 1,000,000 USDC on it, worth nothing elsewhere:
  address   {from}
  key file  {key}

Buy an answer with one command:

  cargo run --example buy --features client,wallet,reqwest -- {base}{path} '{body}' --key-file {key} --rpc-url {rpc}

Or step by step, with curl:

  # 1. the quote
  curl -si {base}{path} -H 'content-type: application/json' -d '{body}'
  INTENT=$(curl -s {base}{path} -H 'content-type: application/json' -d '{body}' | sed 's/.*"intentId":"\([^"]*\)".*/\1/')

  # 2. the quote's tag: behind the payment's data it shows that the payment was made for this intent, which only you know
  #    (a payment without one counts, too; who shows it first gets the answer, after --hold-unbound)
  SECRET=$(printf 'x402-tag:v1:%s' "$INTENT" | od -An -v -tx1 | tr -d ' \n')
  TAG=$(curl -s {rpc} -H 'content-type: application/json' -d '{{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x'$SECRET'"]}}' | sed 's/.*"result":"0x\([^"]*\)".*/\1/')

  # 3. the payment: {price} USDC (this chain signs for its own accounts; elsewhere use any wallet)
  TX=$(curl -s {rpc} -H 'content-type: application/json' -d '{{"jsonrpc":"2.0","id":1,"method":"eth_sendTransaction","params":[{{"from":"{from}","to":"{token}","data":"{call}78343032'$TAG'"}}]}}' | sed 's/.*"result":"\([^"]*\)".*/\1/')

  # 4. the answer, once it is in a block
  sleep 3; curl -s {base}{path} -H 'content-type: application/json' -d '{{"intentId":"'$INTENT'","txHash":"'$TX'",{members}'
"#
        )
    }
}

fn key_file(prefix: &str, account: &DevAccount) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix(prefix).suffix(".key").tempfile()?;
    writeln!(file, "{}", account.private_key())?;
    Ok(file)
}

/// Returns the call data of an ERC-20 `transfer`.
fn transfer(to: Address, amount: Amount) -> String {
    let words = [[0; 12].as_slice(), to.as_bytes(), &amount.to_be_bytes()].concat();
    format!("0xa9059cbb{}", hex::encode(words))
}

/// Returns the first lines of an answer.
fn beginning(answer: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let lines: Vec<String> = match answer["reply"].as_str() {
        Some(reply) => reply.lines().take(16).map(str::to_owned).collect(),
        None => answer["stats"]["rows"].as_array().into_iter().flatten().take(5).map(ToString::to_string).collect(),
    };
    lines.iter().map(|line| format!("    {line}\n")).collect::<String>() + "    …"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_commands_name_the_key_and_do_not_have_it() {
        let dev = Dev::start().await.unwrap();
        let (commands, file) = (dev.commands("http://127.0.0.1:4020", "0.49"), dev.key_file.path().to_owned());
        let key = dev.account(BUYER).private_key();
        assert!(commands.contains(&format!("--key-file {}", file.display())), "{commands}");
        assert!(!commands.contains(key.trim_start_matches("0x")), "{commands}");
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), key);
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions()) & 0o777, 0o600);
        drop(dev);
        assert!(!file.exists());
    }
}
