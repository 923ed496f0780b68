//! Takes back a channel's charge whose answer never left, because the process died between the charge and the record of the sale.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::{Account, ChargeOutcome, Claim, Draw, DrawOutcome, ErasedLedger, LedgerError, ReserveOutcome},
    paywall::{
        sale::{
            draw::{DrawGuard, PendingDraw},
            reservation::{LeaseGuard, PendingReservation},
        },
        seller::{
            attempts::Claimed,
            channels::{
                Channel,
                record::{ChannelMemo, LastSale},
            },
            inner::MerchantInner,
            time_limits::ledger_in_time,
        },
    },
    protocol::{Amount, ChainTime, IntentKey, channel::VoucherPayment},
};

/// How long the channel is held for the reversal.
const TAKING_BACK: Duration = Duration::from_secs(30);

/// What happened to the last charge of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastCharge {
    /// Its answer never left. The charge is taken back, and the account is as it was before.
    TakenBack,
    /// Its sale is under way, in this process or another, or its process died a moment ago.
    UnderWay,
    /// It bought its answer, or is old enough that the ledger may have forgotten the sale.
    Stands,
}

/// Takes back the last charge of a channel, unless its sale is on record. `held` is an intent that the caller holds, and which is therefore
/// unsold.
///
/// Meanwhile both the sale and the channel are reserved, so that a process which is alive after all can no longer record the sale.
///
/// # Errors
/// If the ledger does not answer. The same question can be asked again.
pub(crate) async fn take_back_last(
    merchant: &MerchantInner,
    channel: &Channel,
    account: &Account,
    (head, held): (ChainTime, Option<IntentKey>),
) -> Result<LastCharge, LedgerError> {
    let ledger = &merchant.ledger;
    let Some((memo, last)) = unanswered(merchant, account) else { return Ok(LastCharge::Stands) };
    let sale = match held == Some(last.intent) {
        true => None,
        false => {
            let claim = claim_of(merchant, channel, (&memo, &last), head);
            match ledger_in_time(PendingReservation::new(ledger, claim)).await? {
                ReserveOutcome::Granted(lease) => {
                    Some(LeaseGuard::new(Arc::clone(ledger), lease, Claimed::ByPayer, &merchant.attempts))
                }
                ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } => return Ok(LastCharge::UnderWay),
                ReserveOutcome::IntentConsumed => {
                    match reserve_unsold(merchant, channel, (&memo, &last), head).await? {
                        Ok(sale) => Some(sale),
                        Err(known) => return Ok(known),
                    }
                }
                ReserveOutcome::PaymentUsed | ReserveOutcome::PurchaseConsumed | ReserveOutcome::BeforeMemory => {
                    return Ok(LastCharge::Stands);
                }
            }
        }
    };
    let outcome = lower(ledger, channel, account, (memo, last)).await;
    if let Some(sale) = sale {
        sale.release().await;
    }
    outcome
}

/// Reserves the voucher where its intent is consumed: if another payment consumed it, such as a transfer, the voucher bought nothing.
///
/// The claim uses the payment's own key as its intent. Nothing but this payment is ever sold under that key, and the ledger checks the
/// intent first.
async fn reserve_unsold(
    merchant: &MerchantInner,
    channel: &Channel,
    (memo, last): (&ChannelMemo, &LastSale),
    head: ChainTime,
) -> Result<Result<LeaseGuard, LastCharge>, LedgerError> {
    let Some(payment) = memo.payment_id() else { return Ok(Err(LastCharge::Stands)) };
    let claim = claim_by(merchant, channel, (memo, last), IntentKey::of_payment(&payment), head);
    let ledger = &merchant.ledger;
    Ok(match ledger_in_time(PendingReservation::new(ledger, claim)).await? {
        ReserveOutcome::Granted(lease) => {
            Ok(LeaseGuard::new(Arc::clone(ledger), lease, Claimed::ByPayer, &merchant.attempts))
        }
        ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. } => Err(LastCharge::UnderWay),
        _ => Err(LastCharge::Stands),
    })
}

/// Returns the memo and the last sale, if the ledger would still know whether that was sold.
fn unanswered(merchant: &MerchantInner, account: &Account) -> Option<(ChannelMemo, LastSale)> {
    let memo = ChannelMemo::read(&account.memo)?;
    let last = memo.last.clone().filter(|last| last.charge > 0)?;
    let is_remembered = merchant.clock.unix() <= last.pay_until.after(merchant.max_payment_age).unix();
    let is_last = account.spent == Amount::from_base_units(last.charged);
    (is_remembered && is_last).then_some((memo, last))
}

/// Returns a claim on the sale that the charge was made for.
fn claim_of(
    merchant: &MerchantInner,
    channel: &Channel,
    (memo, last): (&ChannelMemo, &LastSale),
    head: ChainTime,
) -> Claim {
    claim_by(merchant, channel, (memo, last), last.intent, head)
}

/// Returns a claim on the same payment for any intent.
fn claim_by(
    merchant: &MerchantInner,
    channel: &Channel,
    (memo, last): (&ChannelMemo, &LastSale),
    intent: IntentKey,
    head: ChainTime,
) -> Claim {
    // As in a sale, the payment is dated after the head, and so never lies before the ledger's memory.
    let payment = VoucherPayment::new(memo.network, &channel.config, last.total, last.intent)
        .with_amount(Amount::from_base_units(last.charge))
        .with_shown(ChainTime::from_unix(head.unix().saturating_add(1)));
    Claim::builder("a charge without an answer", intent)
        .payments([payment])
        .pay_until(last.pay_until)
        .head(head)
        .max_payment_age(merchant.max_payment_age)
        .lease(merchant.lease)
        .build()
}

/// Takes the charge back, if the account is unchanged. No other request may use the account meanwhile.
async fn lower(
    ledger: &Arc<dyn ErasedLedger>,
    channel: &Channel,
    account: &Account,
    (memo, last): (ChannelMemo, LastSale),
) -> Result<LastCharge, LedgerError> {
    let draw = Draw::new(channel.account, Amount::ZERO, TAKING_BACK).expecting(account.spent);
    let mut guard = match ledger_in_time(PendingDraw::new(ledger, draw)).await? {
        DrawOutcome::Granted(lease) => DrawGuard::new(Arc::clone(ledger), lease),
        DrawOutcome::Busy { .. } | DrawOutcome::Mismatch { .. } => return Ok(LastCharge::UnderWay),
        // More is charged than the channel covers now.
        _ => return Ok(LastCharge::Stands),
    };
    if *guard.memo() != account.memo {
        guard.release().await;
        return Ok(LastCharge::UnderWay);
    }
    let charge = Amount::from_base_units(last.charge);
    // The voucher stays: it covers the earlier charges as well.
    let last = LastSale { charged: last.charged.saturating_sub(last.charge), charge: 0, ..last };
    let memo = ChannelMemo { last: Some(last), ..memo }.write().ok_or(LedgerError::unavailable())?;
    let outcome = guard.take_back(charge, &memo).await;
    match outcome {
        Ok(ChargeOutcome::Done { .. }) => {
            tracing::warn!(channel = %channel.id, %charge, "taken back: the answer that it was charged for never left");
            Ok(LastCharge::TakenBack)
        }
        Ok(ChargeOutcome::LeaseLost) => Ok(LastCharge::UnderWay),
        // The charge is claimed already.
        Ok(ChargeOutcome::TooMuch) => {
            guard.release().await;
            Ok(LastCharge::Stands)
        }
        Err(error) => {
            guard.release().await;
            Err(error)
        }
    }
}
