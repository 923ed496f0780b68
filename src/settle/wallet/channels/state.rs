//! What nodes say of a channel, and what a payer's account says of a voucher.

use alloy::primitives::B256;

use super::super::questions;
use crate::{
    evm::{
        erc1271,
        wallet::node::{Call, Failure, Node},
    },
    protocol::channel::{BATCH_SETTLEMENT, ChannelConfig, Voucher},
    settle::{
        ChannelOnChain, SettleError,
        wallet::{core::Core, trial::SIGNATURE_GAS},
    },
};

/// The most gas that the contract may take to tell a state.
const STATE_GAS: u64 = 300_000;

/// The state of a channel: of what nodes say, the worst for the seller.
pub(super) async fn read(core: &Core, config: &ChannelConfig) -> Result<ChannelOnChain, Failure> {
    let question = questions::state(config.id(core.account.network));
    let call = Call { from: core.account.address, to: BATCH_SETTLEMENT, data: &question, gas: STATE_GAS, fees: None };
    let ask = async |node: &Node| {
        let returned = node.run(&call, "latest").await?;
        returned.ok().and_then(|returned| questions::read_state(&returned)).ok_or(Failure::Nonsense)
    };
    let answers = core.account.nodes.each(ask).await;
    answers
        .into_iter()
        .reduce(|one, other| match (one, other) {
            (Ok(one), Ok(other)) => Ok(one.worse(other)),
            (Ok(state), Err(_)) | (Err(_), Ok(state)) => Ok(state),
            (Err(failure), Err(_)) => Err(failure),
        })
        .unwrap_or(Err(Failure::Silence))
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
