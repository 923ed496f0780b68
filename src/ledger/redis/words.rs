//! The words of the scripts' arguments and answers.

use std::{iter::once, time::Duration};

use super::super::{Lease, LedgerError, last_sale::Recorded};
use crate::protocol::{ChainTime, IntentKey, Network};

/// Lua counts in doubles: whole numbers up to here are exact. As a time it lies too far in the future to be reached.
const MOST: u64 = (1 << 53) - 1;
/// The bounds of a lease: no sum comes near the limit of exact numbers, and the server notices the lease.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
const SHORTEST: Duration = Duration::from_millis(1);

/// The number of words that name a lease.
pub(super) const NAME: usize = 3;

/// The words by which the scripts identify a lease, and further arguments.
pub(super) fn name(lease: &Lease, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    let lease = [hex(lease.intent()), lease.payment().id().to_string(), lease.fencing_token().to_string()];
    lease.into_iter().chain(rest).collect()
}

/// The last sales of this process as arguments: their number, and each sale.
pub(super) fn recorded(sales: &[Recorded]) -> Vec<String> {
    let told =
        sales.iter().flat_map(|sale| [sale.payment.to_string(), sale.fence.to_string(), seconds(sale.block_time)]);
    once(sales.len().to_string()).chain(told).collect()
}

/// Translates an answer's first word.
pub(super) fn word<T: Copy, W: AsRef<[u8]>>(answer: &[W], meanings: &[(&str, T)]) -> Result<T, LedgerError> {
    let word = answer.first().map(AsRef::as_ref);
    let meaning = meanings.iter().find(|(said, _)| Some(said.as_bytes()) == word);
    meaning.map(|(_, meaning)| *meaning).ok_or(LedgerError::incompatible())
}

pub(super) fn hex(intent: IntentKey) -> String {
    const_hex::encode(intent.as_bytes())
}

/// A chain id, as in payment ids.
pub(super) fn chain(network: Network) -> String {
    network.chain_id().to_string()
}

/// Chain time, capped to what Lua counts exactly.
pub(super) fn seconds(time: ChainTime) -> String {
    time.unix().min(MOST).to_string()
}

pub(super) fn millis(span: Duration) -> String {
    span.clamp(SHORTEST, LONGEST).as_millis().to_string()
}
