//! Judges a deposit that is shown with a voucher.

use super::{
    charging::Charge,
    drawing::follows_after_all,
    found::{Found, IS_PUBLIC, Sale},
    shown::Vouched,
    units::{busy, units},
};
use crate::{
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::reservation::LeaseGuard,
        seller::{
            channels::{Channel, Channels, Mirrored, record::ChannelMemo},
            time_limits::settler_in_time,
        },
    },
    protocol::{
        ChainTime, IntentKey, ProblemCode,
        channel::{ChannelDeposit, DepositAuthorization},
        v2::Reason,
    },
    settle::Validity,
};

/// Finds how a voucher pays with this deposit; `None` if the deposit is already made, so that the voucher alone counts. A deposit that was
/// begun, and may still be made, is not refused.
///
/// # Errors
/// If the result is not known yet.
pub(super) async fn deposited(
    vouched: &Vouched<'_>,
    channels: &Channels,
    (deposit, mirrored): (&ChannelDeposit, &Mirrored),
    sale: &Sale,
    guard: &LeaseGuard,
) -> Result<Option<Found>, Problem> {
    match looked_at(vouched, channels, (deposit, mirrored), sale, guard.intent()).await? {
        Some(Found::Refused(_)) if guard.begun().is_some() && may_come(deposit, sale.head) => {
            Err(Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN))
        }
        found => Ok(found),
    }
}

/// Judges the deposit by the present state alone, whatever was begun.
async fn looked_at(
    vouched: &Vouched<'_>,
    channels: &Channels,
    (deposit, mirrored): (&ChannelDeposit, &Mirrored),
    sale: &Sale,
    held: IntentKey,
) -> Result<Option<Found>, Problem> {
    let (total, state) = (vouched.voucher.max_claimable, mirrored.state);
    let unavailable = || Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
    let refused = |reason| Some(Found::Refused(reason));
    let verified =
        channels.settler.verify_deposit(channels.network(), &vouched.channel.config, deposit, &vouched.voucher);
    let verified = settler_in_time(verified).await;
    match verified {
        Ok(Validity::Used) => return Ok(None),
        Ok(_) if !is_taken(channels, &vouched.channel, deposit) => {
            return Ok(refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_AUTHORIZATION_REQUIRED));
        }
        Ok(Validity::Refused(reason)) => return Ok(refused(reason)),
        // So few nodes answer that the ledger would not accept the deposited amount from them: no deposit is made whose answer could not be
        // sold.
        Ok(Validity::Valid) if is_too_unsure(mirrored) => return Err(unavailable()),
        Ok(Validity::Valid) => {}
        Err(_) => return Err(unavailable()),
    }
    let charged = match &mirrored.account {
        Some(account) if !account.held.is_zero() => return Err(busy()),
        Some(account) => units(account.spent),
        None => units(state.claimed_at_most),
    };
    if charged.checked_add(units(vouched.payment.amount)) != Some(total) {
        match &mirrored.account {
            None => return Ok(refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_AMOUNT_MISMATCH)),
            Some(account)
                if follows_after_all(vouched, account, (vouched.payment.amount, sale.head), Some(held)).await? => {}
            Some(account) => return Ok(Some(Found::Corrected(account.clone()))),
        }
    }
    let memo = mirrored.account.as_ref().and_then(|account| ChannelMemo::read(&account.memo));
    if memo.as_ref().is_some_and(|memo| memo.is_public(total)) {
        return Ok(refused(IS_PUBLIC));
    }
    let going_back = memo.map_or(0, |memo| memo.going_back(&state));
    let covered = units(state.covers()).saturating_add(deposit.amount);
    let holds = units(state.covers()).saturating_sub(going_back).saturating_add(deposit.amount);
    // Each deposit costs the seller a transaction.
    let least = channels.policy.min_deposit.unwrap_or(vouched.payment.amount);
    Ok(match () {
        () if !sale.honoured || !vouched.is_in_time() => refused(Reason::INVALID_PAYMENT_REQUIREMENTS),
        () if deposit.amount < units(least) => refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_BELOW_MIN_DEPOSIT),
        () if holds < total && total <= covered && state.refunds_differ => return Err(unavailable()),
        () if holds < total => refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE),
        () => Some(Found::Pays(Charge::Deposit(Box::new(deposit.clone())), state)),
    })
}

/// Returns whether the channel's token takes deposits of this kind. A token without EIP-3009 takes them by Permit2 only.
fn is_taken(channels: &Channels, channel: &Channel, deposit: &ChannelDeposit) -> bool {
    channels.token(channel.config.token).is_some_and(|token| token.takes(deposit))
}

/// Returns whether the ledger would use this reading only to lower what the channel covers, or not at all. That is so if few nodes gave it,
/// or if the ledger knows the channel at a block, and the reading names none or an earlier one.
fn is_too_unsure(Mirrored { state, account }: &Mirrored) -> bool {
    let known = account.as_ref().and_then(|account| account.claims.as_ref()?.as_of);
    state.of_few || known.is_some_and(|known| state.as_of.is_none_or(|as_of| as_of < known))
}

/// Returns whether the deposit can still be made, by the time of the newest block.
fn may_come(deposit: &ChannelDeposit, head: ChainTime) -> bool {
    expiry(deposit) > head
}

/// Returns whether a deposit that is made, but not seen in its channel, may still appear and pay. It may never appear: it may have been
/// withdrawn or given back since, and a cancelled authorization counts as used. So this does not hold for ever.
pub(super) fn may_show(deposit: &ChannelDeposit, vouched: &Vouched<'_>, sale: &Sale) -> bool {
    vouched.is_in_time() || may_come(deposit, sale.head)
}

/// Returns the time from which the deposit can no longer be made.
pub(super) fn expiry(deposit: &ChannelDeposit) -> ChainTime {
    match &deposit.authorization {
        DepositAuthorization::Erc3009(signed) => signed.valid_before,
        // A Permit2 signature is still valid at its deadline.
        DepositAuthorization::Permit2(signed) => ChainTime::from_unix(signed.deadline.unix().saturating_add(1)),
    }
}
