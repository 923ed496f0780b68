//! `Claiming`: the claims of one turn on one network. A claim ends only when its transaction is believed to stay, so several run at once.

use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    metrics,
    paywall::{
        merchant::{
            at_once::at_once,
            claimed::Claimed,
            debts::{answered, covered_part, note_loss, tell_what_is_shown},
            unclaimed::Unclaimed,
        },
        seller::{
            channels::{
                Channel, Channels,
                due::{Owed, by_harm},
            },
            inner::MerchantInner,
        },
    },
    protocol::{Amount, ChainTime, channel::VoucherClaim, v2::Reason},
    settle::{ClaimOutcome, SettleError, SettleErrorKind},
};

/// How many claims run at once. Nodes hold only some dozen pending transactions of one account.
const AT_ONCE: usize = 8;
/// How long the first claim runs alone once the settler is asked for it. If the ether is too little for it, it usually fails within this
/// time.
const HEAD_START: Duration = Duration::from_secs(5);
/// How long a turn works on urgent claims: those that failed the last time, and whose payers withdraw.
const URGENT_FOR: Duration = Duration::from_secs(60);

/// What a turn has done on one network so far.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) unclaimed: Unclaimed,
    claimed: Mutex<Claimed>,
}

impl Progress {
    pub(super) fn note(&self, change: impl FnOnce(&mut Claimed)) {
        change(&mut self.claimed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn claimed(&self) -> Claimed {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) struct Claiming<'a> {
    merchant: &'a MerchantInner,
    channels: &'a Channels,
    /// The time of the newest block.
    head: ChainTime,
    progress: &'a Progress,
    /// The time after which no claim begins, and the time when claims in progress are left to the next turn.
    times: [Instant; 2],
    /// Both of these times for urgent claims. Set when the first of them begins.
    urgent: OnceLock<Instant>,
    /// Whether the settler was asked for a claim.
    is_asked: AtomicBool,
    /// Whether the ether was too little for a claim in this turn.
    is_short: AtomicBool,
    /// Whether the ether is too little even for the smallest claim.
    is_out_of_gas: AtomicBool,
}

impl<'a> Claiming<'a> {
    /// `times`: the time after which no claim begins, and the time when claims in progress are left to the next turn.
    pub(super) fn new(
        (merchant, channels): (&'a MerchantInner, &'a Channels),
        head: ChainTime,
        progress: &'a Progress,
        times: [Instant; 2],
    ) -> Self {
        let [is_asked, is_short, is_out_of_gas] = [(); 3].map(|()| AtomicBool::new(false));
        Self { merchant, channels, head, progress, times, urgent: OnceLock::new(), is_asked, is_short, is_out_of_gas }
    }

    /// Claims all parts in their order, each by one transaction if possible. The flag of a part says whether it is urgent.
    ///
    /// If the ether is too little for the first part, the parts are claimed one at a time. Otherwise small debts could use up the ether that
    /// the largest need. The first part has the largest debts of payers who withdraw, unless claims of such payers failed in the last turn.
    pub(super) async fn claim(&self, parts: Vec<(Vec<Owed>, bool)>) {
        let mut claims = parts.into_iter().map(|(rows, is_urgent)| Box::pin(self.claim_part(rows, is_urgent)));
        let Some(mut first) = claims.next() else { return };
        let mut claims: Vec<_> = claims.collect();
        let mut has_ended = false;
        // The time that the ledger takes to prepare the claim is no part of its head start.
        while !has_ended {
            let was_asked = self.is_asked.load(Ordering::Relaxed) || Instant::now() >= self.times[0];
            has_ended = timeout(HEAD_START, &mut first).await.is_ok();
            if was_asked {
                break;
            }
        }
        if !has_ended {
            claims.insert(0, first);
        }
        let most = if self.is_short.load(Ordering::Relaxed) { 1 } else { AT_ONCE };
        at_once(claims, most).await;
    }

    async fn claim_part(&self, rows: Vec<Owed>, is_urgent: bool) {
        let [until, end] = self.times_of(is_urgent);
        if Instant::now() >= until {
            return self.leave(rows.len());
        }
        let (merchant, tried, mut left) = (self.merchant, self.channels.tried(), 0);
        // Includes the rows that are left out below as they are in use: they must not make others due either.
        tried.begin(rows.iter().map(|row| (row.channel.account, row.claim.total_claimed)));
        let answered = answered(merchant, &rows, self.head, &mut left).await;
        let rows = tell_what_is_shown(&merchant.ledger, answered, &mut left).await;
        self.leave(left);
        tried.claims(rows.iter().map(|row| row.channel.account));
        self.progress.unclaimed.tried(&rows);
        let count = rows.len();
        match timeout_at(end, self.claim_rows(rows)).await {
            Ok(claimed) => self.claimed(&claimed).await,
            Err(_) => {
                tracing::warn!(channels = count, "a claim takes too long; trying again");
                self.leave(count);
            }
        }
    }

    fn times_of(&self, is_urgent: bool) -> [Instant; 2] {
        if !is_urgent {
            return self.times;
        }
        let urgent = *self.urgent.get_or_init(|| Instant::now() + URGENT_FOR);
        [self.times[0].min(urgent); 2]
    }

    /// Tells the ledger of claimed rows, by reading all of their channels at once.
    async fn claimed(&self, rows: &[Owed]) {
        if rows.is_empty() {
            return;
        }
        let read: Vec<Channel> = rows.iter().map(|row| row.channel).collect();
        let _ = self.channels.read_all(&*self.merchant.ledger, &read, self.head).await;
        for channel in read {
            self.channels.tried().end(channel.account);
            self.progress.unclaimed.claimed(channel.id);
        }
    }

    fn leave(&self, rows: usize) {
        self.progress.note(|claimed| claimed.left += rows);
    }

    /// Claims these rows, except those that make their common claim fail. Returns the claimed ones.
    async fn claim_rows(&self, mut rows: Vec<Owed>) -> Vec<Owed> {
        let (channels, unclaimed) = (self.channels, &self.progress.unclaimed);
        self.is_asked.store(true, Ordering::Relaxed);
        while !rows.is_empty() {
            let claims: Vec<VoucherClaim> = rows.iter().map(|row| row.claim.clone()).collect();
            match channels.settler.claim(channels.network(), &claims).await {
                Ok(ClaimOutcome::Claimed(transaction)) => {
                    tracing::info!(channels = rows.len(), ?transaction, "claimed");
                    self.note_claimed(&rows);
                    self.progress.note(|claimed| {
                        claimed.channels += rows.len();
                        claimed.transactions.extend(transaction);
                    });
                    return rows;
                }
                Ok(ClaimOutcome::Refused(refused)) if !refused.is_empty() => {
                    let mut left = Vec::with_capacity(rows.len());
                    for (at, row) in rows.into_iter().enumerate() {
                        match refused.iter().find(|refusal| refusal.row == at) {
                            Some(refusal) => left.extend(self.refused(row, &refusal.reason).await),
                            None => left.push(row),
                        }
                    }
                    rows = left;
                }
                unsure if self.may_be_halved(&unsure, &rows) => {
                    rows = by_harm(rows);
                    let other = rows.split_off(rows.len() / 2);
                    let mut done = Box::pin(self.claim_rows(rows)).await;
                    done.extend(Box::pin(self.claim_rows(other)).await);
                    return done;
                }
                // A node that lags may still see more in these channels, so no row is refused for certain. Claim what the channels
                // do hold.
                Ok(ClaimOutcome::Unknown(None)) if rows.iter().all(|row| covered_part(row).is_some()) => {
                    rows.iter().for_each(|row| unclaimed.lacks(row.channel.id));
                    rows = rows.iter().filter_map(covered_part).collect();
                }
                unknown => {
                    if let Ok(ClaimOutcome::Unknown(Some(_))) = unknown {
                        self.note_sent(&rows, false);
                    }
                    tracing::warn!(?unknown, channels = rows.len(), "whether it is claimed is not known; trying again");
                    self.leave(rows.len());
                    return Vec::new();
                }
            }
        }
        Vec::new()
    }

    /// Returns whether to claim these rows in halves.
    fn may_be_halved(&self, unsure: &Result<ClaimOutcome, SettleError>, rows: &[Owed]) -> bool {
        let by_halves = match unsure {
            // A row may fail without being named.
            Ok(ClaimOutcome::Unknown(None)) => true,
            // The ether may suffice for the largest of them. Without halving, a payer could hide a large debt among small ones.
            Err(error) if matches!(error.kind(), SettleErrorKind::OutOfGas { .. }) => {
                self.is_short.store(true, Ordering::Relaxed);
                // A claim of one row that a key signed takes the least gas.
                if rows.len() == 1 && rows[0].channel.config.voucher_key().is_some() {
                    self.is_out_of_gas.store(true, Ordering::Relaxed);
                }
                !self.is_out_of_gas.load(Ordering::Relaxed)
            }
            _ => false,
        };
        by_halves && rows.len() > 1 && Instant::now() < self.times[0]
    }

    fn note_claimed(&self, rows: &[Owed]) {
        self.note_sent(rows, true);
        for row in rows {
            // If too few nodes answer, the ledger does not learn of the claim, and the row is claimed again.
            let total = row.claim.total_claimed;
            let owed = row.owed.to_u128().unwrap_or(u128::MAX);
            let more = self.channels.tried().counts(row.channel.account, (total.saturating_sub(owed), total));
            let (network, token) = (self.channels.network(), &row.channel.config.token);
            metrics::claimed_of_channels(network, token, Amount::from_base_units(more));
        }
    }

    /// Notes that a transaction was sent for these rows. Otherwise each turn would send one while the ledger does not know the outcome.
    fn note_sent(&self, rows: &[Owed], is_claimed: bool) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(self.merchant.clock.unix());
        for row in rows {
            self.channels.tried().sent(row.channel.account, row.claim.total_claimed, now, is_claimed);
        }
    }

    /// Returns what can still be claimed of a refused row: what its channel holds, if that is less than what was sold.
    async fn refused(&self, row: Owed, reason: &Reason) -> Option<Owed> {
        let (channel, unclaimed) = (row.channel.id, &self.progress.unclaimed);
        let (mut covered, mut is_lost) = (None, false);
        if *reason == Reason::INVALID_BATCH_SETTLEMENT_EVM_CUMULATIVE_EXCEEDS_BALANCE {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(self.merchant.clock.unix());
            covered = covered_part(&row);
            is_lost = note_loss(&self.merchant.ledger, &row, now).await;
        }
        if !is_lost {
            tracing::error!(%channel, %reason, "what was sold in this channel cannot be claimed");
        }
        match (&covered, is_lost) {
            (Some(_), true) => {}
            (Some(_), false) => unclaimed.lacks(channel),
            (None, true) => unclaimed.claimed(channel),
            (None, false) => self.leave(1),
        }
        covered
    }
}
