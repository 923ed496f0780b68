//! Allows Permit2 to move a token: an ordinary `approve`.

use std::time::Duration;

use alloy::{consensus::TxEip1559, primitives::TxKind};
use tokio::time::{sleep, timeout};

use super::{
    NetworkWallet, WalletPayer,
    account::{Account, WalletSettings},
    permit,
    prepare::{self, has_decimals},
    prerequisites::{self, Prerequisites},
    status,
    transaction::{self, Sent},
};
use crate::{
    client::{PayerError, PreparedTransfer, TransferStatus},
    evm::erc20,
    protocol::{Amount, Asset, TxHash, permit2::PERMIT2},
};

/// The time limit for asking nodes what the transaction needs, because every payment waits meanwhile.
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit for the transaction to be mined.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const POLL: Duration = Duration::from_secs(1);
/// How often the allowance is read again, because a node may be behind the transaction's block.
const READINGS_MAX: u32 = 10;

const REFUSED: &str = "the token would refuse the approval: if it takes no change of an allowance, revoke the old one first, by an amount of 0";
const REVERTED: PayerError =
    PayerError::Refused("the approval is in a block, and the token refused it: nothing is allowed");
const LATE: PayerError =
    PayerError::Unavailable("the nodes took too long to say what an approval needs: nothing was sent");
const UNMINED: PayerError =
    PayerError::Unavailable("the approval was sent, and is in no block yet: it may still be; ask again before you buy");

/// The result of [`WalletPayer::allow_permit2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permit2Approval {
    /// The mined transaction.
    pub transaction: TxHash,
    /// How much Permit2 may move now, in base units, according to a node after that block.
    pub allowance: Amount,
}

impl WalletPayer {
    /// Allows the Permit2 contract to move this amount of a token, by one ordinary `approve` that costs gas, and waits
    /// until it is mined. An amount of zero revokes.
    ///
    /// Metered answers (`upto`), and tokens without EIP-3009, are paid from this allowance. The allowance alone moves
    /// nothing: Permit2 moves only what the account signs for. Each payment reduces it by the charge, and the wallet
    /// signs none above the rest.
    ///
    /// ```no_run
    /// # async fn example(wallet: tower_x402::client::WalletPayer) -> Result<(), tower_x402::client::PayerError> {
    /// use tower_x402::protocol::{Amount, Asset};
    /// let approval = wallet.allow_permit2(&Asset::USDC_BASE, Amount::from_base_units(5_000_000)).await?;
    /// println!("{} allows 5 USDC", approval.transaction);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PayerError`]; its text says whether something was sent. Calling it again allows the same amount, not twice as
    /// much.
    pub async fn allow_permit2(&self, asset: &Asset, amount: Amount) -> Result<Permit2Approval, PayerError> {
        let NetworkWallet { account, settings } = self.on(asset.network())?;
        let token = asset.contract();
        if !has_decimals(account, asset).await? {
            return Err(PayerError::Decimals { token });
        }
        let prepared = {
            let _turn = account.key.turn.lock().await;
            let prepared = timeout(LIMIT, prepare(account, settings, asset, amount)).await.map_err(|_| LATE)??;
            prepare::send(account, &prepared).await?;
            prepared
        };
        let sent = transaction::read(&prepared, account.key.address, account.key.network.chain_id())?;
        let transaction = timeout(PATIENCE, mined(account, settings, &[sent])).await.map_err(|_| UNMINED)??;
        Ok(Permit2Approval { transaction, allowance: allowed(account, asset, amount).await? })
    }

    /// Returns how much of a token the account allows Permit2 to move, in base units.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be read now.
    pub async fn permit2_allowance(&self, asset: &Asset) -> Result<Amount, PayerError> {
        permit::allowance(&self.on(asset.network())?.account, asset.contract()).await
    }
}

async fn prepare(
    account: &Account,
    settings: &WalletSettings,
    asset: &Asset,
    amount: Amount,
) -> Result<PreparedTransfer, PayerError> {
    let token = asset.contract();
    let prerequisites = Prerequisites::of(account).await?.within(settings)?;
    let mut draft = TxEip1559 {
        chain_id: account.key.network.chain_id(),
        nonce: prerequisites.nonce,
        to: TxKind::Call(token.as_bytes().into()),
        input: erc20::approve(PERMIT2, amount).into(),
        ..TxEip1559::default()
    };
    draft.gas_limit = prerequisites::gas(account, token, &draft, REFUSED).await?;
    transaction::sign(&account.key, prerequisites.paying(draft)?, token).await
}

/// Waits until the transaction is mined. If a node fails to answer, it is asked again.
async fn mined(account: &Account, settings: &WalletSettings, sent: &[Sent]) -> Result<TxHash, PayerError> {
    loop {
        match status::status(account, settings.final_after, sent).await {
            Ok(TransferStatus::Mined { transaction, .. }) => return Ok(transaction),
            Ok(TransferStatus::Reverted { .. }) => return Err(REVERTED),
            Ok(TransferStatus::Impossible) => {
                return Err(PayerError::Refused("another transaction took the approval's nonce: nothing is allowed"));
            }
            Ok(TransferStatus::Pending | TransferStatus::Unknown) | Err(_) => sleep(POLL).await,
        }
    }
}

/// Returns the allowance after that block, which not every node may have yet.
async fn allowed(account: &Account, asset: &Asset, wanted: Amount) -> Result<Amount, PayerError> {
    let mut allowance = permit::allowance(account, asset.contract()).await?;
    for _ in 0..READINGS_MAX {
        if allowance == wanted {
            break;
        }
        sleep(POLL).await;
        allowance = permit::allowance(account, asset.contract()).await?;
    }
    Ok(allowance)
}
