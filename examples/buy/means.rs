//! Assembles the payer, its limits and its journal.

use std::time::Duration;

use tower_x402::{
    client::{Budget, FileJournal, MemoryJournal, PayLayer, PayLayerBuilder, ProofIn, WalletErrorKind, WalletPayer},
    protocol::{Asset, Network},
};

use super::{
    BoxError,
    args::{Means, PayerKey, Reading},
    dialect::Only,
    key::Key,
    keystore,
    order::Order,
};

/// A publicly known key: a wallet needs a key even if it only reads.
const NOBODY: &str = "0x0000000000000000000000000000000000000000000000000000000000000001";

/// Returns a layer that pays. It refuses orders that would reveal the key to the seller.
pub(crate) async fn layer<'a>(
    means: &Means,
    journal: FileJournal,
    orders: impl IntoIterator<Item = &'a Order>,
) -> Result<PayLayerBuilder, BoxError> {
    let wallet = wallet(&means.payer, &means.rpc_url, orders).await?;
    let networks: Vec<Network> = wallet.networks().collect();
    let budget = budget(means, &networks)?;
    let (dialect, payer) = (means.dialect, Only { dialect: means.dialect, wallet });
    // A purchase is closed only once its answer is written.
    let layer = PayLayer::builder(payer, budget, journal).acknowledged_by_caller();
    Ok(layer.prefer(dialect.preferred()).standards(dialect.standards()))
}

/// Returns the wallet on the chains of these nodes. It refuses orders that would reveal the key to the seller.
pub(crate) async fn wallet<'a>(
    payer: &PayerKey,
    rpc_url: &[String],
    orders: impl IntoIterator<Item = &'a Order>,
) -> Result<WalletPayer, BoxError> {
    let key = match &payer.keystore {
        Some(file) => Key::of(&keystore::open(file.clone(), payer.password_file.as_deref()).await?),
        None => Key::read(payer.key_file.as_deref())?,
    };
    orders.into_iter().flat_map(Order::texts).try_for_each(|text| key.is_not_in(text))?;
    connected(key.digits(), rpc_url).await
}

/// Returns a layer that reads the chains of these nodes; its account holds nothing.
pub(crate) async fn reader(rpc_url: &[String]) -> Result<PayLayerBuilder, BoxError> {
    let wallet = connected(NOBODY, rpc_url).await?;
    let assets = wallet.networks().filter_map(Asset::usdc_of).collect::<Vec<_>>();
    let assets = if assets.is_empty() { vec![Asset::USDC_BASE] } else { assets };
    let nothing = Budget::in_assets(assets).per_payment("0").per_day("0").build()?;
    Ok(PayLayer::builder(wallet, nothing, MemoryJournal::new()))
}

async fn connected(key: &str, rpc_url: &[String]) -> Result<WalletPayer, BoxError> {
    let wallet = |urls: Vec<&str>| WalletPayer::builder().key(key).endpoints(urls).connect();
    let mut wallets: Vec<(WalletPayer, Vec<&str>)> = Vec::new();
    let mut silent: Vec<&str> = Vec::new();
    for url in rpc_url {
        let one = match wallet(vec![url]).await {
            Ok(one) => one,
            Err(error) if error.kind() == WalletErrorKind::Node && rpc_url.len() > 1 => {
                silent.push(url);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match wallets.iter_mut().find(|(other, _)| other.network() == one.network()) {
            Some((all, urls)) => {
                urls.push(url);
                *all = wallet(urls.clone()).await?;
            }
            None => wallets.push((one, vec![url])),
        }
    }
    // A silent node may serve the only known chain: it counts where nodes must agree, and is asked once it answers.
    match &mut wallets[..] {
        [] if !silent.is_empty() => return Err(format!("none of {} endpoints answers", silent.len()).into()),
        [(all, urls)] if !silent.is_empty() => {
            eprintln!("{} of {} endpoints do not answer now", silent.len(), rpc_url.len());
            urls.extend(&silent);
            *all = wallet(urls.clone()).await?;
        }
        _ if !silent.is_empty() => {
            eprintln!("{} of {} endpoints do not answer, and are left out", silent.len(), rpc_url.len());
        }
        _ => {}
    }
    let joined = wallets.into_iter().map(|(wallet, _)| Ok(wallet)).reduce(|all, other| Ok(all?.and(other?)?));
    joined.ok_or("name a JSON-RPC endpoint with --rpc-url or X402_RPC_URL")?
}

fn budget(means: &Means, networks: &[Network]) -> Result<Budget, BoxError> {
    let assets: Vec<Asset> = match (&means.tokens[..], networks) {
        ([], _) => networks.iter().filter_map(|network| Asset::usdc_of(*network)).collect(),
        (tokens, [network]) => tokens.iter().map(|token| Asset::new(*network, *token, 6, "token")).collect(),
        _ => {
            return Err(
                "--token needs the endpoints of one chain: a contract's address says nothing about another".into()
            );
        }
    };
    let budget = Budget::in_assets(assets).per_payment(&means.max).per_day(&means.max_per_day);
    let budget = budget.gas_per_payment(&means.max_gas).gas_per_day(&means.max_gas_per_day);
    let budget = means.max_deposit.iter().fold(budget, tower_x402::client::BudgetBuilder::per_deposit);
    let budget = budget.longest_withdraw_delay(Duration::from_secs(3_600 * u64::from(means.max_withdraw_delay)));
    Ok(if means.allow_plain_http { budget.allow_plain_http() } else { budget }.build()?)
}

impl Reading {
    /// Returns where the proof of a transfer travels.
    pub(crate) const fn proof_in(&self) -> ProofIn {
        if self.header_redeem { ProofIn::Header } else { ProofIn::Body }
    }
}
