//! The settler that the flags describe: who turns signed payments into transfers.

use tower_x402::{
    Chain, MerchantBuilder,
    protocol::Network,
    settle::{FacilitatorSettler, SettleError, SettleErrorKind, Settler, WalletSettler},
};

use super::{args::Args, run::Failure};

/// What a settler is added to.
pub(crate) trait TakesSettler {
    /// Adds it.
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
/// What is wrong with the flags, or with the world.
pub(crate) async fn add<T: TakesSettler>(to: T, args: &Args, network: Network) -> Result<T, Failure> {
    if !args.facilitator.is_empty() {
        let urls = args.facilitator.iter().fold(FacilitatorSettler::builder(), |all, url| all.url(&**url));
        let facilitator = urls
            .build()
            .map_err(|_| Failure::flags("--facilitator is the https URL of a facilitator, or http on this machine"))?;
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

/// A key that cannot be used is the fault of the flags; a node that does not answer is not.
fn failed(error: &SettleError) -> Failure {
    match error.kind() {
        SettleErrorKind::InvalidKey => {
            Failure::flags("--settle-key is a file with a private key: 0x and 64 hexadecimal digits")
        }
        _ if error.is_transient() => Failure::world(error),
        _ => Failure::flags(error),
    }
}

/// How signed payments are settled, in a few words.
pub(crate) fn shown(args: &Args) -> &'static str {
    match (args.facilitator.is_empty(), &args.settle_key) {
        (false, _) => "by a facilitator",
        (true, Some(_)) => "by our own key",
        (true, None) => "not taken",
    }
}
