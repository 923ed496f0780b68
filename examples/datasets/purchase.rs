//! Buying one answer: quote, check, pay, wait, redeem. Pays at most once, whatever happens.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use alloy::primitives::{Address, B256, U256};
use reqwest::{
    Client, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
    redirect,
};
use tower_x402::protocol::{
    Amount, Asset, Quote,
    headers::{PAYMENT_RESPONSE, X_PRICE_INTENT, X402_PAYMENT},
};

use super::wallet::{BoxError, Wallet};

/// For how long a payment is offered to a seller who asks to wait.
const PATIENCE: Duration = Duration::from_secs(600);
const LONGEST_PAUSE: u64 = 60;

/// What is to be bought.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) url: String,
    /// A JSON document.
    pub(crate) body: String,
    /// The most that may be paid, such as `1.00`.
    pub(crate) max: String,
    /// The only tokens that may be paid with; if empty, the USDC of the quoted chain.
    pub(crate) tokens: Vec<Address>,
}

/// A step of the purchase, for people.
pub(crate) fn say(step: &str) {
    eprintln!("  {step}");
}

/// Buys the answer, and gives its body.
///
/// # Errors
/// A sentence; if a payment was sent, it names the transaction.
pub(crate) async fn buy(order: &Order, wallet: &Wallet) -> Result<String, BoxError> {
    let http = client()?;
    let quote = match ask(&http, order).await? {
        Asked::Answered(answer) => return Ok(answer),
        Asked::Quoted(quote) => quote,
    };
    // What a seller wrote is shown escaped: it could carry control characters.
    let price = format!("{} {}", quote.amount.to_decimal(quote.decimals), quote.symbol.escape_debug());
    say(&format!("402  {:?} costs {price}, to {}, chain {}", quote.label, quote.recipient, quote.network.chain_id()));
    let token = acceptable(order, &quote, wallet).await?;
    let paid = pay(wallet, token, &quote).await?;
    match wallet.mined(paid).await {
        Ok(block) => say(&format!("mined in block {block}")),
        Err(error) => return Err(kept(&error.to_string(), paid)),
    }
    redeem(&http, order, &quote, paid).await
}

/// Follows no redirect: a proof of payment is for the seller alone.
pub(crate) fn client() -> Result<Client, BoxError> {
    let client = Client::builder().redirect(redirect::Policy::none()).connect_timeout(Duration::from_secs(10));
    Ok(client.timeout(Duration::from_secs(660)).build()?)
}

/// What a first request is answered with.
pub(crate) enum Asked {
    Quoted(Box<Quote>),
    /// It costs nothing.
    Answered(String),
}

/// Asks for the answer without paying.
///
/// # Errors
/// A sentence.
pub(crate) async fn ask(http: &Client, order: &Order) -> Result<Asked, BoxError> {
    let request = http.post(&order.url).header(CONTENT_TYPE, "application/json");
    let response = request.body(order.body.clone()).send().await?;
    match response.status() {
        StatusCode::PAYMENT_REQUIRED => Ok(Asked::Quoted(Box::new(Quote::from_headers(response.headers())?))),
        status if status.is_success() => {
            say("it is free");
            Ok(Asked::Answered(response.text().await?))
        }
        status => Err(format!("no quote: {}", Refusal::read(status, response).await.text).into()),
    }
}

/// The token to pay with, after everything that a payer has to check.
async fn acceptable(order: &Order, quote: &Quote, wallet: &Wallet) -> Result<Address, BoxError> {
    let max = Amount::parse_decimal(&order.max, quote.decimals)?;
    if quote.amount > max {
        let price = quote.amount.to_decimal(quote.decimals);
        return Err(format!("{price} is more than the {} you allow: nothing was paid", order.max).into());
    }
    let chain = wallet.chain_id().await?;
    if chain != quote.network.chain_id() {
        return Err(format!("the quote is for chain {}, your RPC is chain {chain}", quote.network.chain_id()).into());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    if quote.expiry <= now {
        return Err("the quote has expired already: is your clock right?".into());
    }
    funded_token(order, quote, wallet).await
}

/// A token that the payer trusts, the seller accepts, and the wallet has enough of.
async fn funded_token(order: &Order, quote: &Quote, wallet: &Wallet) -> Result<Address, BoxError> {
    let usdc = Asset::usdc_of(quote.network).map(|asset| Address::from(*asset.contract().as_bytes()));
    let trusted = if order.tokens.is_empty() { usdc.into_iter().collect() } else { order.tokens.clone() };
    let accepted = quote.contracts.iter().map(|contract| Address::from(*contract.as_bytes()));
    let common: Vec<_> = accepted.filter(|token| trusted.contains(token)).collect();
    if common.is_empty() {
        return Err("the seller accepts no token that you pay with: see --token".into());
    }
    for token in common {
        let (balance, decimals) = wallet.balance(token).await?;
        // A price means what it says only under the token's own decimals.
        if decimals == quote.decimals && balance >= units(quote.amount) {
            return Ok(token);
        }
    }
    let price = quote.amount.to_decimal(quote.decimals);
    Err(format!("{} has less than {price} of the accepted tokens: nothing was paid", wallet.address).into())
}

fn units(amount: Amount) -> U256 {
    U256::from_be_bytes(amount.to_be_bytes())
}

async fn pay(wallet: &Wallet, token: Address, quote: &Quote) -> Result<B256, BoxError> {
    let to = Address::from(*quote.recipient.as_bytes());
    let signed = wallet.sign(token, to, units(quote.amount)).await?;
    let hash = *signed.tx_hash();
    say(&format!("paying from {} in transaction {hash}", wallet.address));
    // An error here does not mean that the transfer was not sent.
    wallet.send(signed).await.map_err(|error| kept(&error.to_string(), hash))?;
    Ok(hash)
}

/// An error after which the payment is not lost.
fn kept(reason: &str, paid: B256) -> BoxError {
    format!("{reason}\nDo not pay again. If transaction {paid} is mined, redeem it with --paid {paid}").into()
}

/// Redeems a payment, and asks again for as long as the seller says that it may.
///
/// # Errors
/// A sentence that names the transaction.
pub(crate) async fn redeem(http: &Client, order: &Order, quote: &Quote, paid: B256) -> Result<String, BoxError> {
    let (start, mut renewed, mut intent) = (Instant::now(), false, quote.intent.as_str().to_owned());
    loop {
        let proof = serde_json::json!({ "intentId": intent, "txHash": paid }).to_string();
        let request = http.post(&order.url).header(CONTENT_TYPE, "application/json").header(X402_PAYMENT, proof);
        let refusal = match request.body(order.body.clone()).send().await {
            Ok(response) if delivers(&response) => {
                say(&format!("{}  the answer", response.status().as_u16()));
                return response.text().await.map_err(|error| kept(&error.to_string(), paid));
            }
            Ok(response) => Refusal::read(response.status(), response).await,
            Err(error) => Refusal::connection(&error),
        };
        match refusal.fresh_intent {
            Some(fresh) if !renewed => {
                say(&format!("{} Redeeming the same payment with a fresh intent.", refusal.text));
                (intent, renewed) = (fresh, true);
                continue;
            }
            _ => {}
        }
        let Some(pause) = refusal.retry_after else {
            return Err(format!("{}\nThe payment is transaction {paid}; nothing more was paid", refusal.text).into());
        };
        if start.elapsed() + pause > PATIENCE {
            return Err(kept(&refusal.text, paid));
        }
        say(&format!("{} Asking again in {} s.", refusal.text, pause.as_secs()));
        tokio::time::sleep(pause).await;
    }
}

/// Whether this response is what was paid for.
fn delivers(response: &Response) -> bool {
    response.status().is_success() || response.headers().contains_key(PAYMENT_RESPONSE)
}

/// Any other response.
struct Refusal {
    text: String,
    retry_after: Option<Duration>,
    fresh_intent: Option<String>,
}

impl Refusal {
    async fn read(status: StatusCode, response: Response) -> Self {
        let headers = response.headers().clone();
        let body: serde_json::Value = response.json().await.unwrap_or_default();
        let word = |name: &str| body.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let (code, detail) = (word("error"), word("detail"));
        let again = retry_after(&headers).filter(|_| status.is_client_error() || status.is_server_error());
        let fresh_intent = headers.get(X_PRICE_INTENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text = format!("{}  {} {}", status.as_u16(), code.escape_debug(), detail.escape_debug());
        Self { text, retry_after: again, fresh_intent }
    }

    /// The connection broke: whether the answer was sold is not known, and the same pair tells.
    fn connection(error: &reqwest::Error) -> Self {
        let text = format!("no answer ({error})");
        Self { text, retry_after: Some(Duration::from_secs(2)), fresh_intent: None }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds.clamp(1, LONGEST_PAUSE)))
}
