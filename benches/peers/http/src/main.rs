//! tower-x402 over loopback HTTP: beside the same route without it, under load, in memory, and with every ledger.
//!
//! ```sh
//! http-bench               # all of it
//! http-bench load          # 402s and redemptions under `wrk`, beside bare routes
//! http-bench memory        # what a million quotes leave behind
//! http-bench storm         # 10,000 redemptions with each ledger
//! http-bench serve ROUTE   # what `load` and `memory` start: one route, one thread
//! ```
//!
//! `storm` uses the servers in `X402_BENCH_POSTGRES` and `X402_BENCH_REDIS`, both URLs, and leaves them unchanged.

mod load;
mod memory;
mod server;
mod shop;
mod storm;
mod wrk;

use std::{env, error::Error, process::exit};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            load::run()?;
            memory::run()?;
            storm::run()
        }
        ["load"] => load::run(),
        ["memory"] => memory::run(),
        ["storm"] => storm::run(),
        ["serve", route] => server::serve(route),
        _ => {
            eprintln!("usage: http-bench [load | memory | storm | serve ROUTE]");
            exit(2);
        }
    }
}
