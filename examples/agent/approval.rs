//! A human who is asked before each payment.

use std::io::{self, Write as _};

use tower_x402::client::Proposal;

use super::screen;

/// How much of the seller's label is shown, in characters.
const LABEL_MAX: usize = 60;

/// Returns the question that is put to a person. The label comes last, and cut: it is the seller's text, and may claim anything.
pub(crate) fn question(proposal: &Proposal) -> String {
    let Proposal { label, method, path, host, recipient, .. } = &proposal;
    let amount = proposal.amount.to_decimal(proposal.decimals);
    let by = match proposal.valid_for {
        Some(valid) => format!("by a signature that is valid for {} s", valid.as_secs()),
        None => "by a transfer".to_owned(),
    };
    let label = screen::cut(label, LABEL_MAX);
    let what = format!(
        "Pay {amount} at {host} to {recipient}, {by}, for {method} {path}, which the seller calls \"{label}\"?"
    );
    screen::on_a_line(&what)
}

/// Asks on the terminal. Whatever is not a yes is a no.
pub(crate) async fn ask(proposal: Proposal) -> bool {
    eprint!("{} [y/N] ", question(&proposal));
    let _ = io::stderr().flush();
    // A human takes time, which is not to be taken from other purchases.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    matches!(answer.await, Ok(Ok(line)) if matches!(line.trim(), "y" | "Y" | "yes"))
}
