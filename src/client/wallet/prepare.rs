//! Prepares transactions, sends them, and replaces them with ones of a higher fee.

use std::{sync::PoisonError, time::Duration};

use alloy::consensus::TxEip1559;
use futures_util::future::try_join;
use tokio::time::timeout;

use super::{
    account::{Account, WalletSettings},
    prerequisites::{self, GAS_MAX, Prerequisites},
    transaction::{self, Sent},
};
use crate::{
    client::{PayerError, PreparedTransfer, TransferRequest},
    evm::{
        erc20,
        wallet::{account::Signed, fees::Fees},
    },
    protocol::{Address, Amount, Asset, TxHash},
};

/// The time limit for asking nodes about one payment, because every other payment waits meanwhile.
const LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn prepare(
    account: &Account,
    settings: &WalletSettings,
    payment: &TransferRequest,
) -> Result<PreparedTransfer, PayerError> {
    if payment.network != account.key.network {
        return Err(PayerError::WrongNetwork(payment.network));
    }
    let drafted = timeout(LIMIT, draft(account, settings, payment)).await;
    let late = PayerError::Unavailable("the nodes took too long to say what a payment needs");
    let (token, draft) = drafted.map_err(|_| late)??;
    transaction::sign(&account.key, draft, token).await
}

/// Returns the unsigned transaction and the token that it moves.
async fn draft(
    account: &Account,
    settings: &WalletSettings,
    payment: &TransferRequest,
) -> Result<(Address, TxEip1559), PayerError> {
    let (token, prerequisites) = try_join(choose(account, payment), Prerequisites::of(account)).await?;
    let prerequisites = prerequisites.within(settings)?;
    let tag = settings.tagged.then_some(payment.tag);
    let mut draft = TxEip1559 { nonce: prerequisites.nonce, ..transaction::draft(payment, token, tag) };
    draft.gas_limit = prerequisites::gas(account, token, &draft, "the token would refuse this transfer").await?;
    if tag.is_none() {
        // Without a tag, only this random gas limit keeps two payments of one price from being the same transaction.
        // Unused gas is not paid.
        draft.gas_limit = (draft.gas_limit + u64::from(rand::random::<u16>())).min(GAS_MAX);
    }
    Ok((token, prerequisites.paying(draft)?))
}

/// Returns the first asset that matches its description and of which the account has enough.
async fn choose(account: &Account, payment: &TransferRequest) -> Result<Address, PayerError> {
    let mut none = None;
    for asset in payment.assets.iter().filter(|asset| asset.network() == payment.network) {
        let token = asset.contract();
        if !has_decimals(account, asset).await? {
            none.get_or_insert(PayerError::Decimals { token });
            continue;
        }
        if balance(account, token).await? >= payment.amount {
            return Ok(token);
        }
        none = Some(PayerError::Funds { payer: account.key.address });
    }
    Err(none.unwrap_or(PayerError::Funds { payer: account.key.address }))
}

/// Returns whether the account has this amount of an asset, and any coin for the chain's fee.
pub(super) async fn can_transfer(account: &Account, asset: &Asset, amount: Amount) -> Result<bool, PayerError> {
    if !has_decimals(account, asset).await? || balance(account, asset.contract()).await? < amount {
        return Ok(false);
    }
    Ok(account.key.ether().await? > 0)
}

pub(super) async fn has_decimals(account: &Account, asset: &Asset) -> Result<bool, PayerError> {
    let known = || account.decimals.lock().unwrap_or_else(PoisonError::into_inner);
    let cached = known().get(&asset.contract()).copied();
    if let Some(decimals) = cached {
        return Ok(decimals == asset.decimals());
    }
    let (contract, call) = (asset.contract(), erc20::decimals());
    let word = account.key.nodes.first(|node| node.word(contract, &call)).await?;
    let stated = word.and_then(|word| erc20::read_decimals(&word));
    if stated == Some(asset.decimals()) {
        known().insert(asset.contract(), asset.decimals());
    }
    Ok(stated == Some(asset.decimals()))
}

pub(super) async fn balance(account: &Account, token: Address) -> Result<Amount, PayerError> {
    let call = erc20::balance_of(account.key.address);
    let word = account.key.nodes.first(|node| node.word(token, &call)).await?;
    word.map(Amount::from_be_bytes).ok_or(PayerError::Unavailable("a token's balance cannot be read"))
}

/// Sends the signed transaction to every endpoint at once. One success is enough; "already known" is a success, too.
pub(super) async fn send(account: &Account, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
    let sent = transaction::read(prepared, account.key.address, account.key.network.chain_id())?;
    let signed = Signed { hash: sent.hash, raw: prepared.payload().to_owned() };
    account.key.send(sent.transaction.nonce, &signed).await?;
    Ok(sent.hash)
}

/// Prepares the same transfer under the same nonce with a higher fee; returns `None` above the wallet's limit.
pub(super) async fn replace(
    account: &Account,
    settings: &WalletSettings,
    newest: &Sent,
    token: Address,
) -> Result<Option<PreparedTransfer>, PayerError> {
    let transaction = &newest.transaction;
    let last = Fees { most: transaction.max_fee_per_gas, tip: transaction.max_priority_fee_per_gas };
    let fees = account.key.fees().await?.or_higher(last.raised());
    if fees.most > settings.max_fee_per_gas {
        return Ok(None);
    }
    let bumped = transaction::with_fees(transaction.clone(), fees);
    transaction::sign(&account.key, bumped, token).await.map(Some)
}
