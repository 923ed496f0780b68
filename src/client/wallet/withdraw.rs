//! Withdraws what is left in a channel without its seller: two transactions of the account, with the channel's delay
//! between them.

use std::time::Duration;

use alloy::{consensus::TxEip1559, primitives::TxKind};
use tokio::time::{sleep, timeout};

use super::{
    account::{Account, WalletSettings},
    prepare,
    prerequisites::{self, Prerequisites},
    status, transaction,
};
use crate::{
    client::{PayerError, PreparedTransfer, TransferStatus},
    protocol::{TxHash, channel::BATCH_SETTLEMENT},
};

/// The time limit for asking nodes what the transaction needs, because every payment waits meanwhile.
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit for the transaction to be mined.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const POLL: Duration = Duration::from_secs(1);

const REFUSED: &str =
    "the contract would refuse the withdrawal: its delay is not over, or nothing is left in the channel";
const REVERTED: PayerError =
    PayerError::Refused("the withdrawal is in a block, and the contract refused it: nothing was withdrawn");
const DISPLACED: PayerError =
    PayerError::Refused("another transaction took the withdrawal's nonce: nothing was withdrawn");
const LATE: PayerError =
    PayerError::Unavailable("the nodes took too long to say what a withdrawal needs: nothing was sent");
const UNMINED: PayerError =
    PayerError::Unavailable("the withdrawal was sent, and is in no block yet: it may still be; ask again");

/// Sends a call to the channel contract, and waits until it is mined.
pub(super) async fn call(account: &Account, settings: &WalletSettings, data: Vec<u8>) -> Result<TxHash, PayerError> {
    let prepared = {
        let _turn = account.key.turn.lock().await;
        let prepared = timeout(LIMIT, prepare(account, settings, data)).await.map_err(|_| LATE)??;
        prepare::send(account, &prepared).await?;
        prepared
    };
    let sent = [transaction::read(&prepared, account.key.address, account.key.network.chain_id())?];
    let mined = async {
        loop {
            match status::status(account, settings.final_after, &sent).await {
                Ok(TransferStatus::Mined { transaction, .. }) => return Ok(transaction),
                Ok(TransferStatus::Reverted { .. }) => return Err(REVERTED),
                Ok(TransferStatus::Impossible) => return Err(DISPLACED),
                Ok(TransferStatus::Pending | TransferStatus::Unknown) | Err(_) => sleep(POLL).await,
            }
        }
    };
    timeout(PATIENCE, mined).await.map_err(|_| UNMINED)?
}

async fn prepare(account: &Account, settings: &WalletSettings, data: Vec<u8>) -> Result<PreparedTransfer, PayerError> {
    let prerequisites = Prerequisites::of(account).await?.within(settings)?;
    let mut draft = TxEip1559 {
        chain_id: account.key.network.chain_id(),
        nonce: prerequisites.nonce,
        to: TxKind::Call(BATCH_SETTLEMENT.as_bytes().into()),
        input: data.into(),
        ..TxEip1559::default()
    };
    draft.gas_limit = prerequisites::gas(account, BATCH_SETTLEMENT, &draft, REFUSED).await?;
    transaction::sign(&account.key, prerequisites.paying(draft)?, BATCH_SETTLEMENT).await
}
