//! `PermitDepositRequest`: a request for a deposit by Permit2.

use std::time::Duration;

use crate::{
    client::PurchaseId,
    protocol::{
        Address, ChainTime, Network, PaymentSignature,
        channel::{ChannelConfig, Permit2Deposit},
    },
};

/// A request to sign one deposit by Permit2, which the seller submits. The signature is valid for this channel only.
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
    /// The Permit2 nonce: 32 random bytes.
    pub nonce: [u8; 32],
    /// The present time, by the layer's clock.
    pub now: ChainTime,
    /// How long the deposit should be valid: at most as long as the seller asks for.
    pub valid_for: Duration,
}

impl PermitDepositRequest {
    /// Creates a request for a deposit of that amount, in base units, valid for a minute, for the tests of a payer.
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

    /// Returns the requested deposit with this signature. Its deadline is `valid_for` after the later of `now` and
    /// `chain_time`, so that a slow clock does not make it invalid.
    #[must_use]
    pub fn deposit(&self, chain_time: Option<ChainTime>, signature: PaymentSignature) -> Permit2Deposit {
        let deadline = self.now.max(chain_time.unwrap_or(self.now)).after(self.valid_for);
        let of = (self.channel.id(self.network), self.amount);
        Permit2Deposit::new(&self.channel, of, self.nonce, deadline, signature)
    }

    /// Returns whether a deposit meets the request, apart from its deadline.
    pub(crate) fn is_met_by(&self, signed: &Permit2Deposit) -> bool {
        let asked = self.deposit(None, signed.signature.clone());
        *signed == Permit2Deposit { deadline: signed.deadline, ..asked }
    }
}
