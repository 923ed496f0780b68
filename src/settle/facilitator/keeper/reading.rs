//! What the seller's own nodes say of deposits and claims that somebody else sends.

use crate::{
    evm::{
        eip3009,
        wallet::{
            node::{Call, Failure, Node, hex},
            nodes::Nodes,
        },
    },
    protocol::channel::{BATCH_SETTLEMENT, ChannelConfig, ChannelId, VoucherClaim},
    settle::questions,
};

/// The most gas that the contract may take to tell what is claimed of one channel.
const VIEW_GAS: u64 = 100_000;

/// Whether the authorization of a deposit is used, by the word of any node.
pub(super) async fn is_deposited(
    nodes: &Nodes,
    config: &ChannelConfig,
    (channel, salt): (ChannelId, &[u8; 32]),
) -> Result<bool, Failure> {
    let question = eip3009::authorization_state(config.payer, &channel.deposit_nonce(salt));
    let answers = nodes.each(|node| node.word_at(config.token, &question, "latest")).await;
    let heard: Vec<bool> =
        answers.into_iter().flatten().flatten().map(|word| word.last().is_some_and(|last| *last > 0)).collect();
    if heard.is_empty() { Err(Failure::Silence) } else { Ok(heard.contains(&true)) }
}

/// Whether all of it is claimed, so many blocks ago, by the word of every node.
pub(super) async fn are_claimed(nodes: &Nodes, claims: &[VoucherClaim], final_after: u64) -> bool {
    let question = questions::claimed_of(claims.iter().map(|claim| claim.voucher.channel));
    let gas = VIEW_GAS.saturating_mul(claims.len() as u64 + 1);
    let call = Call { from: BATCH_SETTLEMENT, to: BATCH_SETTLEMENT, data: &question, gas, fees: None };
    let ask = async |node: &Node| {
        let Some(height) = node.head().await?.number.checked_sub(final_after) else { return Ok(false) };
        let returned = node.run(&call, &hex(height)).await?.ok();
        let claimed = returned.and_then(|returned| questions::read_claimed_of(&returned)).ok_or(Failure::Nonsense)?;
        let is_claimed = |(claimed, claim): (&u128, &VoucherClaim)| *claimed >= claim.total_claimed;
        Ok(claimed.len() == claims.len() && claimed.iter().zip(claims).all(is_claimed))
    };
    nodes.all_say(ask).await
}
