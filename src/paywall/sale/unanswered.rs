//! A charge of a channel whose answer never left is taken back: its process died between the charge and the record of the sale.

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

/// How long the channel is held for it.
const TAKING_BACK: Duration = Duration::from_secs(30);

/// What became of the last charge of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastCharge {
    /// Its answer never left: it is taken back, and the account is as it was before.
    TakenBack,
    /// Its sale is under way, here or elsewhere, or its process died a moment ago.
    UnderWay,
    /// It bought its answer, or may have been so long ago that the ledger has forgotten it.
    Stands,
}

/// Takes back the last charge of a channel, unless its sale is on record. `held` is an intent that the caller holds: it is not sold.
///
/// The sale is reserved meanwhile, so that a process which lives after all can no longer record it; and so is the channel.
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
                ReserveOutcome::Busy { .. } => return Ok(LastCharge::UnderWay),
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

/// Reserves the voucher, where its intent is sold: by another payment, such as a transfer, the voucher bought nothing.
///
/// Nothing but the payment is ever sold by its own key, and the ledger looks at the intent first.
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
        ReserveOutcome::Busy { .. } => Err(LastCharge::UnderWay),
        _ => Err(LastCharge::Stands),
    })
}

/// The memo and the last sale, where the ledger would know whether that was sold.
fn unanswered(merchant: &MerchantInner, account: &Account) -> Option<(ChannelMemo, LastSale)> {
    let memo = ChannelMemo::read(&account.memo)?;
    let last = memo.last.clone().filter(|last| last.charge > 0)?;
    let is_remembered = merchant.clock.unix() <= last.pay_until.after(merchant.max_payment_age).unix();
    let is_last = account.spent == Amount::from_base_units(last.charged);
    (is_remembered && is_last).then_some((memo, last))
}

/// The sale that it was charged for.
fn claim_of(
    merchant: &MerchantInner,
    channel: &Channel,
    (memo, last): (&ChannelMemo, &LastSale),
    head: ChainTime,
) -> Claim {
    claim_by(merchant, channel, (memo, last), last.intent, head)
}

/// The same by another intent: of the same payment.
fn claim_by(
    merchant: &MerchantInner,
    channel: &Channel,
    (memo, last): (&ChannelMemo, &LastSale),
    intent: IntentKey,
    head: ChainTime,
) -> Claim {
    // As it is when it is sold: in a future block, and so never before the ledger's memory.
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

/// Takes the charge back from exactly this account, which no other request may use meanwhile.
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
    // The voucher stays: it covers what was charged before as well.
    let last = LastSale { charged: last.charged.saturating_sub(last.charge), charge: 0, ..last };
    let memo = ChannelMemo { last: Some(last), ..memo }.write().ok_or(LedgerError::unavailable())?;
    let outcome = guard.take_back(charge, &memo).await;
    match outcome {
        Ok(ChargeOutcome::Done { .. }) => {
            tracing::warn!(channel = %channel.id, %charge, "taken back: the answer that it was charged for never left");
            Ok(LastCharge::TakenBack)
        }
        Ok(ChargeOutcome::LeaseLost) => Ok(LastCharge::UnderWay),
        // It is claimed.
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
