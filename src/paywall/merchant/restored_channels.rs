//! Sales by vouchers that a restored ledger lost: their channels are charged again, from a log.

use std::{collections::HashMap, sync::Arc};

use crate::{
    ledger::{
        Account, AccountMemo, Draw, DrawOutcome, ErasedLedger, LedgerError, OpenOutcome, Opening, Reflection,
        accounts_of,
    },
    paywall::{
        error::HealthError,
        sale::draw::{Charged, DrawGuard, PendingDraw},
        seller::{
            channels::{Channel, Channels, Unread, record::ChannelMemo},
            time_limits::ledger_in_time,
        },
    },
    protocol::{Amount, ChainTime, PaymentId, channel::ChannelId},
    settle::SettleError,
};

/// Reads the voucher that the event `sold` has in hexadecimal. `None` if it is not that of this payment.
pub(super) fn voucher_of(payment: &PaymentId, hex: &str) -> Option<Box<ChannelMemo>> {
    let memo = ChannelMemo::read(&AccountMemo::new(const_hex::decode(hex).ok()?)?)?;
    (memo.payment_id().as_ref() == Some(payment)).then(|| Box::new(memo))
}

/// The last voucher of each channel.
#[derive(Default)]
pub(super) struct LastVouchers(HashMap<ChannelId, ChannelMemo>);

impl LastVouchers {
    pub(super) fn add(&mut self, voucher: &ChannelMemo) {
        // Of two vouchers over one sum, the one whose answer cost something: the other covers more than was sold.
        let rank = |memo: &ChannelMemo| memo.last.as_ref().map(|last| (last.charged, last.charge > 0));
        let known = self.0.entry(voucher.config.id(voucher.network)).or_insert_with(|| voucher.clone());
        if rank(voucher) > rank(known) {
            *known = voucher.clone();
        }
    }

    pub(super) fn into_all(self) -> impl Iterator<Item = ChannelMemo> {
        self.0.into_values()
    }
}

/// Charges a channel up to the total of its last voucher, and stores the voucher, so that it is claimed. Returns `false` if the channel is
/// in use.
pub(super) async fn recharge(
    ledger: &Arc<dyn ErasedLedger>,
    channels: &Channels,
    voucher: &ChannelMemo,
    head: ChainTime,
) -> Result<bool, HealthError> {
    let (channel, Some(last)) = (Channel::new(voucher.config, voucher.network), &voucher.last) else { return Ok(true) };
    let charged = Amount::from_base_units(last.charged);
    let account = match read(ledger, channels, &channel, head).await? {
        Some(account) => account,
        None => match open(ledger, &channel, voucher).await? {
            OpenOutcome::Open(account) => account,
            OpenOutcome::Closed => return Ok(true),
        },
    };
    let Some(lacking) = charged.checked_sub(account.spent).filter(|lacking| !lacking.is_zero()) else {
        return Ok(true);
    };
    // What was sold was covered at that time. After the charge, the chain's present state counts again.
    let covered = Reflection::new(channel.account).limit(account.limit.max(charged));
    // Dated by the block that the account knows: without a block, it could only lower the limit.
    let covered = account.claims.as_ref().and_then(|claims| claims.as_of).into_iter().fold(covered, Reflection::as_of);
    let _ = ledger_in_time(async { accounts_of(&**ledger)?.reflect(&covered).await }).await?;
    let draw = Draw::new(channel.account, lacking, channels.lease).expecting(account.spent);
    let DrawOutcome::Granted(lease) = ledger_in_time(PendingDraw::new(ledger, draw)).await? else { return Ok(false) };
    let mut guard = DrawGuard::new(Arc::clone(ledger), lease);
    let before = ChannelMemo::read(guard.memo());
    let refund = voucher.refund.max(before.as_ref().and_then(|before| before.refund));
    let mut memo = ChannelMemo { refund, ..voucher.clone() };
    // The totals that claims have shown since, and perhaps this one: the log does not say.
    let shown =
        before.iter().flat_map(|before| before.public.clone()).chain((last.total > last.charged).then_some(last.total));
    for total in shown {
        memo = memo.once_shown(total, last.charged).unwrap_or(memo);
    }
    let memo = memo.write();
    let is_charged = matches!(guard.charge_part(lacking, memo.as_ref()).await, Charged::Done(_));
    read(ledger, channels, &channel, head).await?;
    Ok(is_charged)
}

async fn read(
    ledger: &Arc<dyn ErasedLedger>,
    channels: &Channels,
    channel: &Channel,
    head: ChainTime,
) -> Result<Option<Account>, HealthError> {
    match channels.read(&**ledger, channel, head).await {
        Ok(read) => Ok(read.account),
        Err(Unread::Chain) => Err(SettleError::unavailable().into()),
        Err(Unread::Ledger) => Err(LedgerError::unavailable().into()),
    }
}

/// Opens the account of a channel that holds nothing on the chain now.
async fn open(
    ledger: &Arc<dyn ErasedLedger>,
    channel: &Channel,
    voucher: &ChannelMemo,
) -> Result<OpenOutcome, LedgerError> {
    let empty = ChannelMemo { last: None, ..voucher.clone() }.write().unwrap_or_default();
    let opening = Opening::new(channel.account, Amount::ZERO).claimable().with_memo(empty);
    ledger_in_time(async { accounts_of(&**ledger)?.open_account(&opening).await }).await
}
