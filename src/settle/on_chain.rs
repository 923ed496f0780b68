//! Reads channels from the seller's own nodes, even if a facilitator sends the transactions.

use std::{collections::HashSet, slice};

use alloy::primitives::B256;
use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join, stream};

use super::{ChannelOnChain, ChannelRefund, RefusedClaim, SettleError, SettleErrorKind, questions};
use crate::{
    evm::{
        channel::{self, Due},
        erc1271,
        wallet::{
            node::{Call, Failure, Node, hex},
            nodes::Nodes,
        },
    },
    protocol::{
        Address, Amount, ChainTime, Network,
        channel::{BATCH_SETTLEMENT, ChannelConfig, Voucher, VoucherClaim},
        v2::Reason,
    },
};

/// The gas limit for reading the state of one channel from the contract.
const STATE_GAS: u64 = 300_000;
/// How many channels are read in one request.
const AT_ONCE: usize = 50;
/// How many such requests are under way at once.
const QUESTIONS: usize = 2;
/// The gas limit for reading what is claimed for a receiver.
const VIEW_GAS: u64 = 100_000;
/// The gas limit for a contract account's check of a signature.
const SIGNATURE_GAS: u64 = 300_000;
/// The gas limits of a claim besides its rows, of a row with a voucher signed by a key, and of a row that a contract
/// account checks.
pub(super) const CALL_GAS: u64 = 200_000;
const KEY_ROW_GAS: u64 = 50_000;
const ACCOUNT_ROW_GAS: u64 = 300_000;

/// The depths at which a claim and a deposit count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depths {
    /// The number of further blocks after which a claim is believed to stay.
    pub(super) final_after: u64,
    /// The number of blocks, including its own, that must confirm a deposit before it covers vouchers.
    pub(super) deposit_confirmations: u64,
}

/// The most blocks that a claim may wait to be final: with more, it would outlast the claiming worker's turn, and be
/// sent again.
const FINAL_AFTER_MOST: u64 = 100;

impl Depths {
    /// Checks that a claim can finish within the claiming worker's turn.
    pub(super) const fn check(self) -> Result<(), SettleError> {
        match self.final_after <= FINAL_AFTER_MOST {
            true => Ok(()),
            false => Err(SettleError::new(SettleErrorKind::InvalidSetting { what: "final_after" })),
        }
    }

    /// Everything counts immediately.
    const NONE: Self = Self { final_after: 0, deposit_confirmations: 1 };
}

/// Returns the state of a channel: the worst of the nodes' answers for the seller.
pub(super) async fn state(
    nodes: &Nodes,
    (network, depths): (Network, Depths),
    config: &ChannelConfig,
) -> Result<ChannelOnChain, Failure> {
    let states = read_chunk(nodes, (network, depths), slice::from_ref(config)).await?;
    states.into_iter().next().ok_or(Failure::Nonsense)
}

/// Returns the states of several channels, in their order.
pub(super) async fn states(
    nodes: &Nodes,
    at: (Network, Depths),
    configs: &[ChannelConfig],
) -> Result<Vec<ChannelOnChain>, Failure> {
    let chunks: Vec<_> = configs.chunks(AT_ONCE).map(|chunk| read_chunk(nodes, at, chunk)).collect();
    let states: Vec<_> = stream::iter(chunks).buffered(QUESTIONS).try_collect().await?;
    Ok(states.concat())
}

async fn read_chunk(
    nodes: &Nodes,
    (network, depths): (Network, Depths),
    configs: &[ChannelConfig],
) -> Result<Vec<ChannelOnChain>, Failure> {
    let ids: Vec<_> = configs.iter().map(|config| config.id(network)).collect();
    let (question, gas) = (questions::states(&ids), STATE_GAS.saturating_mul(ids.len() as u64));
    let call = Call { from: BATCH_SETTLEMENT, to: BATCH_SETTLEMENT, data: &question, gas, fees: None };
    // Each reading proves the chain again: another one, with other block numbers, may answer at a node's address.
    let ask = async |node: &Node| {
        let ((), said) = try_join(nodes.prove(node), said_by(node, depths, &call, ids.len())).await?;
        Ok(said)
    };
    agreed(nodes, nodes.each_following(ask).await, ids.len())
}

/// Combines the nodes' answers about this many channels.
fn agreed(
    nodes: &Nodes,
    answers: Vec<Result<Vec<ChannelOnChain>, Failure>>,
    channels: usize,
) -> Result<Vec<ChannelOnChain>, Failure> {
    let heard: Vec<_> = answers.iter().flatten().cloned().collect();
    let by_most: Vec<_> = (0..channels).map(|channel| said_by_most(nodes, &heard, channel)).collect();
    let worse = |one: Vec<ChannelOnChain>, other: Vec<ChannelOnChain>| {
        one.into_iter().zip(other).map(|(one, other)| one.worse(other)).collect()
    };
    let states = answers
        .into_iter()
        .reduce(|one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(worse(one, other)),
            (Ok(states), Err(_)) | (Err(_), Ok(states)) => Ok(states),
            (Err(failure), Err(_)) => Err(failure),
        })
        .unwrap_or(Err(Failure::Silence))?;
    let states = states.into_iter().zip(by_most).map(|(state, by_most)| match by_most {
        Some((claimed_at_most, refund_nonce)) => ChannelOnChain { claimed_at_most, refund_nonce, ..state },
        // A few nodes may state a false block number, by which every later reading would look old.
        None => state.of_few_nodes(),
    });
    Ok(states.collect())
}

/// Returns the highest claimed sum and the highest refund count of one channel that more than half of all nodes reach;
/// `None` if fewer answer. A single lying node cannot raise either.
fn said_by_most(nodes: &Nodes, heard: &[Vec<ChannelOnChain>], channel: usize) -> Option<(Amount, u64)> {
    let states = || heard.iter().filter_map(|states| states.get(channel));
    let claimed = highest_of_most(nodes, states().map(|state| state.claimed_at_most))?;
    Some((claimed, highest_of_most(nodes, states().map(|state| state.refund_nonce))?))
}

/// Returns the highest value that more than half of all nodes reach; `None` if too few answered.
fn highest_of_most<T: Copy + Ord>(nodes: &Nodes, said: impl Iterator<Item = T>) -> Option<T> {
    let mut said: Vec<T> = said.collect();
    said.sort_unstable();
    said.into_iter().rev().enumerate().find(|(above, _)| nodes.are_most(above + 1)).map(|(_, value)| value)
}

/// Returns one node's answer: the time of its newest block, and the states there, in which a claim and a deposit count
/// only once they are deep enough.
async fn said_by(
    node: &Node,
    depths: Depths,
    call: &Call<'_>,
    channels: usize,
) -> Result<(ChainTime, Vec<ChannelOnChain>), Failure> {
    let at = async |block: &str| {
        let returned = node.run(call, block).await?;
        returned.ok().and_then(|returned| questions::read_states(&returned, channels)).ok_or(Failure::Nonsense)
    };
    let newest = node.head().await?;
    let (head, time) = (newest.number, newest.time);
    let below = |blocks: u64| head.saturating_sub(blocks);
    let [claims_at, deposits_at] = [below(depths.final_after), below(depths.deposit_confirmations.saturating_sub(1))];
    let newest = match at(&hex(head)).await {
        Ok(states) => states.into_iter().map(|state| state.at_block(head)).collect(),
        // One address may serve several nodes, and this one may lag behind.
        Err(Failure::Refusal(_)) => at("latest").await?,
        Err(failure) => return Err(failure),
    };
    let deep = async |number: u64| {
        if number == head {
            return Ok(newest.clone());
        }
        match node.run(call, &hex(number)).await? {
            // Before the contract existed, its channels were empty.
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
    let sure = newest.into_iter().zip(deep).map(|(newest, (claims, deposits))| newest.sure_of(claims, deposits));
    Ok((time, sure.collect()))
}

/// Returns whether the payer's account signed a voucher. Every node that answers must agree, and a majority must
/// answer.
pub(super) async fn is_signed_by_account(
    nodes: &Nodes,
    (network, contract_accounts): (Network, bool),
    config: &ChannelConfig,
    voucher: &Voucher,
) -> Result<bool, SettleError> {
    let (payer, by_key) = (config.payer, voucher.signer(network));
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
        Ok(contract_accounts && said.is_ok_and(|returned| erc1271::is_accepted(&returned)))
    };
    let heard: Vec<bool> = nodes.each(ask).await.into_iter().flatten().collect();
    match heard.iter().all(|said| *said) {
        false => Ok(false),
        true if nodes.are_most(heard.len()) => Ok(true),
        true => Err(SettleError::unavailable()),
    }
}

/// Returns how much was ever claimed for a receiver in a token, and how much of it was swept.
pub(super) async fn due(nodes: &Nodes, receiver: Address, token: Address) -> Result<Due, Failure> {
    let question = channel::receivers(receiver, token);
    let call = Call { from: receiver, to: BATCH_SETTLEMENT, data: &question, gas: VIEW_GAS, fees: None };
    let returned = nodes.first(|node| node.run(&call, "latest")).await?;
    returned.ok().and_then(|returned| channel::read_due(&returned)).ok_or(Failure::Nonsense)
}

/// Returns the gas limit of a claim with this row alone.
pub(super) fn row_gas(claim: &VoucherClaim) -> u64 {
    let of_row = if claim.config.voucher_key().is_some() { KEY_ROW_GAS } else { ACCOUNT_ROW_GAS };
    CALL_GAS + of_row
}

/// Returns why this row cannot be claimed, if every node reports that it fails by itself.
pub(super) async fn bad_row(nodes: &Nodes, network: Network, claim: &VoucherClaim) -> Option<Reason> {
    let data = channel::claim_directly(slice::from_ref(claim));
    let (from, gas) = (claim.config.receiver_authorizer, row_gas(claim));
    let call = Call { from, to: BATCH_SETTLEMENT, data: &data, gas, fees: None };
    if !nodes.all_say(async |node| Ok(node.run(&call, "pending").await?.is_err())).await {
        return None;
    }
    let state = state(nodes, (network, Depths::NONE), &claim.config).await.ok();
    Some(match state {
        Some(state) if state.balance < Amount::from_base_units(claim.total_claimed) => {
            Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE
        }
        _ if claim.config.voucher_key().is_none() => Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE,
        _ => Reason::INVALID_BATCH_SETTLEMENT_EVM_CLAIM_SIMULATION_FAILED,
    })
}

/// Returns the rows that this authorizer cannot claim, as far as a check without I/O shows.
pub(super) fn misfits(network: Network, authorizer: Address, claims: &[VoucherClaim]) -> Vec<RefusedClaim> {
    let mut seen = HashSet::new();
    let reason = |claim: &VoucherClaim| {
        misfit(network, authorizer, claim).or_else(|| {
            let is_again = !seen.insert(claim.voucher.channel);
            is_again.then_some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_BUSY)
        })
    };
    let reasons = claims.iter().map(reason).enumerate();
    reasons.filter_map(|(row, reason)| Some(RefusedClaim::new(row, reason?))).collect()
}

/// Returns why this authorizer cannot claim this row, without I/O.
pub(super) fn misfit(network: Network, authorizer: Address, claim: &VoucherClaim) -> Option<Reason> {
    let config = &claim.config;
    match () {
        () if config.receiver_authorizer != authorizer => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH)
        }
        () if claim.voucher.channel != config.id(network) => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH)
        }
        () if claim.total_claimed > claim.voucher.max_claimable => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHARGE_EXCEEDS_SIGNED_CUMULATIVE)
        }
        () if config.voucher_key().is_some_and(|key| claim.voucher.signer(network) != Some(key)) => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_VOUCHER_SIGNATURE)
        }
        () => None,
    }
}

/// Returns whether this is the channel's next refund, according to a majority of the nodes. Any other could be used
/// only later, or never.
pub(super) const fn is_next(state: &ChannelOnChain, refund: &ChannelRefund) -> bool {
    !state.of_few && state.refund_nonce == refund.nonce
}

/// Returns what the channel holds beyond the claimed amount and the amount to be claimed.
pub(super) fn left(state: &ChannelOnChain, refund: &ChannelRefund) -> Amount {
    let to_claim = refund.claim.as_ref().map_or(0, |claim| claim.total_claimed);
    let sold = state.claimed_at_most.max(Amount::from_base_units(to_claim));
    state.balance.checked_sub(sold).unwrap_or(Amount::ZERO)
}

/// Returns why the refund is invalid, as far as a check without I/O shows.
pub(super) fn misfit_of(network: Network, authorizer: Address, refund: &ChannelRefund) -> Option<Reason> {
    let config = &refund.config;
    match &refund.claim {
        _ if config.receiver_authorizer != authorizer => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH)
        }
        _ if refund.amount == 0 => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID),
        Some(claim) if claim.config != *config => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH),
        Some(claim) => misfit(network, authorizer, claim),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use axum::{Json, Router, routing::post};
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;

    /// A refund of 400 was just mined, and only one of three nodes has its block. The balance already lacks those 400,
    /// so they must not be deducted again.
    #[test]
    fn nodes_that_are_a_block_apart_are_known_to_differ_about_refunds() {
        let units = Amount::from_base_units;
        let nodes =
            Nodes::new((1..=3).map(|port| Node::new(&format!("http://127.0.0.1:{port}")).unwrap()).collect(), 1);
        let state = |balance, nonce, block| {
            ChannelOnChain::new(units(balance), units(0)).with_refund_nonce(nonce).at_block(block)
        };
        let agreed = |states: [ChannelOnChain; 3]| {
            let answers = states.map(|state| Ok(vec![state])).into_iter().collect();
            agreed(&nodes, answers, 1).ok().unwrap()[0]
        };
        let [before, after] = [state(1_000, 3, 10), state(600, 4, 11)];
        assert_eq!(agreed([after, before, before]), state(600, 3, 10).with_differing_refunds());
        assert_eq!(agreed([before, after, after]), state(600, 4, 10).with_differing_refunds());
        assert_eq!(agreed([after; 3]), after);
    }

    /// Whether another chain answers at the node's address.
    #[derive(Clone, Default)]
    struct Behind(Arc<AtomicBool>);

    /// A node of chain 1 at block 100. Chain 2 may answer in its place, with higher block numbers.
    async fn node(behind: Behind) -> Nodes {
        let answer = move |Json(question): Json<Value>| async move {
            let (id, number) = if behind.0.load(Ordering::SeqCst) { (2, 145_000_000) } else { (1, 100) };
            let word = |number: u64| format!("{number:064x}");
            let result = match question["method"].as_str() {
                Some("eth_chainId") => json!(format!("{id:#x}")),
                Some("eth_getBlockByNumber") => json!({
                    "number": format!("{number:#x}"), "timestamp": "0x66000000",
                    "hash": format!("0x{}", word(2)), "parentHash": format!("0x{}", word(1)),
                }),
                // The channel is empty.
                _ => json!(format!("0x{}", [32, 3, 96, 192, 288, 64, 0, 0, 64, 0, 0, 32, 0].map(word).concat())),
            };
            Json(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(answer))).await });
        Nodes::new(vec![Node::new(&url).unwrap()], 1)
    }

    /// The other chain's block number would make every true reading look older. SECURITY row 17.
    #[tokio::test]
    async fn what_another_chain_says_of_a_channel_is_not_read() {
        let behind = Behind::default();
        let nodes = node(behind.clone()).await;
        let config = ChannelConfig::new(Address::ZERO, Address::ZERO, Address::ZERO);
        let read = async || {
            let state = state(&nodes, (Network::eip155(1), Depths::NONE), &config).await;
            state.ok().map(|state| state.as_of)
        };
        assert_eq!(read().await, Some(Some(100)));
        behind.0.store(true, Ordering::SeqCst);
        assert_eq!(read().await, None);
        behind.0.store(false, Ordering::SeqCst);
        assert_eq!(read().await, Some(Some(100)));
    }
}
