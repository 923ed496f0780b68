//! Requests for a permit (Permit2), and what an account can pay by permits.

use std::time::Duration;

use crate::{
    client::PurchaseId,
    protocol::{
        Address, Amount, ChainTime, Network,
        permit2::{Permit, PermitScheme},
    },
};

/// A request to sign one permit, which the seller turns into a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitRequest {
    /// The purchase that is paid.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The token contract.
    pub token: Address,
    /// The account to pay.
    pub recipient: Address,
    /// The amount, in base units; with a `facilitator`, the maximum of the charge.
    pub amount: Amount,
    /// The only account that may charge it, in the scheme `upto`; `None` in the scheme `exact`.
    pub facilitator: Option<Address>,
    /// The nonce: 32 random bytes.
    pub nonce: [u8; 32],
    /// The present time, by the layer's clock.
    pub now: ChainTime,
    /// How long the permit should be valid: at most as long as the seller asks for.
    pub valid_for: Duration,
}

impl PermitRequest {
    /// Creates a request for a permit of exactly that amount, valid for a minute, for the tests of a payer.
    #[must_use]
    pub fn new(
        purchase: PurchaseId,
        network: Network,
        token: Address,
        recipient: Address,
        amount: Amount,
        now: ChainTime,
    ) -> Self {
        let (facilitator, nonce, valid_for) = (None, rand::random(), Duration::from_secs(60));
        Self { purchase, network, token, recipient, amount, facilitator, nonce, now, valid_for }
    }

    /// Returns the same request for a permit of the scheme `upto`, which this account may charge.
    #[must_use]
    pub const fn up_to(mut self, facilitator: Address) -> Self {
        self.facilitator = Some(facilitator);
        self
    }

    /// Returns the requested permit for this payer and the scheme's own proxy. It is valid at once, and ends
    /// `valid_for` after the later of `now` and `chain_time`, so that a slow clock does not make it invalid.
    #[must_use]
    pub fn permit(&self, payer: Address, chain_time: Option<ChainTime>) -> Permit {
        let now = self.now.max(chain_time.unwrap_or(self.now));
        let permit = match self.facilitator {
            Some(facilitator) => Permit::new(PermitScheme::UpTo, payer, self.nonce).by_facilitator(facilitator),
            None => Permit::new(PermitScheme::Exact, payer, self.nonce),
        };
        let permit = permit.paying(self.recipient, self.token, self.amount);
        permit.valid_between(ChainTime::from_unix(0), now.after(self.valid_for))
    }

    /// Returns whether a permit meets the request, apart from its times.
    pub(crate) fn is_met_by(&self, signed: &Permit) -> bool {
        let asked = self.permit(signed.from, None);
        *signed == Permit { deadline: signed.deadline, valid_after: signed.valid_after, ..asked }
    }
}

/// What an account can pay by permits of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitFunds {
    /// The account's balance, in base units.
    pub balance: Amount,
    /// How much the account allows Permit2 to move, in base units.
    pub allowance: Amount,
}

impl PermitFunds {
    /// Creates it from balance and allowance.
    #[must_use]
    pub const fn new(balance: Amount, allowance: Amount) -> Self {
        Self { balance, allowance }
    }
}
