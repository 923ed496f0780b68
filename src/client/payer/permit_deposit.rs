//! `PermitDepositRequest`: a request for a deposit by Permit2.

use std::time::Duration;

use crate::{
    client::PurchaseId,
    protocol::{
        Address, ChainTime, Network, PaymentSignature,
        channel::{ChannelConfig, Permit2Deposit},
    },
};

/// A request to sign one deposit by Permit2, which the seller makes. What is signed is worth something in this channel alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitDepositRequest {
    /// The purchase that needs it.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The channel, whose token is deposited.
    pub channel: ChannelConfig,
    /// The amount, in base units.
    pub amount: u128,
    /// The number of the permit at Permit2: 32 random bytes.
    pub nonce: [u8; 32],
    /// The present time, by the layer's clock.
    pub now: ChainTime,
    /// For how long the deposit may be made: no longer than the seller asks for.
    pub valid_for: Duration,
}

impl PermitDepositRequest {
    /// Asks for a deposit of that amount, in base units, that can be made for a minute: for the tests of a payer.
    #[must_use]
    pub fn new(purchase: PurchaseId, network: Network, channel: ChannelConfig, amount: u128, now: ChainTime) -> Self {
        let (nonce, valid_for) = (rand::random(), Duration::from_secs(60));
        Self { purchase, network, channel, amount, nonce, now, valid_for }
    }

    /// Returns the account that deposits.
    #[must_use]
    pub const fn payer(&self) -> Address {
        self.channel.payer
    }

    /// Returns the deposit that is asked for, with this signature. Its deadline is `valid_for` after the later one of `now` and
    /// `chain_time`: a clock that is slow must not make it invalid.
    #[must_use]
    pub fn deposit(&self, chain_time: Option<ChainTime>, signature: PaymentSignature) -> Permit2Deposit {
        let deadline = self.now.max(chain_time.unwrap_or(self.now)).after(self.valid_for);
        let of = (self.channel.id(self.network), self.amount);
        Permit2Deposit::new(&self.channel, of, self.nonce, deadline, signature)
    }

    /// Whether this is what was asked for, apart from its deadline.
    pub(crate) fn is_met_by(&self, signed: &Permit2Deposit) -> bool {
        let asked = self.deposit(None, signed.signature.clone());
        *signed == Permit2Deposit { deadline: signed.deadline, ..asked }
    }
}
