//! Reserves a voucher's amount in its channel's account: one at a time, and only if the voucher continues from the charged total.

use std::sync::Arc;

use super::{
    shown::Vouched,
    units::{busy, units},
};
use crate::{
    ledger::{Account, Draw, DrawOutcome, ErasedLedger, LedgerError, accounts_of},
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::{
            draw::{DrawGuard, PendingDraw, RenewedDraw},
            unanswered::{LastCharge, take_back_last},
        },
        seller::{
            channels::{
                Channel, Channels,
                record::{ChannelMemo, read_note},
            },
            time_limits::ledger_in_time,
        },
    },
    protocol::{Amount, ChainTime, IntentKey, ProblemCode, channel::VoucherPayment},
    settle::ChannelOnChain,
};

/// The account's answer to a voucher.
pub(super) enum Drawn {
    /// With the account's memo.
    Granted(RenewedDraw, Box<ChannelMemo>),
    /// Another request of the channel is under way.
    Busy,
    /// The voucher does not continue from the charged total.
    Mismatch(Account),
    /// The channel holds less than the voucher's total. With the account's memo, if it was read.
    TooLittle(Option<Box<ChannelMemo>>),
    /// Not known. Only one of two sources covers the voucher: the chain's last reading, from few nodes, or the ledger, which read a later
    /// block. Or only few nodes could say whether a signed refund is made, or nodes differ about that.
    Unsure,
    /// A claim has made this voucher public: it no longer proves that its payer wants a request.
    Public,
    /// The ledger knows no channel with this id that holds anything.
    Missing,
}

/// Draws the amount of a voucher over `total`.
pub(super) async fn draw(
    channels: &Channels,
    ledger: &Arc<dyn ErasedLedger>,
    channel: &Channel,
    (total, payment): (u128, &VoucherPayment),
    state: &ChannelOnChain,
) -> Result<Drawn, Problem> {
    let unavailable = |_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN);
    let Some(before) = total.checked_sub(units(payment.amount)) else {
        return mismatch(ledger, channel).await;
    };
    let draw = Draw::new(channel.account, payment.amount, channels.lease).expecting(Amount::from_base_units(before));
    let outcome = ledger_in_time(PendingDraw::new(ledger, draw)).await.map_err(unavailable)?;
    tracing::debug!(channel = %channel.id, ?outcome, "drawn");
    Ok(match outcome {
        DrawOutcome::Granted(lease) => {
            let guard = DrawGuard::new(Arc::clone(ledger), lease);
            let Some(memo) = ChannelMemo::read(guard.memo()) else {
                return Err(unavailable(LedgerError::unavailable()));
            };
            // An amount that a signed refund may give back covers nothing.
            let left_by = |state: &ChannelOnChain| units(state.covers()).saturating_sub(memo.going_back(state));
            let left = left_by(state);
            // Another process may have read since that a refund was made, and have signed the next one.
            let left_by_ledger = read_note(guard.note()).map_or(left, |noted| left_by(&noted));
            // The ledger may know of more than this reading, which is then of an earlier block, and must not make the payer deposit again.
            // Or of less.
            let is_known_otherwise = total > units(state.covers()) || total <= left;
            let is_unsure = is_known_otherwise || state.of_few || state.refunds_differ;
            if total > left.min(left_by_ledger) && !payment.amount.is_zero() {
                guard.release().await;
                return Ok(if is_unsure { Drawn::Unsure } else { Drawn::TooLittle(Some(Box::new(memo))) });
            }
            if !payment.amount.is_zero() && memo.is_public(total) && !memo.is_taken_back(total, payment.intent()) {
                guard.release().await;
                return Ok(Drawn::Public);
            }
            Drawn::Granted(guard.renewed(), Box::new(memo))
        }
        DrawOutcome::Busy { .. } => Drawn::Busy,
        DrawOutcome::Mismatch { .. } => return mismatch(ledger, channel).await,
        DrawOutcome::UsedUp { .. } if total <= units(state.covers()) => Drawn::Unsure,
        DrawOutcome::UsedUp { .. } => Drawn::TooLittle(None),
        DrawOutcome::Unknown | DrawOutcome::Closed | DrawOutcome::Expired => Drawn::Missing,
    })
}

async fn mismatch(ledger: &Arc<dyn ErasedLedger>, channel: &Channel) -> Result<Drawn, Problem> {
    let account = ledger_in_time(async { accounts_of(&**ledger)?.account(channel.account).await }).await;
    match account {
        Ok(Some(account)) => Ok(Drawn::Mismatch(account)),
        Ok(None) => Ok(Drawn::Missing),
        Err(_) => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
    }
}

/// Returns whether a voucher continues from the total before the last charge, and that charge was taken back as its answer never left.
pub(super) async fn follows_after_all(
    vouched: &Vouched<'_>,
    account: &Account,
    (amount, head): (Amount, ChainTime),
    held: Option<IntentKey>,
) -> Result<bool, Problem> {
    let last = ChannelMemo::read(&account.memo).and_then(|memo| memo.last);
    let before = last.map(|last| last.charged.saturating_sub(last.charge));
    let total = before.and_then(|before| before.checked_add(units(amount)));
    if total != Some(vouched.voucher.max_claimable) {
        return Ok(false);
    }
    match take_back_last(&vouched.opened.route.merchant, &vouched.channel, account, (head, held)).await {
        Ok(LastCharge::TakenBack) => Ok(true),
        Ok(LastCharge::Stands) => Ok(false),
        Ok(LastCharge::UnderWay) => Err(busy()),
        Err(_) => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
    }
}
