//! Sales by channels over real HTTP: with vouchers signed beforehand, beside unpaid quotes and sales by `exact`.
//! Clients and seller are one process, so they share its cores.
//!
//! `X402_VOUCHERS=1000000` sells that many vouchers in process instead, claims meanwhile, and checks every unit. A
//! ledger's name as an argument measures that ledger alone.
//!
//! The benchmark starts its own servers, as in `ledger.rs`. SQLite is measured twice: with its file in the folder for
//! temporary files, and in `/dev/shm`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/support/servers.rs"]
mod servers;

#[allow(dead_code, unreachable_pub)]
#[path = "../../tests/kinds/redis_server.rs"]
mod redis_server;

mod load;
mod many;
mod market;

mod support {
    pub(crate) use super::servers;
}

use std::{path::Path, time::Duration};

use load::{Rate, Work, send, serve};
use many::{Fair, sell};
use market::{Market, Payer};
use tower_x402::ledger::AnyLedger;

const CHANNELS: u64 = 64;
const ROUNDS: usize = 3;

/// The number of requests in a round: one at a time, and 64 at once.
#[derive(Clone, Copy)]
struct Size([usize; 2]);

const QUICK: Size = Size([4_000, 16_000]);
const DURABLE: Size = Size([300, 6_400]);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let vouchers = std::env::var("X402_VOUCHERS").ok().map(|number| number.parse().expect("a number of vouchers"));
    match vouchers {
        Some(vouchers) => runtime.block_on(many_vouchers(vouchers)),
        None => runtime.block_on(over_http()),
    }
}

async fn many_vouchers(vouchers: u64) {
    let fair = Fair { vouchers, buyers: 64, channels: 4, pause: Duration::from_secs(2) };
    let folder = tempfile::tempdir_in(shm()).unwrap();
    let file = format!("sqlite:{}", folder.path().join("many.db").display());
    for address in ["memory", &file] {
        let seen = sell(AnyLedger::open(address).await.unwrap(), fair).await;
        let [start, tenth, end] = seen.resident.map(|bytes| bytes / (1 << 20));
        println!(
            "{}: {vouchers} vouchers in {:.0?}, {:.0} a second, {} claims meanwhile; resident MiB {start}, {tenth}, {end}",
            address.split(':').next().unwrap(),
            seen.took,
            vouchers as f64 / seen.took.as_secs_f64(),
            seen.claims,
        );
    }
}

fn shm() -> &'static Path {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm } else { Path::new("/tmp") }
}

async fn over_http() {
    println!("| Ledger | What | Channels | At once | A second | Median | p99 |\n|---|---|---:|---:|---:|---:|---:|");
    measure("memory", "memory", QUICK).await;
    let (temporary, shm) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in(shm()).unwrap());
    for (name, folder) in [("sqlite", &temporary), ("sqlite, /dev/shm", &shm)] {
        measure(name, &format!("sqlite:{}", folder.path().join("channels.db").display()), DURABLE).await;
    }
    if let Some(server) = redis_server::Private::start(&["--appendonly", "yes", "--appendfsync", "always"]).await {
        measure("redis", &server.url(), DURABLE).await;
    }
    if let Some(server) = servers::PrivatePostgres::start(&[]).await.or_else(|| servers::missing("postgres")) {
        measure("postgres", &server.url(), DURABLE).await;
    }
}

/// Prints one line for each case.
async fn measure(name: &str, ledger: &str, Size([alone, at_once]): Size) {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let market = Market::open(AnyLedger::open(ledger).await.unwrap()).await;
    let address = serve(&market).await;
    let mut payers = Vec::new();
    for number in 0..CHANNELS {
        payers.push(Payer::open(&market, number).await);
    }
    let mut paid = 0;
    for (what, channels, tasks) in [
        ("quote", 0, 1),
        ("quote", 0, 64),
        ("exact", 0, 1),
        ("exact", 0, 64),
        ("voucher", 1, 1),
        ("voucher", 64, 1),
        ("voucher", 64, 64),
    ] {
        let requests = if tasks == 1 { alone } else { at_once };
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let mut work: Work = vec![Vec::new(); tasks];
            for n in 0..requests {
                work[n % tasks].push(match what {
                    "quote" => None,
                    "exact" => {
                        paid += 1;
                        Some(market.signs_exact(paid).await)
                    }
                    _ => Some(payers[n % channels].signs(&market).await),
                });
            }
            rates.push(send(address, work, if what == "quote" { 402 } else { 200 }).await);
        }
        rates.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        let Rate { per_second, half, most } = rates[ROUNDS / 2];
        println!("| {name} | {what} | {channels} | {tasks} | {per_second:.0} | {half:.2?} | {most:.2?} |");
    }
}
