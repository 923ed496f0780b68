//! `datasets ledger raise-mark`: for use after a backup was restored, or a fail-over lost the last sales.
//!
//! The lost sales are not in the ledger, so each of their payments would buy a second answer. Therefore every payment
//! mined until now is refused unless the ledger knows it. Payers without an answer are told so.

use tower_x402::{
    clock::{Clock as _, SystemClock},
    protocol::ChainTime,
    verify::{EvmVerifier, Verifier as _},
};

use super::{
    args::Args,
    merchant::{chain, connect},
    run::Failure,
};

/// How far the chain's time may be ahead of this machine's, in seconds.
const AHEAD: u64 = 180;
const FUTURE: &str = "--to is a time in seconds since 1970 that has come: a later one would refuse payments to come";

/// Raises the mark to that Unix time, or else to the time of the chain's head.
///
/// # Errors
/// Fails on wrong flags and on errors of the chain or the ledger.
pub(crate) async fn raise_mark(args: &Args, to: Option<u64>) -> Result<(), Failure> {
    let ledger = args.ledger().map_err(Failure::usage)?;
    let to = ChainTime::from_unix(match to {
        Some(time) if time > SystemClock.unix() + AHEAD => return Err(Failure::usage(FUTURE)),
        Some(time) => time,
        None => present(args).await?.unix(),
    });
    let mark = ledger.raise_mark(args.network(), to).await?;
    if mark < to {
        return Err(Failure::environment("the ledger did not take the mark: raise it again before it sells"));
    }
    println!(
        "{} refuses every payment mined up to {} (Unix time) that it has no record of. Start the server now. Whoever paid \
         before and has no answer is told payment_too_old, and is owed the money.",
        ledger.name(),
        mark.unix()
    );
    Ok(())
}

/// Returns the time of the head, on the right chain.
async fn present(args: &Args) -> Result<ChainTime, Failure> {
    let mut endpoints = args.endpoints(args.network()).peekable();
    if endpoints.peek().is_none() {
        return Err(Failure::usage("name an Ethereum JSON-RPC endpoint with --rpc-url URL, or the time with --to"));
    }
    let verifier =
        connect(EvmVerifier::builder().endpoints(endpoints).max_head_age(args.max_head_age.0), args.wait_for_rpc)
            .await?;
    verifier.check(args.network(), &[]).await.map_err(chain)?;
    verifier.horizon().await.map_err(chain)
}
