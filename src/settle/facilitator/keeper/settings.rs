//! `ChannelSettings`: the seller's own nodes and key for channels through a facilitator.

use std::{fmt, path::Path, sync::Arc};

use crate::{
    evm::wallet::{connect, signer::Signer},
    protocol::Network,
    settle::SettleError,
};

/// The settings of payment channels [through a facilitator](super::super::FacilitatorSettlerBuilder::channels): the
/// network, the nodes that report their state, and the key that signs claims and refunds.
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
    /// Creates settings for this network. They need an [endpoint](Self::endpoint).
    pub const fn new(network: Network) -> Self {
        Self { network, urls: Vec::new(), signer: None, final_after: 12 }
    }

    /// Adds a node of the seller: the `https` URL of its JSON-RPC interface, or `http` on loopback. If nodes differ,
    /// the value that is worse for the seller counts.
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
    /// Without a key, the facilitator signs them. Channels then name its account permanently, and it can refund to
    /// payers what was sold and is not claimed yet.
    pub fn receiver_authorizer_key(mut self, private_key_hex: &str) -> Self {
        self.signer = Some(connect::key(private_key_hex).map(Arc::new).map_err(SettleError::from));
        self
    }

    /// Signs claims and refunds with the private key in this file. Reads the file immediately.
    pub fn receiver_authorizer_key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.signer = Some(connect::key_file(path.as_ref()).map(Arc::new).map_err(SettleError::from));
        self
    }

    /// Sets the number of further blocks after which a claim is believed to stay. Default: 12; at most 100.
    pub const fn final_after(mut self, blocks: u64) -> Self {
        self.final_after = blocks;
        self
    }
}

/// Omits the key and the URLs.
impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, final_after) = (&self.network, &self.final_after);
        f.debug_struct("ChannelSettings")
            .field("network", network)
            .field("final_after", final_after)
            .finish_non_exhaustive()
    }
}
