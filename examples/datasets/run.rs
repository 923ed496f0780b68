//! From flags to a running server.

use std::{env, ffi::OsString, process::ExitCode, sync::Arc};

use hyper_util::service::TowerToHyperService;
use tower_x402::{BuildError, Merchant, Redelivery};

pub(crate) use super::failure::{Failure, ending};
use super::{
    Service,
    args::{Args, Command, Ending, LedgerCommand},
    book,
    cors::cors,
    counted,
    data::Data,
    dev::Dev,
    generate, keys,
    ledger::LedgerArg,
    log::TARGET,
    merchant::merchant,
    on_network::OnNetwork,
    raise_mark::raise_mark,
    replay::replay,
    router, serve, settler, units,
};

/// Runs the program.
pub(crate) async fn main() -> ExitCode {
    ending(run(env::args_os()).await)
}

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// Fails with an exit code and its reason.
pub(crate) async fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let args = match Args::read(args) {
        Ok(args) => args,
        Err(Ending::Help(text)) => {
            print!("{text}");
            return Ok(());
        }
        Err(Ending::Wrong(reason)) => return Err(Failure::usage(reason)),
    };
    if let Some(dir) = &args.generate {
        return generate::write(dir)
            .map_err(|error| Failure::environment(format!("cannot write {}: {error}", dir.display())));
    }
    args.log.start();
    let log = args.log;
    let ended = match args.command {
        Some(Command::Ledger(LedgerCommand::RaiseMark { to })) => raise_mark(&args, to).await,
        Some(Command::Ledger(LedgerCommand::Replay(ref asked))) => replay(&args, asked).await,
        Some(Command::Sales(ref asked)) => book::sales(&args, asked).await,
        Some(Command::Refund(ref given)) => book::refund(&args, given).await,
        Some(Command::Unredeemed(ref span)) => book::unredeemed(&args, span).await,
        None => sell(args).await,
    };
    ended.map_err(|failure| failure.with_log(log))
}

async fn sell(mut args: Args) -> Result<(), Failure> {
    let data = args.data.as_deref().map_or_else(Data::example, Data::load).map_err(Failure::usage)?;
    let service = Service::new(data).await.map_err(Failure::environment)?;
    let keys = args.sealing_key.as_deref().map(keys::given).transpose()?;
    let listener = serve::listen(args.listen).await.map_err(Failure::environment)?;
    let base = format!("http://{}", listener.local_addr().map_err(Failure::environment)?);

    if let Some(address) = args.metrics {
        counted::start(address).await?;
    }
    let dev = if args.dev { Some(local_chain(&mut args).await?) } else { None };
    let merchant = merchant(&args, keys).await?;
    let kept = Redelivery::lasting(args.redeliver);
    let app = router(Arc::new(service), &merchant, args.price(), kept, args.pass.as_ref());
    let app = app.map_err(|error| match error {
        BuildError::InvalidPrice { decimals } => {
            Failure::usage(format!("a price is a positive number such as 0.49, with at most {decimals} decimals"))
        }
        other => Failure::usage(other),
    })?;
    let app = app.layer(cors());
    announce(&args, &merchant);

    let patience = serve::Patience { head: args.head_timeout, ending: args.shutdown_timeout };
    let show = async {
        if let Some(dev) = &dev {
            dev.show(&base, args.price(), args.buy).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        served = serve::serve(listener, |_| TowerToHyperService::new(app.clone()), patience) => served.map_err(Failure::environment),
        () = show => Ok(()),
    }
}

/// Logs the effective settings, so that a wrong recipient is noticed before anybody pays it.
fn announce(args: &Args, merchant: &Merchant) {
    let ledger = args.ledger().map_or_else(str::to_owned, |ledger| ledger.name());
    let tokens: Vec<_> =
        merchant.assets().iter().map(|asset| format!("{} {}", asset.symbol(), asset.contract())).collect();
    let chains: Vec<_> = merchant.networks().map(|network| network.to_string()).collect();
    tracing::info!(
        target: TARGET,
        recipient = %merchant.recipient(),
        chains = chains.join(", "),
        tokens = tokens.join(", "),
        price = args.price(),
        ledger,
        finality = units::shown(args.finality),
        unbound = unbound(args),
        redelivery = if args.redeliver.is_zero() { "off".to_owned() } else { units::time(args.redeliver) },
        signed = settler::shown(args),
        endpoints = args.rpc_url.len(),
        "selling"
    );
    if !args.dev && args.ledger() == Ok(LedgerArg::Memory) {
        tracing::warn!(target: TARGET, "--ledger memory: after a restart, payments that were made before it are refused");
    }
}

/// Describes how unbound payments are treated.
fn unbound(args: &Args) -> String {
    match (args.require_bound, args.hold_unbound.is_zero()) {
        (true, _) => "refused without a signature".to_owned(),
        (false, true) => "given to the first".to_owned(),
        (false, false) => format!("held for {}", units::time(args.hold_unbound)),
    }
}

async fn local_chain(args: &mut Args) -> Result<Dev, Failure> {
    tracing::info!(target: TARGET, "starting a local chain; the first time, npm brings it");
    let dev = Dev::start().await.map_err(Failure::environment)?;
    args.rpc_url = vec![OnNetwork::first(dev.rpc_url().to_owned().into())];
    args.recipient = Some(dev.recipient());
    if args.facilitator.is_empty() && args.settle_key.is_none() {
        args.settle_key = Some(dev.settle_key().to_owned());
    }
    Ok(dev)
}
