//! `HeldChannel`: a payment channel as its payer sees it.

use std::fmt;

use super::{ChannelPhase, JournalEntry, PurchaseId};
use crate::protocol::{
    Amount, ChainTime, Network,
    channel::{ChannelConfig, ChannelId},
};

/// A payment channel in a layer's journal. Its amounts come from the journal; the chain is not asked.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldChannel {
    /// The channel's id on the chain.
    pub id: ChannelId,
    /// The network.
    pub network: Network,
    /// Its parties, its token and its delay.
    pub config: ChannelConfig,
    /// The seller's host, with the port.
    pub host: String,
    /// When it was opened, by the payer's clock.
    pub opened: ChainTime,
    /// The total of all deposits that did not come back, in base units.
    pub deposited: Amount,
    /// The total that was charged for answers, in base units.
    pub charged: Amount,
    /// The highest total that was ever signed, in base units: the most that the seller can claim. For an
    /// [adopted](Self::is_adopted) channel, the highest since the adoption.
    pub signed: Amount,
    /// The highest total that [`charged`](Self::charged) may have reached by purchases that were abandoned, earlier charges included, in base
    /// units; 0 if there is none.
    pub doubtful: Amount,
    /// What came back according to the chain, in base units.
    pub refunded: Amount,
    /// The decimals of all amounts.
    pub decimals: u8,
    /// The purchase whose charge is not known yet. Nothing else is signed before it is answered or abandoned.
    pub waits_for: Option<PurchaseId>,
    /// The phase of the channel.
    pub phase: ChannelPhase,
    /// Whether the channel was adopted after its journal was lost, and its seller has not stated its count yet: more
    /// may be signed than [`signed`](Self::signed) says, up to the whole deposit.
    pub is_adopted: bool,
}

impl HeldChannel {
    pub(super) fn of(entry: &JournalEntry) -> Option<Self> {
        let record = entry.channel_record()?;
        Some(Self {
            id: record.config.id(entry.network),
            network: entry.network,
            config: record.config,
            host: entry.host.clone(),
            opened: entry.at,
            deposited: record.deposited,
            charged: record.charged,
            signed: record.signed,
            doubtful: record.doubtful,
            refunded: record.refunded,
            decimals: entry.decimals,
            waits_for: record.open.map(|open| open.purchase),
            phase: record.phase,
            is_adopted: record.is_adopted,
        })
    }

    /// Returns what is left for answers, in base units, assuming that all doubtful charges were made.
    #[must_use]
    pub fn left(&self) -> Amount {
        self.deposited.checked_sub(self.charged.max(self.doubtful)).unwrap_or(Amount::ZERO)
    }
}

impl fmt::Debug for HeldChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldChannel")
            .field("id", &self.id)
            .field("network", &self.network)
            .field("host", &self.host)
            .field("deposited", &self.deposited)
            .field("charged", &self.charged)
            .field("signed", &self.signed)
            .field("refunded", &self.refunded)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
