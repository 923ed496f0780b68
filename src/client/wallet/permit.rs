//! Signs permits (Permit2), and determines their status from nodes that may lag, lie, or disagree.

use alloy::primitives::B256;
use futures_util::future::try_join;

use super::{
    account::Account,
    authorization::{believed_time, signed},
    prepare::{balance, has_decimals},
};
use crate::{
    client::{AuthorizationStatus, PayerError, PermitFunds, PermitRequest, PreparedPermit},
    evm::{
        permit2,
        proxy::{PermitNonce, UsedPermit, charged},
        wallet::{
            account,
            node::{Failure, Node},
        },
    },
    protocol::{Address, Amount, Asset, ChainTime, TxHash, permit2::SignedPermit},
};

const UNHEARD: PayerError = PayerError::Unavailable("no node says whether the permit was used");
const NO_ALLOWANCE: PayerError = PayerError::Unavailable("a token's allowance for Permit2 cannot be read");

/// Returns the account's balance of a token and its allowance for Permit2; `None` if the token differs from the asset's
/// description.
pub(super) async fn funds(account: &Account, asset: &Asset) -> Result<Option<PermitFunds>, PayerError> {
    let token = asset.contract();
    if asset.network() != account.key.network || !has_decimals(account, asset).await? {
        return Ok(None);
    }
    let (balance, allowance) = try_join(balance(account, token), allowance(account, token)).await?;
    Ok(Some(PermitFunds::new(balance, allowance)))
}

/// Returns how much of a token Permit2 may move, according to the first node that answers.
pub(super) async fn allowance(account: &Account, token: Address) -> Result<Amount, PayerError> {
    let call = permit2::allowance(account.key.address);
    let word = account.key.nodes.first(|node| node.word(token, &call)).await?;
    word.map(Amount::from_be_bytes).ok_or(NO_ALLOWANCE)
}

/// Signs the request. It does not need the wallet's turn, because a permit has its own nonce.
pub(super) async fn permit(account: &account::Account, request: &PermitRequest) -> Result<SignedPermit, PayerError> {
    if request.network != account.network {
        return Err(PayerError::WrongNetwork(request.network));
    }
    let permit = request.permit(account.address, believed_time(account, request.now).await);
    let signature = signed(account, B256::new(permit.digest(account.network))).await?;
    Ok(SignedPermit::new(permit, signature))
}

/// Returns the permit, if this account signed it for this chain: the same nonce on another chain must not decide.
fn ours<'a>(account: &Account, prepared: &'a PreparedPermit) -> Result<&'a SignedPermit, PayerError> {
    let account::Account { address, network, .. } = account.key;
    let is_ours = prepared.signed.permit.from == address
        && prepared.network == network
        && permit2::signer(&prepared.signed, network) == Some(address);
    if is_ours { Ok(&prepared.signed) } else { Err(PayerError::Foreign) }
}

/// Returns the status of a permit. It is void only if every node that answers, and more than half of all, has a deep
/// block past its deadline at which it was unused.
pub(super) async fn status(
    account: &Account,
    final_after: u64,
    prepared: &PreparedPermit,
) -> Result<AuthorizationStatus, PayerError> {
    let permit = &ours(account, prepared)?.permit;
    let nonce = PermitNonce { owner: permit.from, nonce: permit.nonce };
    of_nonce(account, final_after, &nonce, prepared.valid_before()).await
}

/// Returns the status of a signature with that nonce that can be used before `end`.
pub(super) async fn of_nonce(
    account: &Account,
    final_after: u64,
    nonce: &PermitNonce,
    end: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let nodes = &account.key.nodes;
    let heard: Vec<bool> = nodes.each(|node| is_used(node, nonce)).await.into_iter().flatten().collect();
    if heard.is_empty() {
        return Err(UNHEARD);
    }
    if heard.contains(&true) {
        return Ok(AuthorizationStatus::Used { transaction: None });
    }
    let is_void = nodes.all_say(|node| has_ended(node, final_after, nonce, end)).await;
    Ok(if is_void { AuthorizationStatus::Void } else { AuthorizationStatus::Unused })
}

/// Returns whether it had ended unused at a deep enough block. An endpoint without the state of that block fails, and
/// so does not vote.
async fn has_ended(node: &Node, final_after: u64, nonce: &PermitNonce, end: ChainTime) -> Result<bool, Failure> {
    let Some(deep) = node.head().await?.number.checked_sub(final_after) else { return Ok(false) };
    let block = node.block(deep).await?;
    if !block.is_some_and(|block| block.number == deep && block.time >= end) {
        return Ok(false);
    }
    let was_used = nonce.read_state(&node.answer(&nonce.state_at(deep)).await?)?;
    Ok(!was_used && !is_used(node, nonce).await?)
}

async fn is_used(node: &Node, nonce: &PermitNonce) -> Result<bool, Failure> {
    Ok(nonce.read_state(&node.answer(&nonce.state_now()).await?)?)
}

/// Returns how much of a permit this transaction charged, if every node that answers, and more than half of all, agree.
/// The transaction must have called a proxy directly with this permit, and have succeeded.
pub(super) async fn charge(
    account: &Account,
    prepared: &PreparedPermit,
    transaction: TxHash,
) -> Result<Option<Amount>, PayerError> {
    let permit = &ours(account, prepared)?.permit;
    let used = &UsedPermit::of(permit);
    let nodes = &account.key.nodes;
    let Some(amount) = nodes.first(|node| charge_at(node, transaction, used)).await? else { return Ok(None) };
    let is_agreed = nodes.all_say(async |node| Ok(charge_at(node, transaction, used).await? == Some(amount))).await;
    Ok(Some(amount).filter(|amount| is_agreed && *amount <= permit.amount))
}

async fn charge_at(node: &Node, transaction: TxHash, used: &UsedPermit) -> Result<Option<Amount>, Failure> {
    let (receipt, call) = try_join(node.receipt(transaction), node.called(transaction)).await?;
    let is_mined = receipt.is_some_and(|receipt| receipt.mined_in.is_some() && receipt.success == Some(true));
    let charged = call.filter(|_| is_mined).and_then(|call| charged(call.to, &call.input));
    Ok(charged.filter(|(permit, _)| permit == used).map(|(_, amount)| amount))
}
