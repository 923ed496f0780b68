//! Signs vouchers and deposits of channels, and reads channels from nodes that may lag, lie, or disagree.

use alloy::primitives::B256;

use super::{
    account::Account,
    authorization::{believed_time, signed},
    authorization_status, permit,
};
use crate::{
    client::{AuthorizationStatus, ChannelFunds, DepositRequest, PayerError, PermitDepositRequest, SettledFunds},
    evm::{
        channel::{self, deposit_signer},
        eip3009::Nonce,
        eth_call::{eth_call_at, returned},
        json_rpc::Question,
        proxy::PermitNonce,
        wallet::{
            account,
            node::{Failure, Node},
        },
    },
    protocol::{
        Amount, ChainTime, PaymentSignature,
        channel::{
            BATCH_SETTLEMENT, ChannelConfig, ChannelDeposit, ChannelId, DepositAuthorization, Erc3009Deposit,
            Permit2Deposit, Voucher,
        },
    },
};

const NO_CHANNEL: PayerError = PayerError::Unavailable("what a channel holds cannot be read");

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

/// Returns whether this account signed that voucher.
pub(super) fn signed_voucher(account: &account::Account, channel: &ChannelConfig, voucher: &Voucher) -> bool {
    voucher.channel == channel.id(account.network) && voucher.signer(account.network) == Some(account.address)
}

/// Signs a deposit. It does not need the wallet's turn, because a deposit has its own nonce.
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

/// Signs a deposit by Permit2, in the same way.
pub(super) async fn permit_deposit(
    account: &account::Account,
    request: &PermitDepositRequest,
) -> Result<Permit2Deposit, PayerError> {
    if request.network != account.network {
        return Err(PayerError::WrongNetwork(request.network));
    }
    if request.payer() != account.address {
        return Err(PayerError::Foreign);
    }
    let unsigned = PaymentSignature::new([0; 65]).map_err(|_| PayerError::Foreign)?;
    let mut deposit = request.deposit(believed_time(account, request.now).await, unsigned);
    deposit.signature = signed(account, B256::new(deposit.digest(account.network))).await?;
    Ok(deposit)
}

/// Returns whether a deposit of this account was made, or can still be, from the state of its nonce at the token or at
/// Permit2.
pub(super) async fn deposit_status(
    account: &Account,
    final_after: u64,
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    since: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let domain = match &deposit.authorization {
        DepositAuthorization::Erc3009(_) => {
            Some(super::authorization::domain(account, channel.token).await?.ok_or(PayerError::Foreign)?)
        }
        DepositAuthorization::Permit2(_) => None,
    };
    if deposit_signer(channel, deposit, domain.as_ref(), account.key.network) != Some(account.key.address) {
        return Err(PayerError::Foreign);
    }
    match &deposit.authorization {
        DepositAuthorization::Erc3009(of) => {
            let nonce = channel.id(account.key.network).deposit_nonce(&of.salt);
            let nonce = Nonce { token: channel.token, payer: channel.payer, nonce };
            authorization_status::of_nonce(account, final_after, &nonce, of.valid_before, since).await
        }
        DepositAuthorization::Permit2(of) => {
            let nonce = PermitNonce { owner: channel.payer, nonce: of.nonce };
            // It is still valid at its deadline.
            let end = ChainTime::from_unix(of.deadline.unix().saturating_add(1));
            permit::of_nonce(account, final_after, &nonce, end).await
        }
    }
}

/// Returns what a channel holds.
pub(super) async fn funds(account: &Account, channel: ChannelId) -> Result<ChannelFunds, PayerError> {
    let heard = account.key.nodes.each(|node| read(node, channel)).await.into_iter().flatten();
    together(heard.collect()).ok_or(NO_CHANNEL)
}

/// Combines the nodes' answers: the lowest balance and the highest claim. A withdrawal counts if more than half of them
/// report it.
fn together(heard: Vec<ChannelFunds>) -> Option<ChannelFunds> {
    let withdrawing: Vec<_> = heard.iter().filter_map(|funds| funds.withdrawing).collect();
    let is_withdrawn_from = withdrawing.len() * 2 > heard.len();
    // The latest beginning, because only after its delay do all nodes let it end.
    let withdrawing = withdrawing.into_iter().max_by_key(|(_, since)| *since).filter(|_| is_withdrawn_from);
    let funds = heard.into_iter().reduce(|one, other| ChannelFunds {
        balance: one.balance.min(other.balance),
        claimed: one.claimed.max(other.claimed),
        withdrawing: None,
    });
    funds.map(|funds| ChannelFunds { withdrawing, ..funds })
}

/// Returns the most that a channel holds, both at a deep enough block and now, over all nodes that answer; and the
/// least that it holds now. More than half of all nodes must answer.
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
    let head = node.head().await?.number;
    // On a chain younger than that, this is its first block.
    let number = head.saturating_sub(final_after);
    let block = node.block(number).await?.filter(|block| block.number == number).ok_or(Failure::Nonsense)?;
    let at = async |number: &str| {
        let holding = channel::read_channel(&asked_at(node, &channel::channels(id), number).await?);
        let holding = holding.ok_or(Failure::Nonsense)?;
        let [balance, claimed] = [holding.balance, holding.total_claimed].map(Amount::from_base_units);
        Ok::<_, Failure>(SettledFunds::new(balance, claimed, block.time))
    };
    let now = at("latest").await?;
    if head < final_after {
        // The first block says nothing about later ones, and the present state may still vanish.
        return Ok(now.of_a_young_chain());
    }
    Ok(at(&format!("{number:#x}")).await?.or_worse(now).with_least(now.balance))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_withdrawn_from_if_most_nodes_say_so() {
        let funds = |balance, claimed| {
            let [balance, claimed] = [balance, claimed].map(Amount::from_base_units);
            ChannelFunds::new(balance, claimed)
        };
        let [two, three] = [2, 3].map(ChainTime::from_unix);
        let begun = |since| funds(10, 1).withdrawing(Amount::from_base_units(9), since);
        for (heard, withdrawing) in [
            (vec![begun(two)], Some(two)),
            (vec![begun(two), funds(10, 1)], None),
            (vec![begun(two), funds(10, 1), begun(three)], Some(three)),
            (vec![begun(two), funds(10, 1), begun(three), funds(10, 1)], None),
        ] {
            let context = format!("{heard:?}");
            let said = together(heard).unwrap().withdrawing.map(|(_, since)| since);
            assert_eq!(said, withdrawing, "{context}");
        }
        assert_eq!(together(vec![funds(10, 1), funds(9, 0), funds(11, 2)]), Some(funds(9, 2)));
        assert_eq!(together(Vec::new()), None);
    }
}
