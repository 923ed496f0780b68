//! `PreparedVoucher`: a signed voucher that is ready to be shown. `DepositRequest`: a request for a deposit.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::stored_channel;
use crate::{
    client::PurchaseId,
    protocol::{
        Address, Amount, ChainTime, Network, TokenDomain,
        channel::{ChannelConfig, ChannelDeposit, ChannelId, ChannelPayload, DepositAuthorization, Voucher},
    },
};

/// A voucher, with a deposit if the channel held too little. Anyone who has it can take from the channel only what it
/// adds to the total.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PreparedVoucher {
    /// The chain.
    pub(crate) network: Network,
    /// What was charged to the channel before it.
    pub(crate) before: Amount,
    /// The payment: channel, voucher, deposit.
    #[serde(with = "stored_channel::payload")]
    pub(crate) payload: ChannelPayload,
    /// The message that the seller is shown, as JSON.
    pub(crate) message: String,
}

impl PreparedVoucher {
    pub(crate) const fn config(&self) -> &ChannelConfig {
        self.payload.config()
    }

    pub(crate) const fn voucher(&self) -> &Voucher {
        self.payload.voucher()
    }

    pub(crate) const fn channel(&self) -> ChannelId {
        self.voucher().channel
    }

    pub(crate) fn total(&self) -> Amount {
        Amount::from_base_units(self.voucher().max_claimable)
    }

    pub(crate) const fn deposit(&self) -> Option<&ChannelDeposit> {
        if let ChannelPayload::Deposit { deposit, .. } = &self.payload { Some(deposit) } else { None }
    }

    pub(crate) fn deposited(&self) -> Amount {
        self.deposit().map_or(Amount::ZERO, |deposit| Amount::from_base_units(deposit.amount))
    }

    /// Returns the time before which its deposit can be made; the Unix epoch without a deposit, because a voucher has
    /// no end.
    pub(crate) const fn valid_before(&self) -> ChainTime {
        match self.deposit() {
            Some(ChannelDeposit { authorization: DepositAuthorization::Erc3009(of), .. }) => of.valid_before,
            // It is still valid at its deadline.
            Some(ChannelDeposit { authorization: DepositAuthorization::Permit2(of), .. }) => {
                ChainTime::from_unix(of.deadline.unix().saturating_add(1))
            }
            None => ChainTime::from_unix(0),
        }
    }
}

/// Omits signatures.
impl fmt::Debug for PreparedVoucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedVoucher")
            .field("network", &self.network)
            .field("channel", &self.channel())
            .field("before", &self.before)
            .field("total", &self.total())
            .field("deposited", &self.deposited())
            .finish_non_exhaustive()
    }
}

/// A request to sign one deposit, which the seller submits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DepositRequest {
    /// The purchase that needs it.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The token, and the domain of its authorizations, as
    /// [`Authorizer::authorizes`](crate::client::Authorizer::authorizes) returned it.
    pub domain: TokenDomain,
    /// The channel.
    pub channel: ChannelConfig,
    /// The amount, in base units.
    pub amount: u128,
    /// The random part of the nonce, which also contains the channel: 32 bytes.
    pub salt: [u8; 32],
    /// The present time, by the layer's clock.
    pub now: ChainTime,
    /// How long the deposit should be valid: at most as long as the seller asks for.
    pub valid_for: Duration,
}

/// What a channel holds on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelFunds {
    /// All deposits that did not come back, claimed or not, in base units.
    pub balance: Amount,
    /// What the seller has claimed of the balance, in base units.
    pub claimed: Amount,
    /// A withdrawal in progress: its amount in base units, and when it began.
    pub withdrawing: Option<(Amount, ChainTime)>,
}

impl ChannelFunds {
    /// Creates it from the contract's values, without a withdrawal.
    #[must_use]
    pub const fn new(balance: Amount, claimed: Amount) -> Self {
        Self { balance, claimed, withdrawing: None }
    }

    /// Sets the withdrawal in progress, and when it began.
    #[must_use]
    pub const fn withdrawing(mut self, amount: Amount, since: ChainTime) -> Self {
        self.withdrawing = Some((amount, since));
        self
    }
}

/// What a channel holds according to a majority of the nodes: the most, at blocks that are deep enough to stay and now,
/// and the least now. Refunds count only by these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettledFunds {
    /// The highest balance, in base units.
    pub balance: Amount,
    /// The lowest claimed amount, in base units.
    pub claimed: Amount,
    /// The lowest balance now, in base units.
    pub least: Amount,
    /// The time of the deep block that was read; the earliest, if nodes differ.
    pub time: ChainTime,
    /// Whether there is such a block. On a chain too young for it, no refund counts, and no channel is closed.
    pub is_deep: bool,
}

impl SettledFunds {
    /// Creates it from the values at one block that is deep enough.
    #[must_use]
    pub const fn new(balance: Amount, claimed: Amount, time: ChainTime) -> Self {
        Self { balance, claimed, least: balance, time, is_deep: true }
    }

    /// Marks the chain as too young for a deep block.
    #[must_use]
    pub const fn of_a_young_chain(mut self) -> Self {
        self.is_deep = false;
        self
    }

    /// Sets the lowest balance now.
    #[must_use]
    pub const fn with_least(mut self, least: Amount) -> Self {
        self.least = least;
        self
    }

    /// Returns what is left for the payer.
    pub(crate) fn left(&self) -> Amount {
        self.balance.checked_sub(self.claimed).unwrap_or(Amount::ZERO)
    }

    /// Returns the worse of two readings for the payer, field by field.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        Self {
            balance: self.balance.max(other.balance),
            claimed: self.claimed.min(other.claimed),
            least: self.least.min(other.least),
            time: self.time.min(other.time),
            is_deep: self.is_deep && other.is_deep,
        }
    }
}

impl DepositRequest {
    /// Creates a request for a deposit of that amount, in base units, valid for a minute, for the tests of a payer.
    #[must_use]
    pub fn new(
        purchase: PurchaseId,
        network: Network,
        domain: TokenDomain,
        channel: ChannelConfig,
        amount: u128,
        now: ChainTime,
    ) -> Self {
        let (salt, valid_for) = (rand::random(), Duration::from_secs(60));
        Self { purchase, network, domain, channel, amount, salt, now, valid_for }
    }

    /// Returns the end of the deposit: `valid_for` after the later of `now` and `chain_time`.
    #[must_use]
    pub fn valid_before(&self, chain_time: Option<ChainTime>) -> ChainTime {
        self.now.max(chain_time.unwrap_or(self.now)).after(self.valid_for)
    }

    /// Returns the account that deposits.
    #[must_use]
    pub const fn payer(&self) -> Address {
        self.channel.payer
    }
}
