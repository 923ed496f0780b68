//! A seller's commands for its channels.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tower_x402::{Claimed, Merchant, OpenChannel, protocol::Amount};

use super::Failure;

/// How long the whole command may take.
const LIMIT: Duration = Duration::from_secs(85);
/// How long to wait for the lease that the server may hold, or for a transaction with an unknown outcome.
const AGAIN: Duration = Duration::from_secs(1);
/// The decimals of USDC.
const DECIMALS: u8 = 6;

/// Claims and sweeps all debts.
///
/// # Errors
/// Fails if something is left, or if node or ledger do not answer. It may be repeated.
pub(crate) async fn claim(merchant: &Merchant) -> Result<(), Failure> {
    let end = Instant::now() + LIMIT;
    let mut last = "the server is claiming; claim again".to_owned();
    loop {
        match timeout_at(end, merchant.claim_now()).await {
            Err(_) => return Err(last.into()),
            Ok(Ok(Claimed { elsewhere: true, .. })) => {}
            Ok(Ok(claimed)) => {
                for transaction in &claimed.transactions {
                    println!("sent {transaction}");
                }
                println!("claimed what was sold in {} channels", claimed.channels);
                if claimed.left == 0 {
                    return Ok(());
                }
                last = format!("what was sold in {} channels is not claimed yet; claim again", claimed.left);
            }
            Ok(Err(error)) => last = error.to_string(),
        }
        if Instant::now() + AGAIN >= end {
            return Err(last.into());
        }
        sleep(AGAIN).await;
    }
}

/// Returns a list of the channels, one a line.
///
/// # Errors
/// Fails if the ledger does not answer.
pub(crate) async fn list(merchant: &Merchant) -> Result<String, Failure> {
    let channels = merchant.channels().await?;
    let head = "channel\tpayer\tcharged\tclaimed\topen\twithdrawal".to_owned();
    Ok([head].into_iter().chain(channels.iter().map(line)).collect::<Vec<_>>().join("\n"))
}

/// Formats a channel, with amounts in USDC.
fn line(channel: &OpenChannel) -> String {
    let usdc = |amount: Amount| amount.to_decimal(DECIMALS);
    let state = channel.state.filter(|state| state.withdraw_requested_at.is_some());
    let withdrawal = state.map_or_else(|| "none".to_owned(), |state| usdc(state.withdrawing));
    let [charged, claimed, open] = [channel.charged, channel.claimed, channel.owed()].map(usdc);
    format!("{}\t{}\t{charged}\t{claimed}\t{open}\t{withdrawal}", channel.id, channel.config.payer)
}
