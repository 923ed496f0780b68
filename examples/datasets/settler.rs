//! The settler that the flags describe: who turns signed payments into transfers.

use tower_x402::{
    MerchantBuilder,
    settle::{FacilitatorSettler, SettleError, SettleErrorKind, WalletSettler},
};

use super::{args::Args, run::Failure};

/// Adds the settler to the merchant, if the flags name one.
///
/// # Errors
/// What is wrong with the flags, or with the world.
pub(crate) async fn add(builder: MerchantBuilder, args: &Args) -> Result<MerchantBuilder, Failure> {
    if !args.facilitator.is_empty() {
        let urls = args.facilitator.iter().fold(FacilitatorSettler::builder(), |all, url| all.url(&**url));
        let facilitator = urls
            .build()
            .map_err(|_| Failure::flags("--facilitator is the https URL of a facilitator, or http on this machine"))?;
        return Ok(builder.settler(facilitator));
    }
    let Some(file) = &args.settle_key else { return Ok(builder) };
    let wallet = WalletSettler::builder().key_file(file).endpoints(args.rpc_url.iter().map(|url| url.to_string()));
    let wallet = match args.start_without_rpc {
        true => wallet.connect_lazily(args.network()),
        false => wallet.connect().await,
    };
    wallet.map(|wallet| builder.settler(wallet)).map_err(|error| failed(&error))
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
