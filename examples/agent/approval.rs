//! A person who is asked before each payment.

use std::io::{self, Write as _};

use tower_x402::client::Proposal;

use super::screen;

/// How many characters of the seller's label are shown.
const LABEL_MAX: usize = 60;

/// Returns the question for a person. The label comes last and is cut: it is the seller's text, and may claim
/// anything.
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

/// Asks on the terminal. Every answer but a yes is a no.
pub(crate) async fn ask(proposal: Proposal) -> bool {
    eprint!("{} [y/N] ", question(&proposal));
    let _ = io::stderr().flush();
    // A person takes time, which must not block other purchases.
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    matches!(answer.await, Ok(Ok(line)) if matches!(line.trim(), "y" | "Y" | "yes"))
}
