//! What is owed in channels: which of it can be claimed now, and which is lost.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use crate::{
    ledger::{Account, AccountId, Draw, DrawOutcome, ErasedLedger, LedgerError, accounts_of},
    metrics,
    paywall::{
        error::HealthError,
        sale::{
            draw::{Charged, DrawGuard, PendingDraw},
            unanswered::{LastCharge, take_back_last},
        },
        seller::{
            channels::{
                Channel, Channels,
                due::Owed,
                record::{ChannelMemo, read_note},
            },
            inner::MerchantInner,
            time_limits::ledger_in_time,
        },
    },
    protocol::{Amount, ChainTime, Network, channel::VoucherClaim},
    settle::ChannelOnChain,
};

/// How long a turn reads channels before it claims. Those that are left count as the ledger has them, and are read first in the next turn.
pub(super) const READING: Duration = Duration::from_secs(60);
/// How many channels are read at once.
const CHUNK: usize = 100;
/// After so many failures no more is read in this turn.
const FAILURES: usize = 3;
/// How many accounts are listed at once.
pub(super) const PAGE: usize = 500;
/// After that, what the chain does not have is no node that lags.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// An account of a channel of which something is owed.
struct Debt {
    channel: Channel,
    memo: ChannelMemo,
    account: Account,
}

/// The channels on a network of which something is owed, and can be claimed.
pub(super) async fn debts(
    merchant: &MerchantInner,
    channels: &Channels,
    head: ChainTime,
) -> Result<Vec<Owed>, HealthError> {
    let ledger = &merchant.ledger;
    let mut debts = owed(&**ledger, channels.network()).await?;
    let read = read(&**ledger, channels, &debts, head).await;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(merchant.clock.unix());
    let mut rows = Vec::new();
    for debt in &mut debts {
        let state = read.get(&debt.channel.account).map(|(state, account)| {
            if let Some(account) = account {
                debt.account = account.clone();
            }
            *state
        });
        let Some(memo) = ChannelMemo::read(&debt.account.memo) else { continue };
        debt.memo = memo;
        // What the ledger says of a withdrawal may be old.
        let noted = debt.account.claims.as_ref().and_then(|claims| read_note(&claims.note));
        if let Some(state) = state {
            note_loss(ledger, debt, &state, now).await;
        }
        rows.extend(row(debt, state.or(noted).as_ref()));
    }
    Ok(rows)
}

/// Leaves out the last charge of each of these rows where its answer never left, and takes it back.
pub(super) async fn answered(merchant: &MerchantInner, rows: &[Owed], head: ChainTime) -> Vec<Owed> {
    let mut answered = Vec::with_capacity(rows.len());
    for row in rows {
        answered.extend(answered_part(merchant, row.clone(), head).await);
    }
    answered
}

async fn answered_part(merchant: &MerchantInner, mut row: Owed, head: ChainTime) -> Option<Owed> {
    let Some((intent, charge)) = row.last else { return Some(row) };
    // Where that is not known, only what was charged before is claimed now. The next turn asks again.
    if let Ok(Some(_)) = ledger_in_time(merchant.ledger.consumed(intent)).await {
        return Some(row);
    }
    match take_back_last(merchant, &row.channel, &row.account, (head, None)).await {
        Ok(LastCharge::Stands) => return Some(row),
        // Also where the ledger's answer was lost: the charge may be taken back.
        Ok(LastCharge::TakenBack | LastCharge::UnderWay) | Err(_) => {}
    }
    let before = row.charged.saturating_sub(charge).min(row.claim.total_claimed);
    let claimed = row.account.claims.as_ref().map_or(Amount::ZERO, |claims| claims.claimed);
    row.claim = VoucherClaim::new(row.claim.config, row.claim.voucher, before);
    row.owed = Amount::from_base_units(before).checked_sub(claimed).unwrap_or(Amount::ZERO);
    (!row.owed.is_zero()).then_some(row)
}

/// Whether what is owed can be lost to a withdrawal: more was sold than what stays in the channel covers.
fn is_at_risk(account: &Account, state: &ChannelOnChain) -> bool {
    state.withdraw_requested_at.is_some() && account.spent > state.covers()
}

/// The claim of what the channel holds of it; `None` where nothing of it is left to be claimed.
fn row(debt: &Debt, state: Option<&ChannelOnChain>) -> Option<Owed> {
    let Debt { channel, memo, account } = debt;
    let claim = memo.claim(channel.id)?;
    let charged = claim.total_claimed;
    let claims = account.claims.as_deref()?;
    // The contract pays no more than there is: what is there is claimed, rather than nothing.
    let holds = state.map_or(u128::MAX, |state| state.balance.to_u128().unwrap_or(u128::MAX));
    let claim = VoucherClaim::new(claim.config, claim.voucher, charged.min(holds));
    let owed = Amount::from_base_units(claim.total_claimed).checked_sub(claims.claimed)?;
    let withdrawn = state.filter(|state| is_at_risk(account, state)).and_then(|state| state.withdraw_requested_at);
    let last = memo.last.as_ref().filter(|last| last.charge > 0).map(|last| (last.intent, last.charge));
    (!owed.is_zero()).then(|| Owed {
        channel: *channel,
        claim,
        owed,
        since: claims.since,
        is_withdrawn_from: withdrawn.is_some(),
        withdrawn_since: withdrawn,
        account: account.clone(),
        charged,
        last,
    })
}

/// Notes durably, and tells once, that a part of what was sold is lost: the chain does not have it. It also tells when that came back.
async fn note_loss(ledger: &Arc<dyn ErasedLedger>, debt: &mut Debt, state: &ChannelOnChain, now: SystemTime) {
    let Some(claims) = debt.account.claims.as_deref() else { return };
    let charged = debt.memo.last.as_ref().map_or(0, |last| last.charged);
    let holds = state.balance.max(claims.claimed).to_u128().unwrap_or(u128::MAX);
    let lost = match state.withdraw_requested_at {
        // It can still be claimed, or is not withdrawn yet.
        Some(_) => debt.memo.lost,
        None => charged.saturating_sub(holds),
    };
    let age = claims.since.and_then(|since| now.duration_since(since).ok()).unwrap_or_default();
    if lost == debt.memo.lost || lost > debt.memo.lost && age < LOST_AFTER {
        return;
    }
    let memo = ChannelMemo { lost, ..debt.memo.clone() };
    // A channel that is in use comes later.
    if !write(ledger, &debt.channel, &debt.account, &memo).await {
        return;
    }
    let (channel, network) = (debt.channel.id, memo.network);
    match lost.checked_sub(debt.memo.lost) {
        Some(more) => {
            tracing::error!(%channel, %network, amount = more, "what was sold in this channel is lost: the chain does not have it any more");
            metrics::lost_in_channels(network, &debt.channel.config.token, more);
        }
        None => tracing::info!(%channel, %network, lost, "what was lost in this channel is covered again"),
    }
    debt.memo = memo;
}

/// Leaves a memo on the account, unless that is in use.
async fn write(ledger: &Arc<dyn ErasedLedger>, channel: &Channel, account: &Account, memo: &ChannelMemo) -> bool {
    let Some(memo) = memo.write() else { return false };
    let draw = Draw::new(channel.account, Amount::ZERO, LOST_AFTER).expecting(account.spent);
    let Ok(DrawOutcome::Granted(lease)) = ledger_in_time(PendingDraw::new(ledger, draw)).await else { return false };
    let mut guard = DrawGuard::new(Arc::clone(ledger), lease);
    if *guard.memo() != account.memo {
        guard.release().await;
        return false;
    }
    matches!(guard.charge_part(Amount::ZERO, Some(&memo)).await, Charged::Done(_))
}

/// Reads the channels whose state is not known of a moment ago, those first that were not read for the longest time.
async fn read(
    ledger: &dyn ErasedLedger,
    channels: &Channels,
    debts: &[Debt],
    head: ChainTime,
) -> HashMap<AccountId, (ChannelOnChain, Option<Account>)> {
    let (mut read, mut stale, mut failures, end) = (HashMap::new(), Vec::new(), 0, Instant::now() + READING);
    for debt in debts {
        match channels.is_lately_read(&debt.channel) {
            Some(known) => _ = read.insert(debt.channel.account, (known.state, None)),
            None => stale.push(debt.channel),
        }
    }
    stale.sort_by_key(|channel| channels.last_read(channel));
    for chunk in stale.chunks(CHUNK) {
        if failures >= FAILURES || Instant::now() >= end {
            break;
        }
        match channels.read_all(ledger, chunk, head).await {
            Ok(mirrored) => read.extend(
                chunk.iter().zip(mirrored).map(|(channel, read)| (channel.account, (read.state, read.account))),
            ),
            Err(_) => failures += 1,
        }
    }
    read
}

/// The accounts of which something is owed, on one network.
async fn owed(ledger: &dyn ErasedLedger, network: Network) -> Result<Vec<Debt>, LedgerError> {
    let (mut debts, mut after) = (Vec::new(), None);
    loop {
        let page = ledger_in_time(async { accounts_of(ledger)?.owed(after, PAGE).await }).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|(id, _)| *id);
        debts.extend(page.into_iter().filter_map(|(id, account)| {
            let (channel, memo) = named(id, &account, network)?;
            Some(Debt { channel, memo, account })
        }));
        if is_last {
            return Ok(debts);
        }
    }
}

/// The channel of an account, if it is one on this network.
pub(super) fn named(id: AccountId, account: &Account, network: Network) -> Option<(Channel, ChannelMemo)> {
    let memo = ChannelMemo::read(&account.memo).filter(|memo| memo.network == network)?;
    let channel = Channel::new(memo.config, network);
    (channel.account == id).then_some((channel, memo))
}
