//! The merchant that the flags describe: who is paid, how payments are verified, and where they are recorded.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower_x402::{
    BuildError, Chain, HealthError, Merchant, MerchantBuilder,
    protocol::{Address, Asset, Network, SealingKeys},
    verify::{EvmVerifier, EvmVerifierBuilder, Verifier as _, VerifyError, VerifyErrorKind},
};

use super::{args::Args, keys, log::TARGET, on_network::OnNetwork, run::Failure, secret::Secret, settler};

/// How long to wait before asking a node again that is down.
const AGAIN: Duration = Duration::from_secs(1);

/// Builds the merchant.
///
/// # Errors
/// Fails on wrong flags and on errors of the backends.
pub(crate) async fn merchant(args: &Args, keys: Option<SealingKeys>) -> Result<Merchant, Failure> {
    let verifier = verifier(args, args.network()).await?;
    let ledger = args.ledger().map_err(Failure::usage)?;
    let keys = keys.map_or_else(|| keys::made_for(&ledger), Ok)?;
    let mut builder = Merchant::builder(args.recipient.unwrap_or(Address::ZERO))
        .ledger(ledger.open(args.keep_book).await?)
        .network(args.network())
        .verifier(verifier.clone())
        .sealing_keys(keys)
        .quote_ttl(args.quote_ttl)
        .quote_grace(args.quote_grace)
        .max_payment_age(args.max_payment_age)
        .hold_unbound(args.hold_unbound);
    builder = tokens(builder, args, &verifier).await?;
    for network in args.networks().skip(1) {
        builder = builder.chain(chain_of(args, network).await?);
    }
    if args.require_bound {
        builder = builder.require_bound();
    }
    if args.client_submitted {
        builder = builder.accept_submitted_transfers();
    }
    if let Some(url) = &args.public_url {
        builder = builder.public_url(url);
    }
    if let Some(realm) = mpp_realm(args)? {
        builder = builder.mpp(realm);
    }
    if let Some(setting) = args.payment_identifier {
        builder = builder.payment_identifier(setting);
    }
    if let Some(contact) = &args.contact {
        builder = builder.contact(contact);
    }
    if args.start_without_rpc {
        builder = builder.start_lazily();
    }
    let builder = settler::add(builder, args, args.network()).await?;
    builder.build().await.map_err(|error| match error {
        BuildError::Health(HealthError::Verifier(error)) => chain(error),
        BuildError::Health(HealthError::Ledger(error)) => Failure::environment(error),
        BuildError::Health(error) => Failure::environment(error),
        BuildError::NoAsset { network } => {
            Failure::usage(format!("no USDC is known on {network}: name a token with --token 0x…"))
        }
        BuildError::InvalidDuration { what, min, max } => {
            Failure::usage(format!("--{} must be between {min:?} and {max:?}", what.replace('_', "-")))
        }
        BuildError::OutOfRange { what: "public_url" } => Failure::usage(
            "--public-url is an http or https URL such as https://shop.example, without query and fragment",
        ),
        other => Failure::usage(other),
    })
}

/// Returns the realm of MPP, which is offered if there is a public host, or if the flags ask for it.
fn mpp_realm(args: &Args) -> Result<Option<String>, Failure> {
    let host = || {
        let (_, rest) = args.public_url.as_deref()?.split_once("://")?;
        rest.split('/').next().filter(|host| !host.is_empty()).map(str::to_owned)
    };
    match args.mpp.as_deref() {
        Some("") => host().map(Some).ok_or_else(|| {
            Failure::usage("--mpp needs a realm, such as --mpp shop.example, or the host of --public-url")
        }),
        Some(realm) => Ok(Some(realm.to_owned())),
        // A host that is too long for a realm does not prevent selling.
        None => Ok(host().filter(|host| host.len() <= 64)),
    }
}

/// Adds former recipients, and current and former tokens.
///
/// # Errors
/// Fails if a token is wrong.
pub(crate) async fn tokens(
    mut builder: MerchantBuilder,
    args: &Args,
    verifier: &EvmVerifier,
) -> Result<MerchantBuilder, Failure> {
    // Without any token, the merchant accepts the chain's USDC.
    for asset in stated(verifier, args.on(args.network(), &args.token)).await? {
        builder = builder.asset(asset);
    }
    for asset in stated(verifier, args.on(args.network(), &args.former_token)).await? {
        builder = builder.former_asset(asset);
    }
    Ok(args.former_recipient.iter().fold(builder, |builder, recipient| builder.former_recipient(*recipient)))
}

/// Returns one of the further networks.
async fn chain_of(args: &Args, network: Network) -> Result<Chain, Failure> {
    let verifier = verifier(args, network).await?;
    let mut chain = Chain::new(network);
    for asset in stated(&verifier, args.on(network, &args.token)).await? {
        chain = chain.asset(asset);
    }
    for asset in stated(&verifier, args.on(network, &args.former_token)).await? {
        chain = chain.former_asset(asset);
    }
    settler::add(chain.verifier(verifier), args, network).await
}

/// # Errors
/// Fails if the endpoints are wrong.
pub(crate) async fn verifier(args: &Args, network: Network) -> Result<EvmVerifier, Failure> {
    let builder = EvmVerifier::builder()
        .endpoints(args.endpoints(network))
        .finality(args.finality)
        .max_head_age(args.max_head_age.0);
    if args.start_without_rpc {
        return builder.connect_lazily(network).map_err(chain);
    }
    connect(builder, args.wait_for_rpc).await
}

/// Connects to the chain, and waits up to `patience` for one that does not answer yet.
///
/// # Errors
/// Fails if the endpoints are wrong.
pub(crate) async fn connect(builder: EvmVerifierBuilder, patience: Duration) -> Result<EvmVerifier, Failure> {
    let deadline = Instant::now() + patience;
    let mut waiting = false;
    loop {
        match connected(builder.clone()).await {
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                if !waiting {
                    tracing::warn!(target: TARGET, %error, "waiting for the chain");
                    waiting = true;
                }
                sleep(AGAIN).await;
            }
            outcome => return outcome.map_err(chain),
        }
    }
}

/// Connects and reads the head: a node that answers may still be far behind.
async fn connected(builder: EvmVerifierBuilder) -> Result<EvmVerifier, VerifyError> {
    let verifier = builder.connect().await?;
    verifier.head().await?;
    Ok(verifier)
}

async fn stated(verifier: &EvmVerifier, contracts: impl Iterator<Item = &Address>) -> Result<Vec<Asset>, Failure> {
    let mut assets = Vec::new();
    for contract in contracts {
        assets.push(verifier.asset(*contract).await.map_err(chain)?);
    }
    Ok(assets)
}

/// Classifies the failure: the flags are not at fault if the chain cannot be reached, but they are if it differs from
/// them.
pub(crate) fn chain(error: VerifyError) -> Failure {
    match error.kind() {
        VerifyErrorKind::Unavailable => Failure::environment(error),
        _ => Failure::usage(error),
    }
}

impl Args {
    /// Returns the first payment chain.
    pub(crate) fn network(&self) -> Network {
        self.network.first().map_or(Network::BASE, |id| Network::eip155(*id))
    }

    /// Returns all payment chains.
    pub(crate) fn networks(&self) -> impl Iterator<Item = Network> {
        let others = self.network.iter().skip(1).map(|id| Network::eip155(*id));
        std::iter::once(self.network()).chain(others)
    }

    /// Returns the values for one of the chains.
    pub(crate) fn on<'a, T>(&self, network: Network, values: &'a [OnNetwork<T>]) -> impl Iterator<Item = &'a T> {
        let first = self.network();
        values.iter().filter(move |one| one.network.unwrap_or(first) == network).map(|one| &one.value)
    }

    /// Returns the endpoints of one of the chains.
    pub(crate) fn endpoints(&self, network: Network) -> impl Iterator<Item = &Secret> {
        self.on(network, &self.rpc_url)
    }
}
