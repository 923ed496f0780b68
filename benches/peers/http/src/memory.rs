//! The memory that a million unpaid quotes leave behind in the seller's process.

use std::error::Error;

use crate::{server::Server, wrk::Wrk};

const QUOTES: u64 = 1_000_000;
const CONNECTIONS: u32 = 32;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let wrk = Wrk::new(folder.path())?;
    let server = Server::start("paywall")?;
    let quote = || wrk.ask(&server.url, CONNECTIONS, 2, None);
    // Creates connections, their buffers, and everything else that is created once.
    quote()?;
    let before = server.resident()?;
    println!("\n| Quotes | Resident | More, by quote |");
    println!("|---:|---:|---:|");
    println!("| 0 | {before} KiB | – |");
    let mut quotes = 0;
    for goal in [QUOTES / 2, QUOTES] {
        while quotes < goal {
            let outcome = quote()?;
            if outcome.refused != outcome.requests {
                return Err("not everything was a bill".into());
            }
            quotes += outcome.requests;
        }
        let after = server.resident()?;
        let each = (after - before) as f64 * 1_024.0 / quotes as f64;
        println!("| {quotes} | {after} KiB | {each:.2} bytes |");
    }
    Ok(())
}
