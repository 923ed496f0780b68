//! The settler that the flags describe: it turns signed payments into transfers.

use tower_x402::{
    Chain, MerchantBuilder,
    protocol::Network,
    settle::{FacilitatorSettler, SettleError, SettleErrorKind, Settler, WalletSettler},
};

use super::{args::Args, run::Failure};

/// A builder to which a settler can be added.
pub(crate) trait TakesSettler {
    /// Adds the settler.
    fn with(self, settler: impl Settler) -> Self;
}

impl TakesSettler for MerchantBuilder {
    fn with(self, settler: impl Settler) -> Self {
        self.settler(settler)
    }
}

impl TakesSettler for Chain {
    fn with(self, settler: impl Settler) -> Self {
        self.settler(settler)
    }
}

/// Adds the settler of that network, if the flags name one.
///
/// # Errors
/// Fails on wrong flags and on errors of the backends.
pub(crate) async fn add<T: TakesSettler>(to: T, args: &Args, network: Network) -> Result<T, Failure> {
    if !args.facilitator.is_empty() {
        let urls = args.facilitator.iter().fold(FacilitatorSettler::builder(), |all, url| all.url(&**url));
        let facilitator = urls
            .build()
            .map_err(|_| Failure::usage("--facilitator is the https URL of a facilitator, or http on this machine"))?;
        return Ok(to.with(facilitator));
    }
    let Some(file) = &args.settle_key else { return Ok(to) };
    let wallet = WalletSettler::builder().key_file(file).endpoints(args.endpoints(network).map(|url| url.to_string()));
    let wallet = match args.start_without_rpc {
        true => wallet.connect_lazily(network),
        false => wallet.connect().await,
    };
    wallet.map(|wallet| to.with(wallet)).map_err(|error| failed(&error))
}

/// Classifies the failure: the flags are at fault for an unusable key, but not for a node that does not answer.
fn failed(error: &SettleError) -> Failure {
    match error.kind() {
        SettleErrorKind::InvalidKey => {
            Failure::usage("--settle-key is a file with a private key: 0x and 64 hexadecimal digits")
        }
        _ if error.is_transient() => Failure::environment(error),
        _ => Failure::usage(error),
    }
}

/// Describes how signed payments are settled.
pub(crate) fn shown(args: &Args) -> &'static str {
    match (args.facilitator.is_empty(), &args.settle_key) {
        (false, _) => "by a facilitator",
        (true, Some(_)) => "by our own key",
        (true, None) => "not taken",
    }
}
