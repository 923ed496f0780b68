//! Signs vouchers and deposits of channels, and reads channels, by nodes that may lag, lie, or be several that disagree.

use alloy::primitives::B256;

use super::{
    account::Account,
    authorization::{believed_time, signed},
    authorization_status,
};
use crate::{
    client::{AuthorizationStatus, ChannelFunds, DepositRequest, PayerError, SettledFunds},
    evm::{
        channel::{self, deposit_signer},
        eip3009::Nonce,
        eth_call::{eth_call_at, returned},
        json_rpc::Question,
        wallet::{
            account,
            node::{Failure, Node},
        },
    },
    protocol::{
        Amount, ChainTime, PaymentSignature,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ChannelId, DepositAuthorization, Erc3009Deposit, Voucher,
        },
    },
};

const NO_CHANNEL: PayerError = PayerError::Unavailable("what a channel holds cannot be read");
const BY_PERMIT: PayerError = PayerError::Refused("the wallet signs no deposits by Permit2");

/// Signs a voucher over this total.
pub(super) async fn voucher(
    account: &account::Account,
    channel: &ChannelConfig,
    total: u128,
) -> Result<PaymentSignature, PayerError> {
    if channel.voucher_key() != Some(account.address) {
        return Err(PayerError::Foreign);
    }
    let digest = channel.id(account.network).voucher_digest(total, account.network);
    signed(account, B256::new(digest)).await
}

/// Whether this account signed that voucher.
pub(super) fn signed_voucher(account: &account::Account, channel: &ChannelConfig, voucher: &Voucher) -> bool {
    voucher.channel == channel.id(account.network) && voucher.signer(account.network) == Some(account.address)
}

/// Signs a deposit. It does not need the wallet's turn, because it has a nonce of its own.
pub(super) async fn deposit(
    account: &account::Account,
    request: &DepositRequest,
) -> Result<Erc3009Deposit, PayerError> {
    if request.network != account.network {
        return Err(PayerError::WrongNetwork(request.network));
    }
    if request.payer() != account.address {
        return Err(PayerError::Foreign);
    }
    let end = request.valid_before(believed_time(account, request.now).await);
    let unsigned = PaymentSignature::new([0; 65]).map_err(|_| PayerError::Foreign)?;
    let mut deposit = Erc3009Deposit::new(request.salt, [ChainTime::from_unix(0), end], unsigned);
    let digest = deposit.digest(&request.channel, request.amount, &request.domain, account.network);
    deposit.signature = signed(account, B256::new(digest)).await?;
    Ok(deposit)
}

/// Whether a deposit of this account was made, or can yet be.
pub(super) async fn deposit_status(
    account: &Account,
    final_after: u64,
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    since: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let DepositAuthorization::Erc3009(of) = &deposit.authorization else { return Err(BY_PERMIT) };
    let domain = super::authorization::domain(account, channel.token).await?.ok_or(PayerError::Foreign)?;
    if deposit_signer(channel, deposit, Some(&domain), account.key.network) != Some(account.key.address) {
        return Err(PayerError::Foreign);
    }
    let nonce = channel.id(account.key.network).deposit_nonce(&of.salt);
    let nonce = Nonce { token: channel.token, payer: channel.payer, nonce };
    authorization_status::of_nonce(account, final_after, &nonce, of.valid_before, since).await
}

/// What a channel holds: of what the nodes say, the least balance, and the most claimed of it. It is withdrawn from if half of them say so.
pub(super) async fn funds(account: &Account, channel: ChannelId) -> Result<ChannelFunds, PayerError> {
    let heard: Vec<_> = account.key.nodes.each(|node| read(node, channel)).await.into_iter().flatten().collect();
    let withdrawing: Vec<_> = heard.iter().filter_map(|funds| funds.withdrawing).collect();
    let is_withdrawn_from = withdrawing.len() * 2 >= heard.len();
    // The latest beginning: before its delay is over, no node lets it end.
    let withdrawing = withdrawing.into_iter().max_by_key(|(_, since)| *since).filter(|_| is_withdrawn_from);
    let funds = heard.into_iter().reduce(|one, other| ChannelFunds {
        balance: one.balance.min(other.balance),
        claimed: one.claimed.max(other.claimed),
        withdrawing: None,
    });
    funds.map(|funds| ChannelFunds { withdrawing, ..funds }).ok_or(NO_CHANNEL)
}

/// What a channel held at most: of each node that answers, at a block that is deep enough and now; and what it holds now at least. More than
/// half of all must answer.
pub(super) async fn settled_funds(
    account: &Account,
    final_after: u64,
    channel: ChannelId,
) -> Result<SettledFunds, PayerError> {
    let nodes = &account.key.nodes;
    let heard: Vec<_> = nodes.each(|node| settled(node, final_after, channel)).await.into_iter().flatten().collect();
    if !nodes.are_most(heard.len()) {
        return Err(NO_CHANNEL);
    }
    heard.into_iter().reduce(SettledFunds::or_worse).ok_or(NO_CHANNEL)
}

async fn settled(node: &Node, final_after: u64, id: ChannelId) -> Result<SettledFunds, Failure> {
    let deep = node.head().await?.number.checked_sub(final_after).ok_or(Failure::Nonsense)?;
    let block = node.block(deep).await?.filter(|block| block.number == deep).ok_or(Failure::Nonsense)?;
    let at = async |number: &str| {
        let holding = channel::read_channel(&asked_at(node, &channel::channels(id), number).await?);
        let holding = holding.ok_or(Failure::Nonsense)?;
        let [balance, claimed] = [holding.balance, holding.total_claimed].map(Amount::from_base_units);
        Ok::<_, Failure>(SettledFunds::new(balance, claimed, block.time))
    };
    let (deep, now) = (at(&format!("{deep:#x}")).await?, at("latest").await?);
    Ok(deep.or_worse(now).with_least(now.balance))
}

async fn read(node: &Node, id: ChannelId) -> Result<ChannelFunds, Failure> {
    let holding = asked(node, &channel::channels(id)).await?;
    let holding = channel::read_channel(&holding).ok_or(Failure::Nonsense)?;
    let withdrawal = asked(node, &channel::pending_withdrawals(id)).await?;
    let withdrawal = channel::read_withdrawal(&withdrawal).ok_or(Failure::Nonsense)?;
    let [balance, claimed] = [holding.balance, holding.total_claimed].map(Amount::from_base_units);
    let funds = ChannelFunds::new(balance, claimed);
    Ok(match withdrawal.initiated_at {
        0 => funds,
        since => funds.withdrawing(Amount::from_base_units(withdrawal.amount), ChainTime::from_unix(since)),
    })
}

async fn asked(node: &Node, call: &[u8]) -> Result<Vec<u8>, Failure> {
    asked_at(node, call, "latest").await
}

async fn asked_at(node: &Node, call: &[u8], at: &str) -> Result<Vec<u8>, Failure> {
    let question = Question { method: "eth_call", params: eth_call_at(BATCH_SETTLEMENT, call, at) };
    Ok(returned(&node.answer(&question).await?)?.to_vec())
}
