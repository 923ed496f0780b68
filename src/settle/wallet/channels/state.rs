//! What nodes say of a channel, and what a payer's account says of a voucher.

use std::slice;

use alloy::primitives::B256;
use futures_util::future::try_join;

use super::super::questions;
use crate::{
    evm::{
        erc1271,
        wallet::node::{Call, Failure, Node, hex},
    },
    protocol::channel::{BATCH_SETTLEMENT, ChannelConfig, Voucher},
    settle::{
        ChannelOnChain, SettleError,
        wallet::{core::Core, trial::SIGNATURE_GAS},
    },
};

/// The most gas that the contract may take to tell the state of one channel.
const STATE_GAS: u64 = 300_000;
/// Of how many channels it is asked at once.
const AT_ONCE: usize = 50;

/// The state of a channel: of what nodes say, the worst for the seller.
pub(super) async fn read(core: &Core, config: &ChannelConfig) -> Result<ChannelOnChain, Failure> {
    let states = read_chunk(core, slice::from_ref(config)).await?;
    states.into_iter().next().ok_or(Failure::Nonsense)
}

/// The same of many, in their order.
pub(super) async fn read_all(core: &Core, configs: &[ChannelConfig]) -> Result<Vec<ChannelOnChain>, Failure> {
    let mut states = Vec::with_capacity(configs.len());
    for chunk in configs.chunks(AT_ONCE) {
        states.extend(read_chunk(core, chunk).await?);
    }
    Ok(states)
}

async fn read_chunk(core: &Core, configs: &[ChannelConfig]) -> Result<Vec<ChannelOnChain>, Failure> {
    let ids: Vec<_> = configs.iter().map(|config| config.id(core.account.network)).collect();
    let (question, gas) = (questions::states(&ids), STATE_GAS.saturating_mul(ids.len() as u64));
    let call = Call { from: core.account.address, to: BATCH_SETTLEMENT, data: &question, gas, fees: None };
    let ask = async |node: &Node| said_by(core, node, &call, ids.len()).await;
    let answers = core.account.nodes.each(ask).await;
    let worse = |one: Vec<ChannelOnChain>, other: Vec<ChannelOnChain>| {
        one.into_iter().zip(other).map(|(one, other)| one.worse(other)).collect()
    };
    answers
        .into_iter()
        .reduce(|one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(worse(one, other)),
            (Ok(states), Err(_)) | (Err(_), Ok(states)) => Ok(states),
            (Err(failure), Err(_)) => Err(failure),
        })
        .unwrap_or(Err(Failure::Silence))
}

/// What one node says: of its newest block, in which a claim and a deposit count only as far as they are in a block that is believed to
/// stay.
async fn said_by(core: &Core, node: &Node, call: &Call<'_>, channels: usize) -> Result<Vec<ChannelOnChain>, Failure> {
    let at = async |block: &str| {
        let returned = node.run(call, block).await?;
        returned.ok().and_then(|returned| questions::read_states(&returned, channels)).ok_or(Failure::Nonsense)
    };
    let head = node.head().await?.number;
    let below = |blocks: u64| head.saturating_sub(blocks);
    let [claims_at, deposits_at] =
        [below(core.policy.final_after), below(core.policy.deposit_confirmations.saturating_sub(1))];
    let newest = match at(&hex(head)).await {
        Ok(states) => states.into_iter().map(|state| state.at_block(head)).collect(),
        // Behind one address there may be several nodes, of which this one is not that far.
        Err(Failure::Refusal(_)) => at("latest").await?,
        Err(failure) => return Err(failure),
    };
    let deep = async |number: u64| {
        if number == head {
            return Ok(newest.clone());
        }
        match node.run(call, &hex(number)).await? {
            // Before there was a contract, there was nothing in it.
            Ok(returned) if returned.is_empty() => Ok(vec![ChannelOnChain::default(); channels]),
            Ok(returned) => questions::read_states(&returned, channels).ok_or(Failure::Nonsense),
            Err(_) => Err(Failure::Nonsense),
        }
    };
    let (claims_at, deposits_at) = match claims_at == deposits_at {
        true => {
            let both = deep(claims_at).await?;
            (both.clone(), both)
        }
        false => try_join(deep(claims_at), deep(deposits_at)).await?,
    };
    let deep = claims_at.iter().zip(&deposits_at);
    Ok(newest.into_iter().zip(deep).map(|(newest, (claims, deposits))| newest.sure_of(claims, deposits)).collect())
}

/// Whether the payer's account signed a voucher: every node that answers says so, and most of them do.
pub(super) async fn is_signed_by_account(
    core: &Core,
    config: &ChannelConfig,
    voucher: &Voucher,
) -> Result<bool, SettleError> {
    let (network, payer) = (core.account.network, config.payer);
    let by_key = voucher.signer(network);
    if let Some(key) = config.voucher_key() {
        return Ok(by_key == Some(key));
    }
    let question = erc1271::is_valid_signature(B256::new(voucher.digest(network)), voucher.signature.as_bytes());
    let call = Call { from: BATCH_SETTLEMENT, to: payer, data: &question, gas: SIGNATURE_GAS, fees: None };
    let ask = async |node: &Node| {
        if !node.has_code(payer).await? {
            return Ok(by_key == Some(payer));
        }
        let said = node.run(&call, "latest").await?;
        Ok(core.policy.contract_accounts && said.is_ok_and(|returned| erc1271::is_accepted(&returned)))
    };
    let heard: Vec<bool> = core.account.nodes.each(ask).await.into_iter().flatten().collect();
    match heard.iter().all(|said| *said) {
        false => Ok(false),
        true if core.account.nodes.are_most(heard.len()) => Ok(true),
        true => Err(SettleError::unavailable()),
    }
}
