//! Uses up an authorization's nonce without a transfer.

use std::time::Duration;

use alloy::{consensus::TxEip1559, primitives::TxKind};
use tokio::time::timeout;

use super::{
    account::{Account, WalletSettings},
    authorization::{ours, signed},
    prerequisites::{self, Prerequisites},
    transaction,
};
use crate::{
    client::{PayerError, PreparedAuthorization, PreparedTransfer},
    evm::eip3009,
    protocol::Address,
};

/// The time limit for asking nodes what a cancellation needs, because every other payment waits meanwhile.
const LIMIT: Duration = Duration::from_secs(30);

const UNSIGNED: PayerError = PayerError::Refused("the key would not sign the cancellation");

/// Prepares the cancellation, sent by the account itself.
pub(super) async fn prepare(
    account: &Account,
    settings: &WalletSettings,
    authorized: &PreparedAuthorization,
) -> Result<PreparedTransfer, PayerError> {
    let (authorization, domain) = ours(account, authorized).await?;
    let (payer, nonce) = (account.key.address, &authorization.authorization.nonce);
    let digest = eip3009::cancel_digest(payer, nonce, &domain, account.key.network);
    let signature = signed(&account.key, digest).await?;
    let input = eip3009::cancel(payer, nonce, signature.as_bytes()).ok_or(UNSIGNED)?;

    let late = PayerError::Unavailable("the nodes took too long to say what a cancellation needs");
    let drafted = timeout(LIMIT, draft(account, settings, domain.token, input)).await;
    transaction::sign(&account.key, drafted.map_err(|_| late)??, domain.token).await
}

/// Returns the unsigned transaction.
async fn draft(
    account: &Account,
    settings: &WalletSettings,
    token: Address,
    input: Vec<u8>,
) -> Result<TxEip1559, PayerError> {
    let prerequisites = Prerequisites::of(account).await?.within(settings)?;
    let mut draft = TxEip1559 {
        chain_id: account.key.network.chain_id(),
        nonce: prerequisites.nonce,
        to: TxKind::Call(token.as_bytes().into()),
        input: input.into(),
        ..TxEip1559::default()
    };
    let refused =
        "the token would refuse the cancellation: the authorization is used or cancelled already, or about to be";
    draft.gas_limit = prerequisites::gas(account, token, &draft, refused).await?;
    prerequisites.paying(draft)
}
