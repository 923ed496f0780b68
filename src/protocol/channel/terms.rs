//! `ChannelTerms`: what a seller asks of channels.

use crate::protocol::{Address, Amount};

/// What a seller asks of the channels that pay it, beside price, token and recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelTerms {
    /// The key that signs claims and refunds: the seller's, or its facilitator's.
    pub receiver_authorizer: Address,
    /// How long a payer waits for a withdrawal, in seconds: the time that the seller has to claim what it is owed.
    pub withdraw_delay: u32,
    /// The least deposit that is asked for, in base units; `None`: the client decides, ten times the price as a rule.
    pub min_deposit: Option<Amount>,
}

impl ChannelTerms {
    /// Asks for channels of this key, with this delay in seconds.
    #[must_use]
    pub const fn new(receiver_authorizer: Address, withdraw_delay: u32) -> Self {
        Self { receiver_authorizer, withdraw_delay, min_deposit: None }
    }

    /// Sets the least deposit that is asked for, in base units.
    #[must_use]
    pub const fn with_min_deposit(mut self, min_deposit: Amount) -> Self {
        self.min_deposit = Some(min_deposit);
        self
    }
}
