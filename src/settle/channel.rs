//! `ChannelSettler`: what payment channels need of the chain: their state, deposits, claims and refunds.

use std::future::Future;

use super::{SettleError, Settlement, TransactionRecorder, Validity};
use crate::protocol::{
    Address, Amount, ChainTime, Network, TxHash,
    channel::{ChannelConfig, ChannelDeposit, Voucher, VoucherClaim},
    v2::Reason,
};

/// Keeps payment channels on the chain, by the contract of the standard's scheme `batch-settlement`.
///
/// A payer deposits once, and then signs vouchers over a growing total. Nothing is sent for a voucher. What was sold is
/// [claimed](Self::claim) now and then, many channels at once, and [swept](Self::sweep) to the seller.
///
/// As for a [`Settler`](super::Settler), an `Err` means that nothing was sent, dropping a returned future is harmless, and a settler that
/// signs transactions itself records that of a deposit or refund before it sends it. Claims and sweeps need no record: after a crash they
/// are repeated, and the contract takes the difference to what was claimed before.
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
    /// Returns the account that signs claims and refunds of channels in this token, as quotes name it; `None` where there are no channels.
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

    /// Returns what the chain says of a channel now. A channel that was never opened has nothing in it.
    ///
    /// A claim counts in [`total_claimed`](ChannelOnChain::total_claimed), and a deposit in [`balance`](ChannelOnChain::balance), once it is
    /// as deep as the settler's policy wants: what a reorganisation may remove is not claimed yet, and covers nothing yet.
    ///
    /// Where several nodes are asked, the answer is the worst of theirs for the seller; what is claimed at most, and how many refunds there were,
    /// most of them say. Shortly after a deposit, a node that lags makes it
    /// lower than it is: ask again.
    fn channel_state(
        &self,
        network: Network,
        config: &ChannelConfig,
    ) -> impl Future<Output = Result<ChannelOnChain, SettleError>> + Send;

    /// Returns the same of several channels, in their order. A settler that can read them by one question does; by default one is read after
    /// the other.
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

    /// Returns whether a voucher is signed as the contract wants it. Of a channel with a voucher key this is asked only where the features
    /// `evm` and `wallet` are both off.
    ///
    /// Otherwise: whether the payer's own account signed a voucher of a channel without a [voucher key](ChannelConfig::voucher_key). A contract
    /// account decides this itself (EIP-1271), and may decide otherwise when the voucher is claimed.
    fn is_signed_by_account(
        &self,
        network: Network,
        config: &ChannelConfig,
        voucher: &Voucher,
    ) -> impl Future<Output = Result<bool, SettleError>> + Send;

    /// Checks whether a deposit could be made now, or was made: one whose authorization is used is [`Used`](Validity::Used), also once its time
    /// is over. Nothing is sent. `voucher` came with it: facilitators want to see it.
    fn verify_deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
    ) -> impl Future<Output = Result<Validity, SettleError>> + Send;

    /// Makes a deposit, and returns once its transaction is mined. Its authorization can be used once, so the chain ensures that it is made
    /// once. One whose authorization is used is [`Unknown`](Settlement::Unknown): made before, or cancelled.
    fn deposit(
        &self,
        network: Network,
        config: &ChannelConfig,
        deposit: &ChannelDeposit,
        voucher: &Voucher,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;

    /// Claims these vouchers together, and returns once the transaction is as deep as the settler's policy wants.
    ///
    /// At most [`CLAIMS_MAX`] rows, of any receivers, each of another channel whose receiver authorizer is
    /// [this settler's](Self::receiver_authorizer). All are claimed, or none. Repeatable: a row that is claimed already, or further, stays as
    /// it is.
    ///
    /// A contract account can accept its voucher when the claim is tried, and refuse it when it is mined, at the settler's cost: claim the
    /// vouchers of channels without a [voucher key](ChannelConfig::voucher_key) by themselves.
    fn claim(
        &self,
        network: Network,
        claims: &[VoucherClaim],
    ) -> impl Future<Output = Result<ClaimOutcome, SettleError>> + Send;

    /// Returns what the gas of claiming so many channels of this token, and of sweeping it once, will probably cost now, in base units of the
    /// token, rounded up. `None` where the seller pays no gas, or where the settler does not know the price of the coin: this is the default.
    fn claim_cost(
        &self,
        network: Network,
        token: Address,
        channels: usize,
    ) -> impl Future<Output = Result<Option<Amount>, SettleError>> + Send {
        let _ = (network, token, channels);
        async { Ok(None) }
    }

    /// Sends to a receiver everything that is claimed for it in this token, and returns once the transaction is mined. Repeatable.
    fn sweep(
        &self,
        network: Network,
        receiver: Address,
        token: Address,
    ) -> impl Future<Output = Result<SweepOutcome, SettleError>> + Send;

    /// Gives back a part of a channel to its payer, after it claimed what was sold, and returns once the transaction is mined. The
    /// refund's nonce is the channel's, so the chain ensures that it is made once. One whose nonce is used is
    /// [`Unknown`](Settlement::Unknown). More than what is left after the claim is refused.
    ///
    /// A refund that was signed can be made by anyone, at any time, until its nonce is used. Sell nothing to the channel from before
    /// this call until the [state](Self::channel_state) has another nonce, also where this fails: the channel covers that much less.
    fn refund(
        &self,
        network: Network,
        refund: &ChannelRefund,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;
}

/// The most vouchers that are claimed by one transaction.
pub const CLAIMS_MAX: usize = 100;

/// What the chain says of a channel, in base units. Where nodes differ, each member is the one that is worse for the seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelOnChain {
    /// All that was deposited and not withdrawn or paid back, claimed and not: the lowest.
    pub balance: Amount,
    /// How much of it is claimed: the lowest. What is above it has to be claimed.
    pub total_claimed: Amount,
    /// How much of it is claimed at most: by the word of most nodes, where there are several. A seller that knows nothing of the channel starts
    /// here.
    pub claimed_at_most: Amount,
    /// What the payer began to withdraw: the highest; zero: nothing.
    pub withdrawing: Amount,
    /// When it began to: the earliest.
    pub withdraw_requested_at: Option<ChainTime>,
    /// How many refunds there were: the nonce of the next one. By the word of most nodes, where there are several; the lowest where too few answer.
    pub refund_nonce: u64,
    /// Whether nodes differ about it: some know of a refund of which others do not, and the balance is that of the former. What a signed refund
    /// may take from it may be taken already.
    pub refunds_differ: bool,
    /// The number of the block that was read: the lowest. `None` where the settler does not know it, or where too few nodes answered to be
    /// sure of it. By it the ledger tells the later of two readings, and believes only a later one that a claim is gone. Once it knows one, a
    /// reading without a number only lowers what the channel covers: it neither raises that nor claims anything.
    pub as_of: Option<u64>,
    /// Whether too few nodes answered to be sure of it: by their word, a channel that the seller does not know yet is not sold in, no refund
    /// counts as made, and none is signed.
    pub of_few: bool,
}

impl ChannelOnChain {
    /// Returns the state of a channel with so much in it, of which so much is claimed, in base units, without a withdrawal.
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

    /// Notes that too few nodes answered to be sure of it, and of its block.
    #[must_use]
    pub const fn of_few_nodes(mut self) -> Self {
        (self.as_of, self.of_few) = (None, true);
        self
    }

    /// Sets what the payer began to withdraw, in base units, and when.
    #[must_use]
    pub const fn with_withdrawal(mut self, amount: Amount, requested_at: ChainTime) -> Self {
        (self.withdrawing, self.withdraw_requested_at) = (amount, Some(requested_at));
        self
    }

    /// Sets how many refunds there were.
    #[must_use]
    pub const fn with_refund_nonce(mut self, nonce: u64) -> Self {
        self.refund_nonce = nonce;
        self
    }

    /// Notes that nodes differ about how many refunds there were.
    #[must_use]
    pub const fn with_differing_refunds(mut self) -> Self {
        self.refunds_differ = true;
        self
    }

    /// Returns up to which total vouchers are covered, whatever the payer does: the balance without what is being withdrawn, and never less
    /// than what is claimed.
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

    /// Returns what is worse for the seller of two answers.
    #[cfg_attr(not(feature = "wallet"), allow(dead_code, reason = "only a wallet asks several nodes"))]
    pub(crate) fn worse(self, other: Self) -> Self {
        Self {
            balance: self.balance.min(other.balance),
            total_claimed: self.total_claimed.min(other.total_claimed),
            claimed_at_most: self.claimed_at_most.max(other.claimed_at_most),
            withdrawing: self.withdrawing.max(other.withdrawing),
            withdraw_requested_at: [self, other].into_iter().filter_map(|state| state.withdraw_requested_at).min(),
            // What was signed may go back until its nonce is used.
            refund_nonce: self.refund_nonce.min(other.refund_nonce),
            refunds_differ: self.refunds_differ || other.refunds_differ || self.refund_nonce != other.refund_nonce,
            // A node that claims to be far ahead must not make later readings look old.
            as_of: self.as_of.zip(other.as_of).map(|(one, other)| one.min(other)),
            of_few: self.of_few || other.of_few,
        }
    }

    /// Returns the newest state, in which a claim or a deposit counts only once it is in this deeper one, too.
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

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// All of it is claimed, in a block that is believed to stay: by this transaction, or, if there is none, by an earlier one.
    Claimed(Option<TxHash>),
    /// Nothing is claimed: these rows make all of it fail. Claim the others without them.
    Refused(Vec<RefusedClaim>),
    /// It may be claimed, or be claimed later. Claim it again; and where this is said again without a transaction, fewer rows at once. The
    /// transaction, if known.
    Unknown(Option<TxHash>),
}

/// A row that cannot be claimed now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedClaim {
    /// Its place in the list, counted from zero.
    pub row: usize,
    /// Why.
    pub reason: Reason,
}

impl RefusedClaim {
    /// Refuses this row.
    #[must_use]
    pub const fn new(row: usize, reason: Reason) -> Self {
        Self { row, reason }
    }
}

/// What became of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum SweepOutcome {
    /// Nothing waited to be swept, and nothing was sent.
    Nothing,
    /// It cannot be swept now, and nothing was: the token refuses to pay the receiver, for example.
    Refused(Reason),
    /// It is swept.
    Swept {
        /// By this transaction.
        transaction: TxHash,
        /// How much waited before it was sent, in base units.
        amount: Amount,
    },
    /// It may be swept, or be swept later. Sweep again. The transaction, if known.
    Unknown(Option<TxHash>),
}

/// What is given back of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelRefund {
    /// The channel.
    pub config: ChannelConfig,
    /// How much, in base units: no more than what is left after the claim.
    pub amount: u128,
    /// How many refunds of this channel there were.
    pub nonce: u64,
    /// What was sold and is not claimed yet. It is claimed in the same transaction, before the rest is given back.
    pub claim: Option<VoucherClaim>,
    /// The payer's voucher that asks for it, over what was sold.
    pub voucher: Option<Voucher>,
}

impl ChannelRefund {
    /// Gives back this amount, in base units, of a channel that was paid back `nonce` times before, and of which nothing is left to be
    /// claimed.
    #[must_use]
    pub const fn new(config: ChannelConfig, amount: u128, nonce: u64) -> Self {
        Self { config, amount, nonce, claim: None, voucher: None }
    }

    /// Sets what is claimed before.
    #[must_use]
    pub fn with_claim(mut self, claim: Option<VoucherClaim>) -> Self {
        self.claim = claim;
        self
    }

    /// Sets the voucher that asks for it.
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
