//! From the command line to a running gateway.

use std::process::ExitCode;

use clap::Parser as _;

use super::{
    args::{Args, Command},
    book, check, claim, config,
    failure::{Failure, ending},
    init, running, serve,
};

/// Runs the program.
pub(crate) async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let said = error.to_string();
            let said = said.strip_prefix("error: ").unwrap_or(&said);
            let line: Vec<_> = said.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            return ending(Err(Failure::usage(line.join(" "))));
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let log = args.log;
    // `--check` prints only what is wrong.
    if !args.check {
        log.start();
    }
    ending(run(args).await.map_err(|failure| failure.with_log(log)))
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
        Some(Command::Claim) => claim::claim(&config.fixed).await,
        _ if args.check => check::check(&config).await,
        _ => {
            let listener = serve::listen(config.fixed.listen).await.map_err(Failure::environment)?;
            running::sell(args.config, config, listener).await
        }
    }
}

#[cfg(all(feature = "devchain", feature = "reqwest"))]
async fn demo(once: bool) -> Result<(), Failure> {
    super::demo::demo(once).await
}

#[cfg(not(all(feature = "devchain", feature = "reqwest")))]
async fn demo(_: bool) -> Result<(), Failure> {
    Err(Failure::usage("this program was built without its demo: build it with --features gateway,devchain,reqwest"))
}
