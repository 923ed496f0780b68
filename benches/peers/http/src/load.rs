//! 402s and redemptions under load, beside the same route without a paywall.

use std::error::Error;

use crate::{
    server::Server,
    wrk::{Outcome, Wrk},
};

const CONNECTIONS: [u32; 3] = [1, 32, 256];
const ROUNDS: usize = 5;
const SECONDS: u32 = 2;
/// More than one thread redeems in that time.
const PROOFS: usize = 200_000;

/// Ours, then its twins.
const ROUTES: [&str; 3] = ["paywall", "bytes", "json"];

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let wrk = Wrk::new(folder.path())?;
    let proofs = folder.path().join("proofs");
    println!("| Under load | Connections | tower-x402 | to `Bytes` | to `Json` | p99 | to `Bytes` | to `Json` |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for paid in [false, true] {
        for connections in CONNECTIONS {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                let mut round = Vec::new();
                // New processes each time: none has sold anything before, and each has the luck of its own layout in memory.
                let mut servers = ROUTES.map(Server::start).into_iter().collect::<Result<Vec<_>, _>>()?;
                if paid {
                    servers[0].pay(PROOFS, &proofs)?;
                }
                for (server, route) in servers.iter().zip(ROUTES) {
                    let outcome = wrk.ask(&server.url, connections, SECONDS, paid.then_some(&proofs))?;
                    let bills = if paid || route != "paywall" { 0 } else { outcome.requests };
                    if outcome.refused != bills {
                        return Err(format!("{route}: {} of {} refused", outcome.refused, outcome.requests).into());
                    }
                    round.push(outcome);
                }
                rounds.push(round);
            }
            print(if paid { "redemption" } else { "402" }, connections, &rounds);
        }
    }
    Ok(())
}

fn print(what: &str, connections: u32, rounds: &[Vec<Outcome>]) {
    let of = |figure: fn(&Outcome) -> f64, twin: Option<usize>| {
        median(rounds.iter().map(|round| figure(&round[0]) / twin.map_or(1.0, |twin| figure(&round[twin]))))
    };
    let (rate, p99) = (|o: &Outcome| o.per_second, |o: &Outcome| o.p99_microseconds);
    println!(
        "| {what} | {connections} | {:.0}/s | {:.2} | {:.2} | {:.0} µs | {:.2} | {:.2} |",
        of(rate, None),
        of(rate, Some(1)),
        of(rate, Some(2)),
        of(p99, None),
        of(p99, Some(1)),
        of(p99, Some(2)),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
