//! `ChannelSettler`: channel operations on the chain: state, deposits, claims and refunds.

use std::future::Future;

use super::{SettleError, Settlement, TransactionRecorder, Validity};
use crate::protocol::{
    Address, Amount, ChainTime, Network, TxHash,
    channel::{ChannelConfig, ChannelDeposit, Voucher, VoucherClaim},
    v2::Reason,
};

/// Operates payment channels on the chain, through the contract of the standard's scheme `batch-settlement`.
///
/// A payer deposits once, and then signs vouchers over a growing total. Vouchers need no transaction. From time to time
/// the seller [claims](Self::claim) what was sold, for many channels at once, and [sweeps](Self::sweep) it to its
/// account.
///
/// As for a [`Settler`](super::Settler), an `Err` means that nothing was sent, and dropping a returned future is
/// harmless. A settler that signs transactions itself records those of deposits and refunds before it sends them.
/// Claims and sweeps need no record: they are repeated after a crash, and the contract transfers only the difference to
/// earlier claims.
///
/// ```
/// use tower_x402::{
///     protocol::{Amount, Network, channel::ChannelConfig},
///     settle::{ChannelSettler, SettleError},
/// };
/// /// How much more can be sold to this channel.
/// async fn left(settler: &impl ChannelSettler, channel: &ChannelConfig, charged: Amount) -> Result<Amount, SettleError> {
///     let state = settler.channel_state(Network::BASE, channel).await?;
///     Ok(state.covers().checked_sub(charged).unwrap_or(Amount::ZERO))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `ChannelSettler`",
    label = "this does not settle channels",
    note = "`WalletSettler` needs the feature `wallet`, `FacilitatorSettler` the features `facilitator` and `wallet`"
)]
pub trait ChannelSettler: Send + Sync + 'static {
    /// Returns the account that signs claims and refunds of channels in this token, for quotes to name; `None` if there
    /// are no channels.
    fn receiver_authorizer(
        &self,
        network: Network,
        token: Address,
    ) -> impl Future<Output = Result<Option<Address>, SettleError>> + Send;

    /// Returns whether deposits of this token can be made by Permit2. Without it, quotes offer channels only in tokens with EIP-3009.
    fn deposits_by_permit2(
        &self,
        network: Network,
        token: Address,
    ) -> impl Future<Output = Result<bool, SettleError>> + Send {
        let _ = (network, token);
        async { Ok(false) }
    }

    /// Returns the current state of a channel on the chain. A channel that was never opened is empty.
    ///
    /// A claim counts in [`total_claimed`](ChannelOnChain::total_claimed), and a deposit in
    /// [`balance`](ChannelOnChain::balance), once it is as deep as the settler's policy requires: until then a
    /// reorganisation could remove it.
    ///
    /// If nodes differ, each field has the value that is worst for the seller, except that `claimed_at_most` and
    /// `refund_nonce` need a majority. Shortly after a deposit, a lagging node makes the balance too low: ask again.
    fn channel_state(
        &self,
        network: Network,
        config: &ChannelConfig,
    ) -> impl Future<Output = Result<ChannelOnChain, SettleError>> + Send;

    /// Returns the states of several channels, in their order. A settler that can read them in one request does so; by
    /// default they are read one after the other.
    fn channel_states(
        &self,
        network: Network,
        configs: &[ChannelConfig],
    ) -> impl Future<Output = Result<Vec<ChannelOnChain>, SettleError>> + Send {
        async move {
            let mut states = Vec::with_capacity(configs.len());
            for config in configs {
                states.push(self.channel_state(network, config).await?);
            }
            Ok(states)
        }
    }

    /// Returns whether a voucher's signature satisfies the contract. For a channel with a voucher key this is called
    /// only if the features `evm` and `wallet` are both off.
    ///
    /// For a channel without a [voucher key](ChannelConfig::voucher_key), returns whether the payer's own account
    /// signed the voucher. A contract account decides this itself (EIP-1271), and may decide differently when the
    /// voucher is claimed.
    fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> impl Future<Output = Result<bool, SettleError>> + Send;

    /// Checks whether a deposit could be made now, or was made. If its authorization is used, the result is
    /// [`Used`](Validity::Used), even after it expired. Nothing is sent. `voucher` accompanied the deposit;
    /// facilitators require it.
    fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
    ) -> impl Future<Output = Result<Validity, SettleError>> + Send;

    /// Makes a deposit, and returns once its transaction is mined. Its authorization can be used once, so the chain
    /// ensures that it is made once. If the authorization is used, the result is [`Unknown`](Settlement::Unknown): it
    /// was made before, or cancelled.
    fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;

    /// Claims these vouchers together, and returns once the transaction is as deep as the settler's policy requires.
    ///
    /// There are at most [`CLAIMS_MAX`] rows, for any receivers, each for a different channel whose receiver authorizer
    /// is [this settler's](Self::receiver_authorizer). Either all are claimed, or none. The call is repeatable: a row that
    /// is already claimed, or beyond, stays unchanged.
    ///
    /// A contract account can accept its voucher in the simulation and refuse it in the transaction, at the settler's
    /// cost. So claim the vouchers of channels without a [voucher key](ChannelConfig::voucher_key) separately.
    fn claim(
        &self,
        network: Network,
        claims: &[VoucherClaim],
    ) -> impl Future<Output = Result<ClaimOutcome, SettleError>> + Send;

    /// Estimates the current gas cost of claiming this many channels of the token, and sweeping it once, in base units
    /// of the token, rounded up. The default is `None`: the seller pays no gas, or the settler does not know the coin's
    /// price.
    fn claim_cost(
        &self,
        network: Network,
        token: Address,
        channels: usize,
    ) -> impl Future<Output = Result<Option<Amount>, SettleError>> + Send {
        let _ = (network, token, channels);
        async { Ok(None) }
    }

    /// Sweeps everything claimed for a receiver in this token to that receiver, and returns once the transaction is
    /// mined. Repeatable.
    fn sweep(
        &self,
        network: Network,
        receiver: Address,
        token: Address,
    ) -> impl Future<Output = Result<SweepOutcome, SettleError>> + Send;

    /// Refunds a part of a channel to its payer, after claiming what was sold, and returns once the transaction is
    /// mined. The refund has the channel's nonce, so the chain ensures that it is made once. If its nonce is used, the
    /// result is [`Unknown`](Settlement::Unknown). A refund above what is left after the claim is refused.
    ///
    /// Anyone can submit a signed refund at any time until its nonce is used. So sell nothing to the channel from
    /// before this call until the [state](Self::channel_state) has another nonce, even if the call fails: the refund
    /// reduces what the channel covers.
    fn refund(
        &self,
        network: Network,
        refund: &ChannelRefund,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;
}

/// The most vouchers in one claim transaction.
pub const CLAIMS_MAX: usize = 100;

/// The state of a channel on the chain, in base units. If nodes differ, each field has the value that is worse for the
/// seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelOnChain {
    /// All deposits that were not withdrawn or refunded, claimed or not: the lowest.
    pub balance: Amount,
    /// The claimed total: the lowest. Anything sold above it must still be claimed.
    pub total_claimed: Amount,
    /// The most that is claimed: with several nodes, according to a majority. A seller that does not know the channel
    /// starts here.
    pub claimed_at_most: Amount,
    /// The amount of a withdrawal in progress: the highest; zero if there is none.
    pub withdrawing: Amount,
    /// When that withdrawal began: the earliest.
    pub withdraw_requested_at: Option<ChainTime>,
    /// The number of refunds so far, which is the nonce of the next one: with several nodes, according to a majority;
    /// the lowest if too few answer.
    pub refund_nonce: u64,
    /// Whether nodes differ about refunds: some know of one that others do not, and the balance is that of the former.
    /// The amount of a signed refund may already be deducted from it.
    pub refunds_differ: bool,
    /// The number of the block that was read: the lowest. `None` if the settler does not know it, or too few nodes
    /// answered to be sure. The ledger orders readings by it, and only a later reading can show that a claim is gone.
    /// Once the ledger knows a number, a reading without one can only lower what the channel covers: it neither raises
    /// that nor records a claim.
    pub as_of: Option<u64>,
    /// Whether too few nodes answered to be sure. On the basis of such a reading, nothing is sold in a channel that is
    /// new to the seller, no refund counts as made, and none is signed.
    pub of_few: bool,
}

impl ChannelOnChain {
    /// Creates the state of a channel with this balance and this claimed total, in base units, without a withdrawal.
    #[must_use]
    pub const fn new(balance: Amount, total_claimed: Amount) -> Self {
        Self {
            balance,
            total_claimed,
            claimed_at_most: total_claimed,
            withdrawing: Amount::ZERO,
            withdraw_requested_at: None,
            refund_nonce: 0,
            refunds_differ: false,
            as_of: None,
            of_few: false,
        }
    }

    /// Sets the number of the block that was read.
    #[must_use]
    pub const fn at_block(mut self, number: u64) -> Self {
        self.as_of = Some(number);
        self
    }

    /// Marks the state as unsure, because too few nodes answered, and drops its block.
    #[must_use]
    pub const fn of_few_nodes(mut self) -> Self {
        (self.as_of, self.of_few) = (None, true);
        self
    }

    /// Sets the amount of the payer's withdrawal, in base units, and when it began.
    #[must_use]
    pub const fn with_withdrawal(mut self, amount: Amount, requested_at: ChainTime) -> Self {
        (self.withdrawing, self.withdraw_requested_at) = (amount, Some(requested_at));
        self
    }

    /// Sets the number of refunds.
    #[must_use]
    pub const fn with_refund_nonce(mut self, nonce: u64) -> Self {
        self.refund_nonce = nonce;
        self
    }

    /// Notes that nodes differ about the number of refunds.
    #[must_use]
    pub const fn with_differing_refunds(mut self) -> Self {
        self.refunds_differ = true;
        self
    }

    /// Returns the total up to which vouchers are covered, whatever the payer does: the balance minus the withdrawal,
    /// but never less than the claimed total.
    ///
    /// ```
    /// use tower_x402::{protocol::{Amount, ChainTime}, settle::ChannelOnChain};
    /// let units = Amount::from_base_units;
    /// let state = ChannelOnChain::new(units(100), units(30));
    /// assert_eq!(state.covers(), units(100));
    /// let withdrawing = |amount| state.with_withdrawal(units(amount), ChainTime::from_unix(1_795_280_400));
    /// assert_eq!([20, 70, 500].map(|amount| withdrawing(amount).covers()), [80, 30, 30].map(units));
    /// ```
    #[must_use]
    pub fn covers(&self) -> Amount {
        let covered = self.balance.checked_sub(self.withdrawing).unwrap_or(Amount::ZERO);
        covered.max(self.total_claimed)
    }

    /// Combines two answers, with the worse value for the seller in each field.
    #[cfg_attr(not(feature = "wallet"), allow(dead_code, reason = "only a wallet asks several nodes"))]
    pub(crate) fn worse(self, other: Self) -> Self {
        Self {
            balance: self.balance.min(other.balance),
            total_claimed: self.total_claimed.min(other.total_claimed),
            claimed_at_most: self.claimed_at_most.max(other.claimed_at_most),
            withdrawing: self.withdrawing.max(other.withdrawing),
            withdraw_requested_at: [self, other].into_iter().filter_map(|state| state.withdraw_requested_at).min(),
            // A signed refund can be submitted until its nonce is used.
            refund_nonce: self.refund_nonce.min(other.refund_nonce),
            refunds_differ: self.refunds_differ || other.refunds_differ || self.refund_nonce != other.refund_nonce,
            // A node that pretends to be far ahead must not make later readings look old.
            as_of: self.as_of.zip(other.as_of).map(|(one, other)| one.min(other)),
            of_few: self.of_few || other.of_few,
        }
    }

    /// Returns the newest state, but counts claims and deposits only if the deeper states have them, too.
    #[cfg_attr(not(feature = "wallet"), allow(dead_code, reason = "only a wallet reads at two depths"))]
    pub(crate) fn sure_of(self, claims_at: &Self, deposits_at: &Self) -> Self {
        Self {
            balance: self.balance.min(deposits_at.balance),
            total_claimed: self.total_claimed.min(claims_at.total_claimed),
            ..self
        }
    }
}

/// A channel that was never opened.
impl Default for ChannelOnChain {
    fn default() -> Self {
        Self::new(Amount::ZERO, Amount::ZERO)
    }
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// All rows are claimed, in a block that is believed to stay: by this transaction, or if there is none, by an
    /// earlier one.
    Claimed(Option<TxHash>),
    /// Nothing is claimed: these rows make the whole claim fail. Claim the others without them.
    Refused(Vec<RefusedClaim>),
    /// The outcome is unknown: it may be claimed, now or later. Claim again; if the outcome is again unknown without a
    /// transaction, use fewer rows. The transaction, if known.
    Unknown(Option<TxHash>),
}

/// A row that cannot be claimed now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedClaim {
    /// Its index in the list, from zero.
    pub row: usize,
    /// The reason.
    pub reason: Reason,
}

impl RefusedClaim {
    /// Creates the refusal of a row.
    #[must_use]
    pub const fn new(row: usize, reason: Reason) -> Self {
        Self { row, reason }
    }
}

/// The outcome of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum SweepOutcome {
    /// There was nothing to sweep, and nothing was sent.
    Nothing,
    /// It cannot be swept now, and was not: for example, the token refuses to pay the receiver.
    Refused(Reason),
    /// It is swept.
    Swept {
        /// The transaction.
        transaction: TxHash,
        /// The amount that waited before it was sent, in base units.
        amount: Amount,
    },
    /// The outcome is unknown: it may be swept, now or later. Sweep again. The transaction, if known.
    Unknown(Option<TxHash>),
}

/// A refund of a part of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelRefund {
    /// The channel.
    pub config: ChannelConfig,
    /// The amount, in base units: at most what is left after the claim.
    pub amount: u128,
    /// The number of earlier refunds of this channel.
    pub nonce: u64,
    /// A sold and unclaimed amount. It is claimed in the same transaction before the rest is refunded.
    pub claim: Option<VoucherClaim>,
    /// The payer's voucher that requests the refund, over what was sold.
    pub voucher: Option<Voucher>,
}

impl ChannelRefund {
    /// Creates a refund of this amount, in base units, for a channel with `nonce` earlier refunds and nothing left to
    /// claim.
    #[must_use]
    pub const fn new(config: ChannelConfig, amount: u128, nonce: u64) -> Self {
        Self { config, amount, nonce, claim: None, voucher: None }
    }

    /// Sets the claim that comes first.
    #[must_use]
    pub fn with_claim(mut self, claim: Option<VoucherClaim>) -> Self {
        self.claim = claim;
        self
    }

    /// Sets the voucher that requests it.
    #[must_use]
    pub fn with_voucher(mut self, voucher: Voucher) -> Self {
        self.voucher = Some(voucher);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_answers_each_member_is_the_worse_one() {
        let units = Amount::from_base_units;
        let time = ChainTime::from_unix;
        let one = ChannelOnChain::new(units(100), units(30)).with_withdrawal(units(5), time(9)).with_refund_nonce(1);
        let other = ChannelOnChain::new(units(90), units(40)).with_refund_nonce(2);
        let worse = ChannelOnChain {
            balance: units(90),
            total_claimed: units(30),
            claimed_at_most: units(40),
            withdrawing: units(5),
            withdraw_requested_at: Some(time(9)),
            refund_nonce: 1,
            refunds_differ: true,
            as_of: Some(6),
            of_few: false,
        };
        let (one, other) = (one.at_block(7), other.at_block(6));
        assert_eq!([one.worse(other), other.worse(one)], [worse; 2]);
        assert_eq!(worse.worse(one.with_withdrawal(units(1), time(8))).withdraw_requested_at, Some(time(8)));
        assert_eq!(worse.covers(), units(85));
        assert_eq!(worse.worse(ChannelOnChain::new(units(1), units(1))).as_of, None);
    }

    #[test]
    fn a_deposit_and_a_claim_count_once_they_are_deep() {
        let units = Amount::from_base_units;
        let newest = ChannelOnChain::new(units(100), units(60)).with_refund_nonce(1).at_block(20);
        let [claims_at, deposits_at] = [(90, 40), (80, 50)]
            .map(|(balance, claimed)| ChannelOnChain::new(units(balance), units(claimed)).at_block(8));
        let sure = newest.sure_of(&claims_at, &deposits_at);
        assert_eq!((sure.balance, sure.total_claimed, sure.claimed_at_most), (units(80), units(40), units(60)));
        assert_eq!((sure.refund_nonce, sure.as_of), (1, Some(20)));
    }
}
