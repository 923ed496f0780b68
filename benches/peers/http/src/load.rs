//! 402s and redemptions under load, beside the same route without a paywall.

use std::{error::Error, path::PathBuf};

use crate::{server::Server, wrk::Wrk};

const CONNECTIONS: [u32; 3] = [1, 32, 256];
const ROUNDS: usize = 11;
const SECONDS: u32 = 1;
/// More than one thread can redeem in the time of a run.
const PROOFS: usize = 100_000;

/// The paywall, then the same route without it.
const ROUTES: [&str; 3] = ["paywall", "bytes", "json"];

/// The result of one route in one round.
struct Run {
    rate: f64,
    p99: f64,
    /// Processor time of the server for a request.
    ticks: f64,
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let wrk = Wrk::new(folder.path())?;
    let proofs = folder.path().join("proofs");
    println!(
        "| | Connections | Answers | to `Bytes` | to `Json` | p99 | to `Bytes` | to `Json` | Processor to `Bytes` | to `Json` |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for paid in [false, true] {
        for connections in CONNECTIONS {
            let round = || round(&wrk, connections, paid.then_some(&proofs));
            let rounds = (0..ROUNDS).map(|_| round()).collect::<Result<Vec<_>, _>>()?;
            print(if paid { "redemption" } else { "402" }, connections, &rounds);
        }
    }
    Ok(())
}

/// Measures each route in turn, each in a process of its own: none has sold before, and each has its own memory
/// layout.
fn round(wrk: &Wrk, connections: u32, proofs: Option<&PathBuf>) -> Result<Vec<Run>, Box<dyn Error>> {
    let mut servers = ROUTES.map(Server::start).into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(proofs) = proofs {
        servers[0].pay(PROOFS, proofs)?;
    }
    let mut round = Vec::new();
    for (server, route) in servers.iter().zip(ROUTES) {
        let before = server.ticks()?;
        let outcome = wrk.ask(&server.url, connections, SECONDS, proofs)?;
        let bills = if proofs.is_none() && route == "paywall" { outcome.requests } else { 0 };
        if outcome.refused != bills {
            return Err(format!("{route}: {} of {} refused", outcome.refused, outcome.requests).into());
        }
        let ticks = (server.ticks()? - before) / outcome.requests as f64;
        round.push(Run { rate: outcome.per_second, p99: outcome.p99_microseconds, ticks });
    }
    Ok(round)
}

fn print(what: &str, connections: u32, rounds: &[Vec<Run>]) {
    let ours = |figure: fn(&Run) -> f64| median(rounds.iter().map(|round| figure(&round[0])));
    let ratio = |figure: fn(&Run) -> f64, twin: usize| {
        median(rounds.iter().map(|round| figure(&round[0]) / figure(&round[twin])))
    };
    print!("| {what} | {connections} | {:.0}/s", ours(|run| run.rate));
    print!(" | {:.2} | {:.2}", ratio(|run| run.rate, 1), ratio(|run| run.rate, 2));
    print!(" | {:.0} µs", ours(|run| run.p99));
    print!(" | {:.2} | {:.2}", ratio(|run| run.p99, 1), ratio(|run| run.p99, 2));
    println!(" | {:.2} | {:.2} |", ratio(|run| run.ticks, 1), ratio(|run| run.ticks, 2));
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
