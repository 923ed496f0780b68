//! From the command line to a running gateway.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser as _;
use http::Uri;
use tokio::net::TcpListener;

use super::{
    args::{Args, Command},
    backends::Backends,
    book, check,
    config::{self, Config},
    failure::{Failure, ending},
    gateway::{Gateway, Present},
    init, metrics,
    proxy::Proxy,
    reload, serve, shop, status,
};

/// How long the head of a request may take, a connection be idle, and its answers lie unread.
const HEAD: Duration = Duration::from_secs(30);
/// How long requests in flight may take once the program is asked to end: less than 15 seconds with all that follows.
const ENDING: Duration = Duration::from_secs(14);

/// The program.
pub(crate) async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let said = error.to_string();
            let said = said.strip_prefix("error: ").unwrap_or(&said);
            let line: Vec<_> = said.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            return ending(Err(Failure::flags(line.join(" "))));
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let log = args.log;
    // A check says what is wrong, and nothing else.
    if !args.check {
        log.start();
    }
    ending(run(args).await.map_err(|failure| failure.told(log)))
}

async fn run(args: Args) -> Result<(), Failure> {
    match &args.command {
        Some(Command::Init { recipient }) => return init::init(&args.config, *recipient),
        Some(Command::Demo { once }) => return demo(*once).await,
        _ => {}
    }
    let config = config::load(&args.config)?;
    match &args.command {
        Some(Command::Sales(asked)) => book::sales(&config, asked).await,
        Some(Command::Refund(given)) => book::refund(&config, given).await,
        Some(Command::Unredeemed(span)) => book::unredeemed(&config, span).await,
        _ if args.check => check::check(&config).await,
        _ => {
            let listener = serve::listen(config.fixed.listen).await.map_err(Failure::world)?;
            sell(args.config, config, listener).await
        }
    }
}

#[cfg(all(feature = "devchain", feature = "reqwest"))]
async fn demo(once: bool) -> Result<(), Failure> {
    super::demo::demo(once).await
}

#[cfg(not(all(feature = "devchain", feature = "reqwest")))]
async fn demo(_: bool) -> Result<(), Failure> {
    Err(Failure::flags("this program was built without its demo: build it with --features gateway,devchain,reqwest"))
}

/// Sells, until it is asked to end.
///
/// # Errors
/// What is wrong with the configuration, or with the world.
pub(crate) async fn sell(path: PathBuf, config: Config, listener: TcpListener) -> Result<(), Failure> {
    let proxy = proxy(&config)?;
    let status = match config.fixed.status {
        Some(address) => Some(status::Status::listen(address, metrics::recorder()?).await?),
        None => None,
    };
    let hangups = reload::hangups()?;
    let backends = Backends::connect(&config.fixed).await?;
    let generation = shop::open(backends.merchant(&config.fixed)?, &config.shelf, &proxy).await?;
    check::announce(&config);
    let present = Present::new(generation);
    if let Some(status) = status {
        tokio::spawn(status.serve(present.clone()));
    }
    let reloads = reload::Reloads { path, config, backends, proxy: proxy.clone() };
    tokio::spawn(reloads.follow(hangups, present.clone()));

    let patience = serve::Patience { head: HEAD, ending: ENDING };
    let gateway = |peer| Gateway { present: present.clone(), proxy: proxy.clone(), peer };
    serve::serve(listener, gateway, patience).await.map_err(Failure::world)
}

/// The upstream that the configuration names.
///
/// # Errors
/// It cannot be one.
pub(crate) fn proxy(config: &Config) -> Result<Proxy, Failure> {
    let fixed = &config.fixed;
    let public = fixed.public_url.as_deref().and_then(|url| url.parse::<Uri>().ok());
    Proxy::new(fixed.upstream.clone(), public, fixed.timeout)
}
