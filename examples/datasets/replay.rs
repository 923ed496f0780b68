//! `datasets ledger replay`: records again the sales that the server's log has but a restored backup lacks.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
};

use clap::Args as Flags;
use tower_x402::{LoggedSale, RestoredSales, ledger::UtcDay, protocol::PaymentId};

use super::{
    args::Args,
    asked::{Asked, unhealthy},
    book::chain_time,
    run::Failure,
};

/// The sales to record.
#[derive(Clone, Debug, Flags)]
pub(crate) struct Replay {
    /// Day of the backup, in UTC, or an earlier one: payments are searched from then on
    #[arg(long, value_name = "DAY")]
    since: UtcDay,
    /// The log, as text or JSON; without it, the standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Records the sales.
///
/// # Errors
/// Fails on wrong flags and on errors of the log, the chain or the ledger. Also fails if sales were not
/// recorded that could be sold again.
pub(crate) async fn replay(args: &Args, asked: &Replay) -> Result<(), Failure> {
    let sales = match &asked.file {
        Some(path) => File::open(path).and_then(|log| sales(BufReader::new(log))),
        None => sales(io::stdin().lock()),
    };
    let sales = sales.map_err(|error| Failure::usage(format!("cannot read the log: {}", error.kind())))?;
    if sales.is_empty() {
        return Err(Failure::environment(
            "the log has no sale: it must have been written with RUST_LOG=tower_x402=info or without RUST_LOG",
        ));
    }
    let Asked { merchant, verifier, .. } = Asked::of(args).await?;
    if let Some(offer) = &args.pass {
        // The pass's accounts are opened again with its sales.
        let sold = offer.pass(&merchant).and_then(|pass| pass.service());
        sold.map_err(Failure::usage)?;
    }
    let restored = merchant.restore_sales(&verifier, &sales, chain_time(asked.since.start())).await;
    let RestoredSales { recorded, known, below_mark, not_found, held, .. } = restored.map_err(unhealthy)?;
    println!("{recorded} sales are recorded now, and {known} were on record.");
    tell("mined below the mark, and refused in any case", &below_mark);
    tell(
        "not on the chain since that day: name an earlier --since, and the server's recipients and tokens",
        &not_found,
    );
    tell("held by a lease of the backup: replay again in a minute", &held);
    match not_found.len() + held.len() {
        0 => Ok(()),
        left => Err(Failure::environment(format!(
            "{left} sales are not recorded: do not raise the mark or start the server yet"
        ))),
    }
}

fn tell(why: &str, payments: &[PaymentId]) {
    for payment in payments {
        println!("{payment}: {why}");
    }
}

/// Returns the sales among the lines of a log. Other lines are ignored, even if they are not UTF-8.
fn sales(log: impl BufRead) -> io::Result<Vec<LoggedSale>> {
    let lines = log.split(b'\n').map(|line| Ok(LoggedSale::from_line(String::from_utf8_lossy(&line?).trim_end())));
    lines.filter_map(Result::transpose).collect()
}
