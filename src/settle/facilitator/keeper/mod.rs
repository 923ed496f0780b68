//! `Keeper`: the seller's own nodes, and optionally its key for claims, so that a facilitator's reports about channels
//! need not be believed.

mod reading;
mod settings;

use std::{sync::Arc, time::Duration};

use alloy::primitives::B256;
pub use settings::ChannelSettings;
use tokio::time::{Instant, sleep};

use crate::{
    evm::wallet::{connect, node::Failure, nodes::Nodes, signer::Signer},
    protocol::{
        Address, Network,
        channel::{ChannelConfig, ChannelDeposit, VoucherClaim},
    },
    settle::{
        SettleError,
        on_chain::{self, Depths},
    },
};

/// How long the seller's nodes may take to see what a facilitator reports as mined.
pub(super) const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// How often the chain is asked whether a fact holds.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A seller's own nodes and key.
pub(super) struct Keeper {
    pub(super) nodes: Nodes,
    pub(super) network: Network,
    /// The key that signs claims and refunds; `None` if the facilitator signs.
    signer: Option<Arc<Signer>>,
    /// The number of further blocks after which a claim is believed to stay.
    pub(super) final_after: u64,
}

/// The key did not sign.
pub(super) struct Refusal;

/// A fact that a facilitator should bring about.
pub(super) enum Fact<'a> {
    /// The deposit was made in the channel.
    Deposited(&'a ChannelConfig, &'a ChannelDeposit),
    /// All rows are claimed, in a block that is believed to stay.
    Claimed(&'a [VoucherClaim]),
    /// This total was swept to the receiver in this token.
    Swept([Address; 2], u128),
    /// The refund with this nonce was made.
    Refunded(&'a ChannelConfig, u64),
}

impl Keeper {
    pub(super) fn build(settings: ChannelSettings) -> Result<Self, SettleError> {
        let ChannelSettings { network, urls, signer, final_after } = settings;
        let nodes = connect::connect_lazily(&urls, false, network.chain_id())?;
        Ok(Self { nodes, network, signer: signer.transpose()?, final_after })
    }

    /// Returns the network and the depths at which claims and deposits count. A deposit counts in the newest block.
    pub(super) const fn at(&self) -> (Network, Depths) {
        (self.network, Depths { final_after: self.final_after, deposit_confirmations: 1 })
    }

    /// Returns the account of its own key.
    pub(super) fn authorizer(&self) -> Option<Address> {
        let signer = self.signer.as_ref()?;
        Some(Address::new(alloy::network::TxSigner::address(&***signer).into()))
    }

    /// Returns the account that a facilitator must have to sign claims of this channel; `None` if the seller's own key
    /// signs.
    pub(super) fn signing(&self, config: &ChannelConfig) -> Option<Address> {
        self.signer.is_none().then_some(config.receiver_authorizer)
    }

    /// Signs a claim or a refund; returns `Ok(None)` if the facilitator signs.
    ///
    /// # Errors
    /// If the key does not sign.
    pub(super) async fn authorize(&self, digest: [u8; 32]) -> Result<Option<String>, Refusal> {
        let Some(signer) = &self.signer else { return Ok(None) };
        let signed = signer.sign_hash(&B256::new(digest)).await.map_err(|_| Refusal)?;
        Ok(Some(const_hex::encode_prefixed(signed.as_bytes())))
    }

    /// Returns whether each of these addresses has code.
    pub(super) async fn are_contracts(&self, contracts: &[Address]) -> Result<bool, Failure> {
        self.nodes.are_contracts(contracts).await
    }

    /// Returns whether a token has EIP-3009.
    pub(super) async fn has_authorizations(&self, token: Address) -> Result<bool, Failure> {
        reading::has_authorizations(&self.nodes, token).await
    }

    /// Returns whether the fact holds on the chain.
    pub(super) async fn is_so(&self, fact: &Fact<'_>) -> Result<bool, Failure> {
        Ok(match fact {
            Fact::Deposited(config, deposit) => {
                reading::is_deposited(&self.nodes, config, (config.id(self.network), deposit)).await?
            }
            Fact::Claimed(claims) => reading::are_claimed(&self.nodes, claims, self.final_after).await,
            Fact::Swept([receiver, token], total) => {
                on_chain::due(&self.nodes, *receiver, *token).await?.total_settled >= *total
            }
            Fact::Refunded(config, nonce) => {
                let state = on_chain::state(&self.nodes, self.at(), config).await?;
                if state.of_few {
                    return Err(Failure::Silence);
                }
                state.refund_nonce > *nonce
            }
        })
    }

    /// Returns whether the fact holds before the time limit.
    pub(super) async fn becomes(&self, fact: &Fact<'_>, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if matches!(self.is_so(fact).await, Ok(true)) {
                return true;
            }
            if Instant::now() + LOOK_AGAIN >= end {
                return false;
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}
