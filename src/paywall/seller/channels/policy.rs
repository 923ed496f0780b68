//! `ChannelPolicy`: a seller's terms for channels, and when it claims.

use std::time::Duration;

use crate::{
    paywall::error::BuildError,
    protocol::{
        Address, Amount,
        channel::{ChannelTerms, WITHDRAW_DELAYS},
    },
};

/// A seller's terms for payment channels, and when it claims what was sold.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{ChannelPolicy, protocol::Amount};
///
/// let policy = ChannelPolicy::new()
///     .withdraw_delay(Duration::from_secs(6 * 3_600))
///     .min_deposit(Amount::from_cents(100, 6))
///     .claim_after(Duration::from_secs(600));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct ChannelPolicy {
    pub(crate) withdraw_delay: Duration,
    pub(crate) min_deposit: Option<Amount>,
    pub(crate) claim_after: Duration,
    pub(crate) claim_from: Option<Amount>,
    pub(crate) gas_share: Option<u8>,
    pub(crate) contract_payers: bool,
    pub(crate) deposits_by_permit2: bool,
}

impl ChannelPolicy {
    /// Returns the usual policy: a day's delay, no least deposit, and a claim an hour after the first unclaimed sale.
    pub const fn new() -> Self {
        Self {
            withdraw_delay: Duration::from_secs(24 * 3_600),
            min_deposit: None,
            claim_after: Duration::from_secs(3_600),
            claim_from: None,
            gas_share: None,
            contract_payers: false,
            deposits_by_permit2: false,
        }
    }

    /// Sets how long payers wait for a withdrawal: 15 minutes to 30 days, a day by default. Sales must be claimed in that time: it is the
    /// longest that all replicas together may be down without a loss.
    pub const fn withdraw_delay(mut self, delay: Duration) -> Self {
        self.withdraw_delay = delay;
        self
    }

    /// Sets the least deposit, in base units; none by default.
    pub const fn min_deposit(mut self, amount: Amount) -> Self {
        self.min_deposit = Some(amount);
        self
    }

    /// Sets how long sales may remain unclaimed: an hour by default, and a quarter of the delay at most.
    pub const fn claim_after(mut self, age: Duration) -> Self {
        self.claim_after = age;
        self
    }

    /// Sets the unclaimed sum, in base units, from which all channels of a token are claimed at once; by default only their age counts.
    pub const fn claim_from(mut self, sum: Amount) -> Self {
        self.claim_from = Some(sum);
        self
    }

    /// Sets the share, in percent, up to which the gas of a claim is worth it, 1 to 100. All channels of a token are claimed at once when
    /// their gas costs no more than this share of the unclaimed sum. By default only their age counts.
    ///
    /// The settler states what the gas costs. A [`WalletSettler`](crate::settle::WalletSettler) does so once it knows the [price of the
    /// coin](crate::settle::WalletSettlerBuilder::coin_price) in that token. If the settler does not, this changes nothing. What has been
    /// owed for [long](Self::claim_after), and what a payer withdraws, is claimed whatever its gas costs.
    pub const fn claim_at_gas_share(mut self, percent: u8) -> Self {
        self.gas_share = Some(percent);
        self
    }

    /// Also takes channels whose vouchers a contract account of the payer decides about (EIP-1271). Off by default: such an account may
    /// recognise a voucher when it is shown, but not when it is claimed.
    pub const fn accept_contract_payers(mut self) -> Self {
        self.contract_payers = true;
        self
    }

    /// Also asks for deposits by Permit2 in tokens with EIP-3009, if the settler makes them. Off by default: such a deposit needs the
    /// payer's allowance for Permit2. Tokens without EIP-3009 have no other deposits. A deposit by EIP-3009 is still taken.
    pub const fn deposits_by_permit2(mut self) -> Self {
        self.deposits_by_permit2 = true;
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let is_allowed =
            u32::try_from(self.withdraw_delay.as_secs()).is_ok_and(|seconds| WITHDRAW_DELAYS.contains(&seconds));
        let is_share = self.gas_share.is_none_or(|percent| (1..=100).contains(&percent));
        match is_allowed && is_share {
            true => Ok(()),
            false => Err(BuildError::OutOfRange { what: "channel_policy" }),
        }
    }

    /// Returns the terms as quotes state them, for claims that this key signs.
    pub(crate) fn terms(&self, receiver_authorizer: Address) -> ChannelTerms {
        let seconds = u32::try_from(self.withdraw_delay.as_secs()).unwrap_or(*WITHDRAW_DELAYS.end());
        let terms = ChannelTerms::new(receiver_authorizer, seconds);
        self.min_deposit.map_or(terms, |least| terms.with_min_deposit(least))
    }

    /// Returns how long sales may remain unclaimed.
    pub(crate) fn unclaimed_for(&self) -> Duration {
        self.claim_after.min(self.withdraw_delay / 4)
    }

    /// Returns how long a worker's last report counts without a further turn.
    pub(crate) fn silent_for(&self) -> Duration {
        self.withdraw_delay / 4
    }

    /// Returns how long a reading of a channel counts: a third of the delay, but at least half a minute and at most five.
    pub(crate) fn mirror_lasts(&self) -> Duration {
        (self.withdraw_delay / 3).clamp(Duration::from_secs(30), Duration::from_secs(300))
    }
}

impl Default for ChannelPolicy {
    fn default() -> Self {
        Self::new()
    }
}
