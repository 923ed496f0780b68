//! The debts of channels: which can be claimed now, and which are lost.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep};

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

/// How long a turn reads channels before it claims. For the others, the ledger's state counts; they are read first in the next turn.
pub(super) const READING: Duration = Duration::from_secs(60);
/// How many channels are read at once.
const CHUNK: usize = 100;
/// After this many failures, a turn reads no more.
const FAILURES: usize = 3;
/// How many accounts are listed at once.
pub(super) const PAGE: usize = 500;
/// The age of a debt at which missing money is no longer put down to a lagging node, if the settler names no block.
const LOST_AFTER: Duration = Duration::from_secs(300);

/// How long an account is held while a note is written on it: longer than the ledger may take to answer both calls. If the process dies
/// meanwhile, the channel cannot buy for that long.
const NOTING: Duration = Duration::from_secs(15);

/// The waits before each try for an account that is in use. If its payer withdraws, there is one try only: many such channels would take
/// each other's time.
const TELLING: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// The account of a channel that owes something.
struct Debt {
    channel: Channel,
    memo: ChannelMemo,
    account: Account,
}

/// Returns the channels on a network that owe something that can be claimed.
pub(super) async fn debts(
    merchant: &MerchantInner,
    channels: &Channels,
    head: ChainTime,
) -> Result<Vec<Owed>, HealthError> {
    let ledger = &merchant.ledger;
    let mut debts = owed(&**ledger, channels.network()).await?;
    let read = read(&**ledger, channels, &debts, head).await;
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
        // What the ledger knows of a withdrawal may be old.
        let noted = debt.account.claims.as_ref().and_then(|claims| read_note(&claims.note));
        if let Some(state) = state {
            note_return(ledger, debt, &state).await;
        }
        rows.extend(row(channels, debt, state.or(noted).as_ref()));
    }
    Ok(rows)
}

/// Removes the last charge from each of these rows if its answer never left, and takes that charge back. A row that owes more may wait for
/// a while, and then counts as `left`.
pub(super) async fn answered(merchant: &MerchantInner, rows: &[Owed], head: ChainTime, left: &mut usize) -> Vec<Owed> {
    let mut answered = Vec::with_capacity(rows.len());
    for row in rows {
        answered.extend(answered_part(merchant, row.clone(), head, left).await);
    }
    answered
}

async fn answered_part(merchant: &MerchantInner, mut row: Owed, head: ChainTime, left: &mut usize) -> Option<Owed> {
    let Some(charge) = row.last else { return Some(row) };
    // If that is not known, only the earlier charges are claimed now. The next turn asks again.
    match take_back_last(merchant, &row.channel, &row.account, (head, None)).await {
        Ok(LastCharge::Stands) => return Some(row),
        // On an error as well: the answer may be lost, and the charge taken back.
        Ok(LastCharge::TakenBack | LastCharge::UnderWay) | Err(_) => {}
    }
    let before = row.charged.saturating_sub(charge).min(row.claim.total_claimed);
    let claimed = row.account.claims.as_ref().map_or(Amount::ZERO, |claims| claims.claimed);
    row.claim = VoucherClaim::new(row.claim.config, row.claim.voucher, before);
    row.owed = Amount::from_base_units(before).checked_sub(claimed).unwrap_or(Amount::ZERO);
    if !row.owed.is_zero() && may_wait(&row, merchant.clock.unix()) {
        *left += 1;
        return None;
    }
    (!row.owed.is_zero()).then_some(row)
}

/// Returns whether a claim can wait until its payer has bought again. It would show everyone the voucher of an answer that never left. The
/// payer goes on with that voucher, and it would buy nothing from then on.
fn may_wait(row: &Owed, now: u64) -> bool {
    let since = row.since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
    let patience = u64::from(row.channel.config.withdraw_delay) / 4;
    !row.is_withdrawn_from && now.saturating_sub(since.as_secs()) < patience
}

/// Whether the account notes which voucher a claim shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Noted,
    /// The account stays in use, or the ledger does not answer.
    InUse,
    /// Less is charged than the row claims: a charge was taken back since.
    Stale,
}

/// Notes on each account, durably, which voucher a claim is about to show to everyone. A row whose account stays in use waits for the next
/// turn, unless its payer withdraws. A row that claims more than is charged always waits.
pub(super) async fn tell_what_is_shown(ledger: &Arc<dyn ErasedLedger>, rows: Vec<Owed>, left: &mut usize) -> Vec<Owed> {
    let mut told = Vec::with_capacity(rows.len());
    for row in rows {
        match tell(ledger, &row).await {
            Told::Noted => told.push(row),
            Told::InUse if row.is_withdrawn_from => told.push(row),
            Told::InUse | Told::Stale => *left += 1,
        }
    }
    told
}

async fn tell(ledger: &Arc<dyn ErasedLedger>, row: &Owed) -> Told {
    let shown = row.claim.voucher.max_claimable;
    let tries = if row.is_withdrawn_from { 1 } else { TELLING.len() };
    for wait in TELLING.into_iter().take(tries) {
        sleep(wait).await;
        let account = ledger_in_time(async { accounts_of(&**ledger)?.account(row.channel.account).await }).await;
        let Ok(Some(account)) = account else { return Told::InUse };
        let Some(memo) = ChannelMemo::read(&account.memo) else { return Told::InUse };
        if account.spent < Amount::from_base_units(row.claim.total_claimed) {
            return Told::Stale;
        }
        let noted = account.claims.as_ref().and_then(|claims| read_note(&claims.note));
        let claimed = noted.and_then(|state| state.claimed_at_most.to_u128()).unwrap_or_default();
        let Some(memo) = memo.once_shown(shown, claimed) else { return Told::Noted };
        if write(ledger, &row.channel, &account, &memo).await {
            return Told::Noted;
        }
    }
    Told::InUse
}

/// Returns whether the debt can be lost to a withdrawal: more was sold than the rest of the channel covers.
fn is_at_risk(account: &Account, state: &ChannelOnChain) -> bool {
    state.withdraw_requested_at.is_some() && account.spent > state.covers()
}

/// Returns the claim of all that is not lost, or is in the channel again; `None` if nothing is left to claim. The channel's present balance
/// limits nothing else: one node that lies would hide the debt.
fn row(channels: &Channels, debt: &Debt, state: Option<&ChannelOnChain>) -> Option<Owed> {
    let Debt { channel, memo, account } = debt;
    let claim = memo.claim(channel.id)?;
    let charged = claim.total_claimed;
    let claims = account.claims.as_deref()?;
    let holds = state.map_or(0, |state| state.balance.to_u128().unwrap_or(u128::MAX));
    let total = charged.saturating_sub(memo.lost).max(charged.min(holds));
    let claim = VoucherClaim::new(claim.config, claim.voucher, total);
    let owed = Amount::from_base_units(claim.total_claimed).checked_sub(claims.claimed)?;
    let withdrawn = state.filter(|state| is_at_risk(account, state)).and_then(|state| state.withdraw_requested_at);
    let last = memo.last.as_ref().filter(|last| last.charge > 0).map(|last| last.charge);
    (!owed.is_zero()).then(|| Owed {
        channel: *channel,
        claim,
        owed,
        since: claims.since,
        is_withdrawn_from: withdrawn.is_some(),
        withdrawn_since: withdrawn,
        account: account.clone(),
        state: state.copied(),
        charged,
        last,
        tried: channels.tried().last(channel.account),
    })
}

/// Returns the row for what the channel holds, after every node refused the whole claim because the channel holds less. The contract pays
/// no more than there is, so that much is claimed rather than nothing. `None` if that is nothing.
pub(super) fn covered_part(row: &Owed) -> Option<Owed> {
    let holds = row.state?.balance.to_u128().unwrap_or(u128::MAX);
    let claimed = row.account.claims.as_ref().map_or(Amount::ZERO, |claims| claims.claimed);
    let total = row.claim.total_claimed.min(holds);
    let owed = Amount::from_base_units(total).checked_sub(claimed).filter(|owed| !owed.is_zero())?;
    let claim = VoucherClaim::new(row.claim.config, row.claim.voucher.clone(), total);
    (total < row.claim.total_claimed).then(|| Owed { claim, owed, ..row.clone() })
}

/// Returns how much of the charged total the chain lacks.
fn lacking(charged: u128, claimed: Amount, state: &ChannelOnChain) -> u128 {
    charged.saturating_sub(state.balance.max(claimed).to_u128().unwrap_or(u128::MAX))
}

/// Notes that a lost amount is covered again.
async fn note_return(ledger: &Arc<dyn ErasedLedger>, debt: &mut Debt, state: &ChannelOnChain) {
    let (Some(claims), Some(last)) = (debt.account.claims.as_deref(), &debt.memo.last) else { return };
    let lost = lacking(last.charged, claims.claimed, state);
    if lost >= debt.memo.lost {
        return;
    }
    let memo = ChannelMemo { lost, ..debt.memo.clone() };
    // A channel that is in use is noted later.
    if write(ledger, &debt.channel, &debt.account, &memo).await {
        let (channel, network) = (debt.channel.id, memo.network);
        tracing::info!(%channel, %network, lost, "what was lost in this channel is covered again");
        debt.memo = memo;
    }
}

/// Notes durably, and reports once, that a part of what was sold is lost because every node refused to claim it. Returns `false` if that is
/// not certain yet, or not noted.
pub(super) async fn note_loss(ledger: &Arc<dyn ErasedLedger>, row: &Owed, now: SystemTime) -> bool {
    let account = ledger_in_time(async { accounts_of(&**ledger)?.account(row.channel.account).await }).await;
    let (Ok(Some(account)), Some(state)) = (account, row.state) else { return false };
    let (Some(claims), Some(memo)) = (account.claims.as_deref(), ChannelMemo::read(&account.memo)) else {
        return false;
    };
    // Certain by the latest block that the account knows. If it knows none, a node may lag: then the age of the debt decides.
    let is_sure = match claims.as_of {
        Some(last) => state.as_of == Some(last),
        None => claims.since.and_then(|since| now.duration_since(since).ok()).is_some_and(|age| age >= LOST_AFTER),
    };
    let is_same = memo.last.as_ref().is_some_and(|last| last.charged == row.charged);
    // During a withdrawal, what is left can still be claimed.
    let is_over = state.withdraw_requested_at.is_none() || state.balance <= claims.claimed;
    let lost = lacking(row.charged, claims.claimed, &state);
    let Some(more) = lost.checked_sub(memo.lost).filter(|more| *more > 0 && is_sure && is_same && is_over) else {
        return false;
    };
    let memo = ChannelMemo { lost, ..memo };
    // A channel that is in use is noted later.
    if !write(ledger, &row.channel, &account, &memo).await {
        return false;
    }
    let (channel, network) = (row.channel.id, memo.network);
    tracing::error!(%channel, %network, amount = more, "what was sold in this channel is lost: the chain does not have it any more");
    metrics::lost_in_channels(network, &row.channel.config.token, more);
    true
}

/// Stores a memo on the account, unless the account is in use or has changed.
async fn write(ledger: &Arc<dyn ErasedLedger>, channel: &Channel, account: &Account, memo: &ChannelMemo) -> bool {
    let Some(memo) = memo.write() else { return false };
    let draw = Draw::new(channel.account, Amount::ZERO, NOTING).expecting(account.spent).for_upkeep();
    let Ok(DrawOutcome::Granted(lease)) = ledger_in_time(PendingDraw::new(ledger, draw)).await else { return false };
    let mut guard = DrawGuard::new(Arc::clone(ledger), lease);
    if *guard.memo() != account.memo {
        guard.release().await;
        return false;
    }
    matches!(guard.charge_part(Amount::ZERO, Some(&memo)).await, Charged::Done(_))
}

/// Reads the channels that were not read a moment ago, those first that were not read for the longest time.
async fn read(
    ledger: &dyn ErasedLedger,
    channels: &Channels,
    debts: &[Debt],
    head: ChainTime,
) -> HashMap<AccountId, (ChannelOnChain, Option<Account>)> {
    let (mut read, mut stale, mut failures, end) = (HashMap::new(), Vec::new(), 0, Instant::now() + READING);
    for debt in debts {
        match channels.recent_reading(&debt.channel) {
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

/// Returns the accounts that owe something, on one network.
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

/// Returns the channel of an account, if it is a channel's on this network.
pub(super) fn named(id: AccountId, account: &Account, network: Network) -> Option<(Channel, ChannelMemo)> {
    let memo = ChannelMemo::read(&account.memo).filter(|memo| memo.network == network)?;
    let channel = Channel::new(memo.config, network);
    (channel.account == id).then_some((channel, memo))
}
