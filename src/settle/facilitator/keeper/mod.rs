//! `Keeper`: what a seller has of its own, so that no word of a facilitator about channels is believed: nodes, and perhaps the key that
//! signs claims.

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

/// How long the seller's nodes may take to have what a facilitator says is mined.
pub(super) const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// How often the chain is asked whether something has happened.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A seller's own nodes and key.
pub(super) struct Keeper {
    pub(super) nodes: Nodes,
    pub(super) network: Network,
    /// The key that signs claims and refunds; `None`: the facilitator's.
    signer: Option<Arc<Signer>>,
    /// After how many further blocks a claim is believed to stay.
    pub(super) final_after: u64,
}

/// The key did not sign.
pub(super) struct Refusal;

/// What a facilitator is to bring about.
pub(super) enum Fact<'a> {
    /// The deposit is made in the channel.
    Deposited(&'a ChannelConfig, &'a ChannelDeposit),
    /// All of it is claimed, in a block that is believed to stay.
    Claimed(&'a [VoucherClaim]),
    /// So much is swept in all, to the receiver, in this token.
    Swept([Address; 2], u128),
    /// The refund of this nonce is made.
    Refunded(&'a ChannelConfig, u64),
}

impl Keeper {
    pub(super) fn build(settings: ChannelSettings) -> Result<Self, SettleError> {
        let ChannelSettings { network, urls, signer, final_after } = settings;
        let nodes = connect::connect_lazily(&urls, false, network.chain_id())?;
        Ok(Self { nodes, network, signer: signer.transpose()?, final_after })
    }

    /// Where channels are read, and how deep what counts has to be. A deposit counts in the newest block.
    pub(super) const fn at(&self) -> (Network, Depths) {
        (self.network, Depths { final_after: self.final_after, deposit_confirmations: 1 })
    }

    /// The account of its own key.
    pub(super) fn authorizer(&self) -> Option<Address> {
        let signer = self.signer.as_ref()?;
        Some(Address::new(alloy::network::TxSigner::address(&***signer).into()))
    }

    /// The account that a facilitator has to have, where it signs claims of this channel.
    pub(super) fn signing(&self, config: &ChannelConfig) -> Option<Address> {
        self.signer.is_none().then_some(config.receiver_authorizer)
    }

    /// Signs a claim or a refund: `None` inside where the facilitator does.
    ///
    /// # Errors
    /// If the key would not.
    pub(super) async fn authorize(&self, digest: [u8; 32]) -> Result<Option<String>, Refusal> {
        let Some(signer) = &self.signer else { return Ok(None) };
        let signed = signer.sign_hash(&B256::new(digest)).await.map_err(|_| Refusal)?;
        Ok(Some(const_hex::encode_prefixed(signed.as_bytes())))
    }

    /// Whether there is code at each of these.
    pub(super) async fn are_contracts(&self, contracts: &[Address]) -> Result<bool, Failure> {
        self.nodes.are_contracts(contracts).await
    }

    /// Whether a token has EIP-3009.
    pub(super) async fn has_authorizations(&self, token: Address) -> Result<bool, Failure> {
        reading::has_authorizations(&self.nodes, token).await
    }

    /// Whether it is so on the chain.
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

    /// Whether it becomes so within this time.
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
