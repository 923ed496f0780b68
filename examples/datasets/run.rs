//! From flags to a running server.

use std::{env, ffi::OsString, fmt::Display, io, process::ExitCode, sync::Arc};

use tower_x402::{
    ConfigError, Merchant,
    protocol::{Address, Network, SealingKeys},
    verify::{VerifyError, VerifyErrorKind, evm::EvmVerifier},
};
use tracing_subscriber::EnvFilter;

use super::{
    Service,
    args::{Args, Ending},
    data::{self, Data},
    dev::Dev,
    generate, keys, router, serve,
};

/// Why the program ends early: a sentence and an exit code.
#[derive(Debug)]
pub(crate) struct Failure(u8, String);

impl Failure {
    /// The flags ask for what cannot be.
    pub(crate) fn flags(reason: impl Display) -> Self {
        Self(2, reason.to_string())
    }

    /// The flags are fine, the world is not.
    pub(crate) fn world(reason: impl Display) -> Self {
        Self(1, reason.to_string())
    }

    /// With what the program exits.
    pub(crate) fn code(&self) -> u8 {
        self.0
    }
}

/// The program.
pub(crate) async fn main() -> ExitCode {
    ending(run(env::args_os()).await)
}

/// Says why it ended, and with which code.
pub(crate) fn ending(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.1);
            ExitCode::from(failure.code())
        }
    }
}

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// What to say, and the exit code.
pub(crate) async fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let args = match Args::read(args) {
        Ok(args) => args,
        Err(Ending::Help(text)) => {
            print!("{text}");
            return Ok(());
        }
        Err(Ending::Wrong(reason)) => return Err(Failure::flags(reason)),
    };
    if let Some(dir) = &args.generate {
        return generate::write(dir)
            .map_err(|error| Failure::world(format!("cannot write {}: {error}", dir.display())));
    }
    log();
    sell(args).await
}

/// `RUST_LOG` decides what is logged; warnings without it.
fn log() {
    let mut filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    // It would quote from a URL.
    if let Ok(silent) = "sqlx_postgres::options=off".parse() {
        filter = filter.add_directive(silent);
    }
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
}

async fn sell(mut args: Args) -> Result<(), Failure> {
    let data = Data::load(args.data.as_deref().unwrap_or(&data::default_dir())).map_err(Failure::flags)?;
    let service = Service::new(data).await.map_err(Failure::world)?;
    let keys = args.sealing_key.as_deref().map(keys::given).transpose()?;
    let listener = serve::listen(args.listen).await.map_err(Failure::world)?;
    let base = format!("http://{}", listener.local_addr().map_err(Failure::world)?);

    let dev = if args.dev { Some(local_chain(&mut args).await?) } else { None };
    let merchant = merchant(&args, keys).await?;
    let app = router(Arc::new(service), &merchant, &args.price).map_err(|error| match error {
        ConfigError::BadPrice { decimals } => {
            Failure::flags(format!("--price is a positive number such as 0.49, with at most {decimals} decimals"))
        }
        other => Failure::flags(other),
    })?;

    let show = async {
        if let Some(dev) = &dev {
            dev.show(&base, &args.price, args.buy).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        served = serve::serve(listener, app.layer(serve::cors())) => served.map_err(Failure::world),
        () = show => Ok(()),
    }
}

async fn local_chain(args: &mut Args) -> Result<Dev, Failure> {
    eprintln!("starting a local chain; the first time, npm brings it");
    let dev = Dev::start().await.map_err(Failure::world)?;
    args.rpc_url = vec![dev.rpc_url().to_owned().into()];
    args.recipient = Some(dev.recipient());
    Ok(dev)
}

/// Who is paid, how that is verified, and where it is recorded.
async fn merchant(args: &Args, keys: Option<SealingKeys>) -> Result<Merchant, Failure> {
    let network = Network::eip155(args.chain_id.unwrap_or(Network::BASE.chain_id()));
    let verifier = EvmVerifier::builder().endpoints(&args.rpc_url).finality(args.finality);
    let verifier = verifier.connect().await.map_err(chain)?;
    let mut assets = Vec::new();
    for contract in &args.token {
        assets.push(verifier.asset(*contract).await.map_err(chain)?);
    }
    let ledger = args.ledger().map_err(Failure::flags)?;
    let builder = ledger.open(Merchant::builder(args.recipient.unwrap_or(Address::ZERO))).await?;
    let keys = keys.map_or_else(|| keys::made_for(&ledger), Ok)?;
    let mut builder = builder
        .network(network)
        .verifier(verifier)
        .sealing_keys(keys)
        .quote_ttl(args.quote_ttl)
        .quote_grace(args.quote_grace)
        .max_payment_age(args.max_payment_age);
    // Without any, the merchant takes the USDC of the chain.
    for asset in assets {
        builder = builder.asset(asset);
    }
    builder.build().await.map_err(|error| match error {
        ConfigError::Verifier(error) => chain(error),
        ConfigError::Ledger(error) => Failure::world(error),
        ConfigError::NoAsset { network } => {
            Failure::flags(format!("no USDC is known on {network}: name a token with --token 0x…"))
        }
        ConfigError::BadDuration { what, min, max } => {
            Failure::flags(format!("--{} must be between {min:?} and {max:?}", what.replace('_', "-")))
        }
        other => Failure::flags(other),
    })
}

/// A chain that cannot be reached is not the fault of the flags; one that is not what they say is.
fn chain(error: VerifyError) -> Failure {
    match error.kind() {
        VerifyErrorKind::Unavailable => Failure::world(error),
        _ => Failure::flags(error),
    }
}
