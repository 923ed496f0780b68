//! From flags to a running server.

use std::{env, ffi::OsString, fmt::Display, fs, io, path::Path, process::ExitCode, sync::Arc};

use tower_x402::{
    ConfigError, Merchant,
    ledger::MemoryLedger,
    protocol::{Address, Network, SealingKeys},
    verify::{VerifyError, VerifyErrorKind, evm::EvmVerifier},
};

use super::{
    Service,
    args::{Args, Ending, LedgerArg},
    data::{self, Data},
    dev::Dev,
    generate, router, serve,
};

/// Why the program ends early: a sentence and an exit code.
#[derive(Debug)]
pub(crate) struct Failure(u8, String);

impl Failure {
    /// The flags ask for what cannot be.
    fn flags(reason: impl Display) -> Self {
        Self(2, reason.to_string())
    }

    /// The flags are fine, the world is not.
    fn world(reason: impl Display) -> Self {
        Self(1, reason.to_string())
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
        Err(Failure(code, reason)) => {
            eprintln!("error: {reason}");
            ExitCode::from(code)
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
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).try_init();
}

async fn sell(mut args: Args) -> Result<(), Failure> {
    let data = Data::load(args.data.as_deref().unwrap_or(&data::default_dir())).map_err(Failure::flags)?;
    let service = Service::new(data).await.map_err(Failure::world)?;
    let keys = sealing_keys(args.sealing_key.as_deref())?;
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
    args.rpc_url = vec![dev.rpc_url().to_owned()];
    args.recipient = Some(dev.recipient());
    Ok(dev)
}

/// Who is paid, how that is verified, and where it is recorded.
async fn merchant(args: &Args, keys: SealingKeys) -> Result<Merchant, Failure> {
    let network = Network::eip155(args.chain_id.unwrap_or(Network::BASE.chain_id()));
    let verifier = EvmVerifier::builder().endpoints(&args.rpc_url).finality(args.finality);
    let verifier = verifier.connect().await.map_err(chain)?;
    let mut assets = Vec::new();
    for contract in &args.token {
        assets.push(verifier.asset(*contract).await.map_err(chain)?);
    }
    let LedgerArg::Memory = args.ledger;
    let mut builder = Merchant::builder(args.recipient.unwrap_or(Address::ZERO))
        .network(network)
        .verifier(verifier)
        .ledger(MemoryLedger::new())
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

/// The key in hexadecimal, or in a file; else one that lives with the process.
fn sealing_keys(given: Option<&str>) -> Result<SealingKeys, Failure> {
    let Some(given) = given else {
        return SealingKeys::random().map_err(Failure::world);
    };
    if let Ok(keys) = SealingKeys::parse(given) {
        return Ok(keys);
    }
    // What was given may be a mistyped key, so it is not repeated.
    let read = fs::read_to_string(Path::new(given));
    let text = read.map_err(|_| Failure::flags("--sealing-key is neither 64 hexadecimal digits nor a file to read"))?;
    SealingKeys::parse(text.trim()).map_err(|error| Failure::flags(format!("the file of --sealing-key: {error}")))
}
