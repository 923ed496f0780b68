//! A human who is asked before each payment.

use std::io::{self, Write as _};

use tower_x402::client::Proposal;

use super::screen;

/// Asks on the terminal. Whatever is not a yes is a no.
pub(crate) async fn ask(proposal: Proposal) -> bool {
    let Proposal { label, method, path, host, recipient, .. } = &proposal;
    let amount = proposal.amount.to_decimal(proposal.decimals);
    let what = format!("Pay {amount} to {recipient} for \"{label}\": {method} {path} at {host}?");
    // The label is the seller's text, and must not steer the terminal.
    eprint!("{} [y/N] ", screen::on_a_line(&what));
    let _ = io::stderr().flush();
    // A human takes time, which is not to be taken from other purchases.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    matches!(answer.await, Ok(Ok(line)) if matches!(line.trim(), "y" | "Y" | "yes"))
}
