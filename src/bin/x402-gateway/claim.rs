//! Claims what was sold in payment channels.

use std::time::Duration;

use tokio::time::sleep;
use tower_x402::Merchant;

use super::{backends::Backends, config::Fixed, failure::Failure, shop::built};

/// How often it asks for the turn that a running gateway has.
const TURNS: u32 = 60;

/// Claims all of it now, and says what was done.
///
/// # Errors
/// What is wrong with the configuration, or with the world; or something is left that could not be claimed.
pub(crate) async fn claim(fixed: &Fixed) -> Result<(), Failure> {
    let backends = Backends::connect(fixed).await?;
    let merchant = merchant(&backends, fixed).await?;
    for _ in 0..TURNS {
        let claimed = merchant.claim_now().await.map_err(Failure::world)?;
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
            left => Err(Failure::world(format!("{left} channels are left, of which it is not known; claim again"))),
        };
    }
    Err(Failure::world("another process is claiming; claim again later"))
}

/// A merchant that sells nothing, for its claims.
pub(crate) async fn merchant(backends: &Backends, fixed: &Fixed) -> Result<Merchant, Failure> {
    built(backends.merchant(fixed)?).await
}
