//! Claims the debts of payment channels.

use std::time::Duration;

use tokio::time::sleep;
use tower_x402::Merchant;

use super::{backends::Backends, config::Fixed, failure::Failure, shop::built};

/// How many times, a second apart, to ask for the lease on claims that a running gateway may hold.
const LEASE_ATTEMPTS: u32 = 60;

/// Claims all debts now, and prints what was done.
///
/// # Errors
/// Fails on a wrong configuration, on errors of the backends, and if something is left that could not be claimed.
pub(crate) async fn claim(fixed: &Fixed) -> Result<(), Failure> {
    let backends = Backends::connect(fixed).await?;
    let merchant = merchant(&backends, fixed).await?;
    for _ in 0..LEASE_ATTEMPTS {
        let claimed = merchant.claim_now().await.map_err(Failure::environment)?;
        if claimed.elsewhere {
            sleep(Duration::from_secs(1)).await;
            continue;
        }
        for transaction in &claimed.transactions {
            println!("sent {transaction}");
        }
        println!("claimed what was sold in {} channels", claimed.channels);
        return match claimed.left {
            0 => Ok(()),
            left => {
                Err(Failure::environment(format!("{left} channels are left, of which it is not known; claim again")))
            }
        };
    }
    Err(Failure::environment("another process is claiming; claim again later"))
}

/// Builds a merchant that sells nothing, for its claims.
pub(crate) async fn merchant(backends: &Backends, fixed: &Fixed) -> Result<Merchant, Failure> {
    built(backends.merchant(fixed)?).await
}
