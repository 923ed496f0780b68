//! Sells for several tenants, each with its own recipient and price: one `Merchant` each, chosen by the path. Needs
//! an RPC endpoint of Base, a key for the quotes, and the tenants as `name=recipient:price`:
//!
//! ```sh
//! export X402_RPC_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example marketplace --features axum,evm,sqlite -- alice=0x…:0.10 bob=0x…:0.25
//! curl -i -X POST 127.0.0.1:4020/alice/answer
//! ```

use std::{env, error::Error, str::FromStr};

use axum::{Router, routing::post};
use tokio::net::TcpListener;
use tower_x402::{
    BuildError, Merchant, MerchantBuilder, Receipt,
    ledger::SqliteLedger,
    protocol::{Address, SealingKeys},
    verify::EvmVerifier,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tenants = env::args().skip(1).map(|text| text.parse()).collect::<Result<Vec<Tenant>, _>>()?;
    // Shared by all tenants: endpoints, the book of sales, and the key. A recipient must have a single ledger.
    let verifier = EvmVerifier::connect([env::var("X402_RPC_URL")?]).await?;
    let ledger = SqliteLedger::open("ledger.db").await?;
    let keys = SealingKeys::from_env("X402_KEY")?;
    let market = market(&tenants, |recipient| {
        Merchant::builder(recipient).verifier(verifier.clone()).ledger(ledger.clone()).sealing_keys(keys.clone())
    });
    let listener = TcpListener::bind("127.0.0.1:4020").await?;
    Ok(axum::serve(listener, market.await?).await?)
}

/// A seller in this market.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    name: String,
    recipient: Address,
    /// For instance `0.10 USDC`.
    price: String,
}

impl FromStr for Tenant {
    type Err = Box<dyn Error>;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(':')?)));
        let (name, (recipient, price)) = parts.ok_or("a tenant is name=recipient:price")?;
        Ok(Self { name: name.to_owned(), recipient: recipient.parse()?, price: format!("{price} USDC") })
    }
}

/// Returns the shops of all tenants, each below its name.
///
/// A recipient belongs to a merchant, so every tenant has a merchant. The realm is the tenant's name: no tenant
/// honours another one's quote, even if both share a recipient.
pub(crate) async fn market(
    tenants: &[Tenant],
    builder: impl Fn(Address) -> MerchantBuilder,
) -> Result<Router, BuildError> {
    let mut market = Router::new();
    for tenant in tenants {
        let merchant = builder(tenant.recipient).realm(&tenant.name).build().await?;
        let paid = merchant.charge("answer", &*tenant.price)?.label(&format!("An answer of {}", tenant.name))?;
        let name = tenant.name.clone();
        let answer = async move |receipt: Receipt| format!("{name} answers {}.\n", receipt.payer());
        // The layer is inside `nest`: unknown paths of a tenant get a 404, which is not sold.
        let shop = Router::new().route("/answer", post(answer).route_layer(paid));
        market = market.nest(&format!("/{}", tenant.name), shop);
    }
    Ok(market)
}
