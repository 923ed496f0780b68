//! Who pays, within what, and where that is written down.

use tower_x402::{
    client::{Budget, FileJournal, PayLayer, PayLayerBuilder, ProofIn, WalletPayer},
    protocol::{Asset, Network},
};

use super::{
    BoxError,
    args::{Means, Reading},
    dialect::Only,
    key::Key,
    keystore,
    order::Order,
};

/// A layer that pays; none of these requests is to tell the seller the key.
pub(crate) async fn layer<'a>(
    means: &Means,
    journal: FileJournal,
    orders: impl IntoIterator<Item = &'a Order>,
) -> Result<PayLayerBuilder, BoxError> {
    let wallet = wallet(means, orders).await?;
    let budget = budget(means, wallet.network())?;
    let payer = Only { dialect: means.dialect, wallet };
    // An answer is bought once it is written, and not before.
    Ok(PayLayer::builder(payer, budget, journal).prefer(means.dialect.preferred()).acknowledged_by_caller())
}

async fn wallet<'a>(means: &Means, orders: impl IntoIterator<Item = &'a Order>) -> Result<WalletPayer, BoxError> {
    let (builder, key) = match &means.keystore {
        Some(file) => {
            let signer = keystore::open(file.clone(), means.password_file.as_deref()).await?;
            let key = Key::of(&signer);
            (WalletPayer::builder().signer(signer), key)
        }
        None => {
            let key = Key::read(means.key_file.as_deref())?;
            (WalletPayer::builder().key(key.digits()), key)
        }
    };
    orders.into_iter().flat_map(Order::texts).try_for_each(|text| key.is_not_in(text))?;
    let rpc_url = means.rpc_url.as_deref().ok_or("name a JSON-RPC endpoint with --rpc-url or X402_RPC_URL")?;
    Ok(builder.endpoint(rpc_url).connect().await?)
}

fn budget(means: &Means, network: Network) -> Result<Budget, BoxError> {
    let assets: Vec<Asset> = if means.tokens.is_empty() {
        Asset::usdc_of(network).into_iter().collect()
    } else {
        means.tokens.iter().map(|token| Asset::new(network, *token, 6, "token")).collect()
    };
    let budget = Budget::in_assets(assets).per_payment(&means.max).per_day(&means.max_per_day);
    let budget = budget.gas_per_payment(&means.max_gas).gas_per_day(&means.max_gas_per_day);
    Ok(if means.allow_plain_http { budget.allow_plain_http() } else { budget }.build()?)
}

impl Reading {
    /// Where the proof of a transfer travels.
    pub(crate) const fn proof_in(&self) -> ProofIn {
        if self.header_redeem { ProofIn::Header } else { ProofIn::Body }
    }
}
