//! `ChannelTerms`: a seller's requirements for channels.

use crate::protocol::{Address, Amount};

/// A seller's requirements for the channels that pay it, besides price, token and recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelTerms {
    /// The key that signs claims and refunds: the seller's, or its facilitator's.
    pub receiver_authorizer: Address,
    /// How long a payer waits for a withdrawal, in seconds: the time that the seller has to claim its debt.
    pub withdraw_delay: u32,
    /// The minimum deposit, in base units; `None` if the client decides, typically ten times the price.
    pub min_deposit: Option<Amount>,
}

impl ChannelTerms {
    /// Requires channels with this key and this delay in seconds.
    #[must_use]
    pub const fn new(receiver_authorizer: Address, withdraw_delay: u32) -> Self {
        Self { receiver_authorizer, withdraw_delay, min_deposit: None }
    }

    /// Sets the minimum deposit, in base units.
    #[must_use]
    pub const fn with_min_deposit(mut self, min_deposit: Amount) -> Self {
        self.min_deposit = Some(min_deposit);
        self
    }
}
