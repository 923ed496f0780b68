//! `ChannelSettings`: what a seller has of its own to keep channels through a facilitator.

use std::{fmt, path::Path, sync::Arc};

use crate::{
    evm::wallet::{connect, signer::Signer},
    protocol::Network,
    settle::SettleError,
};

/// How payment channels are kept [through a facilitator](super::super::FacilitatorSettlerBuilder::channels): on which network, whose nodes
/// tell what is in them, and who signs claims and refunds.
///
/// ```
/// use tower_x402::{protocol::Network, settle::{ChannelSettings, FacilitatorSettler}};
/// let channels = ChannelSettings::new(Network::BASE)
///     .endpoint("https://mainnet.base.org")
///     .receiver_authorizer_key("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d");
/// let settler = FacilitatorSettler::builder().url("https://facilitator.example").channels(channels).build()?;
/// # Ok::<(), tower_x402::settle::SettleError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ChannelSettings {
    pub(super) network: Network,
    pub(super) urls: Vec<String>,
    pub(super) signer: Option<Result<Arc<Signer>, SettleError>>,
    pub(super) final_after: u64,
}

impl ChannelSettings {
    /// Keeps channels on this network. It needs an [endpoint](Self::endpoint).
    pub const fn new(network: Network) -> Self {
        Self { network, urls: Vec::new(), signer: None, final_after: 12 }
    }

    /// Adds a node of the seller's: the https URL of its JSON-RPC interface, or http on loopback. Where several tell different things, what is
    /// worse for the seller counts.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Adds several nodes.
    pub fn endpoints(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Signs claims and refunds with this private key: 64 hexadecimal digits, with or without `0x`. Its account needs no ether.
    ///
    /// Without a key, the facilitator signs them: channels then name its account for good, and it can give back to payers what was sold and
    /// is not claimed yet.
    pub fn receiver_authorizer_key(mut self, private_key_hex: &str) -> Self {
        self.signer = Some(connect::key(private_key_hex).map(Arc::new).map_err(SettleError::from));
        self
    }

    /// The same, of the private key in this file. Reads the file now.
    pub fn receiver_authorizer_key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.signer = Some(connect::key_file(path.as_ref()).map(Arc::new).map_err(SettleError::from));
        self
    }

    /// Sets after how many further blocks a claim is believed to stay: 12 by default, 100 at most.
    pub const fn final_after(mut self, blocks: u64) -> Self {
        self.final_after = blocks;
        self
    }
}

/// Without the key and the URLs.
impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, final_after) = (&self.network, &self.final_after);
        f.debug_struct("ChannelSettings")
            .field("network", network)
            .field("final_after", final_after)
            .finish_non_exhaustive()
    }
}
