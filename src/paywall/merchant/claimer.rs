//! `Claimer`: claims on the chain what was sold in channels.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    ledger::accounts_of,
    metrics,
    paywall::{
        error::HealthError,
        merchant::{
            Merchant,
            claim_turn::{Report, Turn},
            debts::{PAGE, answered, covered_part, debts, note_loss, tell_what_is_shown},
            unclaimed::{Unclaimed, told_elsewhere},
        },
        seller::{
            chain::SellingChain,
            channels::{
                Channels,
                due::{Owed, due, first_to_claim},
                record::ChannelMemo,
            },
            inner::MerchantInner,
            time_limits::{ledger_in_time, verifier_in_time},
        },
    },
    protocol::{Amount, ChainTime, TxHash, channel::VoucherClaim, v2::Reason},
    settle::{CLAIMS_MAX, ClaimOutcome, SettleError, SweepOutcome},
};

/// How often the claimer checks what is due. A withdrawal that a payer began is claimed within a minute.
const EVERY: Duration = Duration::from_secs(10);
/// After how many checks it sweeps what others claimed.
const SWEEP_EACH: u32 = 60;
/// How long the turn of a process that died keeps the others waiting: far less than any payer waits for a withdrawal. A running turn is
/// renewed.
const TURN: Duration = Duration::from_secs(60);
/// The longest turn.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// How long a turn begins claims. The rest of the turn sweeps and reports; the next turn claims the rest.
const CLAIMS_FOR: Duration = Duration::from_secs(3 * 60);
/// How much of that time is for claims that failed the last time, and whose payers withdraw.
const URGENT_FOR: Duration = Duration::from_secs(60);

/// Claims on the chain what was sold in [channels](crate::MerchantBuilder::channel_settler), and sweeps it to the seller.
///
/// Every replica runs one, and a lease in the ledger lets one of them work. It claims what has been owed for longer than the
/// [policy](crate::ChannelPolicy) says, and everything once the sum is large enough or worth its gas. It claims at once what is sold in a
/// channel whose payer withdraws. Its work may be repeated: the contract takes the difference to what was claimed before.
///
/// **If none runs, what was sold is lost to payers who withdraw**: see [`Merchant::health`](crate::Merchant::health).
///
/// ```no_run
/// # fn start(merchant: tower_x402::Merchant) {
/// tokio::spawn(merchant.claimer().run());
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed unless it runs"]
pub struct Claimer {
    merchant: Arc<MerchantInner>,
}

/// The result of claiming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The number of channels that were claimed.
    pub channels: usize,
    /// The number of channels that could not be claimed, or for which that is not known yet.
    pub left: usize,
    /// The transactions: claims, then sweeps.
    pub transactions: Vec<TxHash>,
    /// Whether another process was claiming, so that nothing was done here.
    pub elsewhere: bool,
}

/// What a turn does.
#[derive(Clone, Copy)]
struct Effort {
    /// Claims also what is not due yet.
    all: bool,
    /// Sweeps even if it claims nothing.
    sweeps: bool,
}

impl Merchant {
    /// Returns the worker that claims what is sold in channels. It has to [run](Claimer::run) wherever the merchant sells.
    pub fn claimer(&self) -> Claimer {
        Claimer { merchant: Arc::clone(&self.inner) }
    }

    /// Claims everything that is owed now, and sweeps it, without waiting until it is due.
    ///
    /// # Errors
    /// [`HealthError`] if the ledger or the chain does not answer. Claims made by then stand.
    pub async fn claim_now(&self) -> Result<Claimed, HealthError> {
        self.claimer().turn(Effort { all: true, sweeps: true }).await
    }
}

impl Claimer {
    /// Claims what is due, at intervals, until it is dropped. An outage is logged, and the next turn tries again.
    pub async fn run(self) -> Infallible {
        for turn in 0_u32.. {
            // Refunds claim as well.
            let effort = Effort { all: false, sweeps: turn % SWEEP_EACH == 0 };
            if let Err(error) = self.turn(effort).await {
                tracing::warn!(%error, "what was sold in channels could not be claimed; trying again");
            }
            sleep(EVERY).await;
        }
        std::future::pending().await
    }

    async fn turn(&self, effort: Effort) -> Result<Claimed, HealthError> {
        let (mut claimed, mut failed) = (Claimed::default(), Ok(()));
        // Every chain gets its turn: one that fails does not hold back the others.
        for chain in self.merchant.chains.iter() {
            let Some(channels) = &chain.channels else { continue };
            let done = self.take_turn(chain, channels, effort, &mut claimed).await;
            failed = failed.and(done.map_err(|error| self.merchant.of_network(chain.network, error)));
        }
        failed.map(|()| claimed)
    }

    async fn take_turn(
        &self,
        chain: &SellingChain,
        channels: &Channels,
        effort: Effort,
        claimed: &mut Claimed,
    ) -> Result<(), HealthError> {
        let Some(turn) = Turn::take(&self.merchant.ledger, chain.network, self.merchant.lease.min(TURN)).await? else {
            claimed.elsewhere = true;
            told_elsewhere(channels);
            return Ok(());
        };
        let (mut owed, mut unclaimed) = (Vec::new(), Unclaimed::default());
        // A settler that hangs must not keep the turn from the others.
        let done =
            timeout(LONGEST, self.claim_on((chain, channels), effort, (&mut owed, &mut unclaimed), claimed)).await;
        let done = done.unwrap_or_else(|_| {
            // Nothing is owed here if the turn was cut off before it had read the debts.
            if !owed.is_empty() {
                unclaimed.tell(channels, &owed);
            }
            Err(SettleError::unavailable().into())
        });
        turn.end(done.as_ref().ok().copied()).await;
        done.map(drop)
    }

    /// Claims what is due on one network, and sweeps it.
    async fn claim_on(
        &self,
        (chain, channels): (&SellingChain, &Channels),
        effort: Effort,
        (owed, unclaimed): (&mut Vec<Owed>, &mut Unclaimed),
        claimed: &mut Claimed,
    ) -> Result<Report, HealthError> {
        // If one of these does not answer, claims go on all the same.
        let _ = channels.learn().await;
        let clock = ChainTime::from_unix(self.merchant.clock.unix());
        let head = verifier_in_time(chain.view.head()).await.unwrap_or(clock);
        *owed = debts(&self.merchant, channels, head).await?;
        let now = self.merchant.clock.unix();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let worth = channels.worth_their_gas(owed).await;
        let due = due(owed, &channels.policy, time, effort.all, &worth);
        let mut sweeps = effort.sweeps;
        channels.tried().keep(&owed.iter().map(|row| row.channel.account).collect());
        let is_failed = |row: &Owed| channels.tried().contains(row.channel.account);
        let (until, mut urgent_until) = (Instant::now() + CLAIMS_FOR, None);
        for (rows, is_urgent) in in_order(due, is_failed) {
            let end = match is_urgent {
                true => until.min(*urgent_until.get_or_insert_with(|| Instant::now() + URGENT_FOR)),
                false => until,
            };
            if Instant::now() >= end {
                claimed.left += rows.len();
                continue;
            }
            // Includes the rows that are left out below as they are in use: they must not make others due either.
            channels.tried().begin(rows.iter().map(|row| (row.channel.account, row.claim.total_claimed)));
            let answered = answered(&self.merchant, &rows, head, &mut claimed.left).await;
            let rows = tell_what_is_shown(&self.merchant.ledger, answered, &mut claimed.left).await;
            channels.tried().claims(rows.iter().map(|row| row.channel.account));
            unclaimed.tried(&rows);
            let (count, work) = (rows.len(), self.claim_rows(channels, rows, until, (&mut *unclaimed, &mut *claimed)));
            // Only urgent claims are cut off: all others wait behind them.
            let done = if is_urgent { timeout_at(end, work).await } else { Ok(work.await) };
            if done.is_err() {
                tracing::warn!(channels = count, "a claim whose payer withdraws takes too long; trying again");
                claimed.left += count;
            }
            for row in done.unwrap_or_default() {
                let _ = channels.read(&*self.merchant.ledger, &row.channel, head).await;
                channels.tried().end(row.channel.account);
                unclaimed.claimed(row.channel.id);
                sweeps = true;
            }
        }
        // A claim counts even if the ledger does not know of it.
        let is_claimed = |row: &&Owed| row.claim.total_claimed <= channels.tried().last(row.channel.account).claimed;
        owed.iter().filter(is_claimed).for_each(|row| unclaimed.claimed(row.channel.id));
        // A sweep that fails puts nothing at risk: what is claimed belongs to the seller.
        unclaimed.tell(channels, owed);
        if sweeps {
            self.sweep(channels, claimed).await?;
        }
        let left = owed.iter().filter(|row| !unclaimed.is_claimed(row));
        Ok(Report { at: now, first: first_to_claim(left) })
    }

    /// Checks by the report of the last turn that no payer can soon take back what was sold to it: that debts are claimed before half of
    /// the channel's delay is over, and that there are turns.
    pub(super) async fn health(&self) -> Result<(), HealthError> {
        let now = self.merchant.clock.unix();
        for chain in self.merchant.chains.iter() {
            let Some(channels) = &chain.channels else { continue };
            let report = Report::last(&*self.merchant.ledger, chain.network).await?;
            match report {
                Some(Report { first: Some((until, channel)), .. }) if until < now => {
                    return Err(HealthError::ChannelAtRisk { channel });
                }
                Some(report) if now <= report.at.saturating_add(channels.policy.silent_for().as_secs()) => {}
                // No turn has come to its end for that long.
                _ => self.nothing_waits(now).await?,
            }
        }
        Ok(())
    }

    /// Checks, without a recent report, that nothing has been owed for half of a delay, in as many channels as one page lists.
    async fn nothing_waits(&self, now: u64) -> Result<(), HealthError> {
        let ledger = &*self.merchant.ledger;
        let page = ledger_in_time(async { accounts_of(ledger)?.owed(None, PAGE).await }).await?;
        for (_, account) in page {
            let Some(memo) = ChannelMemo::read(&account.memo) else { continue };
            let Some(since) = account.claims.as_ref().and_then(|claims| claims.since) else { continue };
            let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let half = u64::from(memo.config.withdraw_delay) / 2;
            // A lost debt waits for nothing.
            let is_lost = account.owed().to_u128().is_some_and(|owed| owed <= memo.lost);
            if !is_lost && since.saturating_add(half) < now {
                return Err(HealthError::ChannelAtRisk { channel: memo.config.id(memo.network) });
            }
        }
        Ok(())
    }

    /// Sends each recipient what is claimed for it.
    async fn sweep(&self, channels: &Channels, claimed: &mut Claimed) -> Result<(), HealthError> {
        let network = channels.network();
        for token in channels.tokens().unwrap_or_default() {
            let token = token.asset.contract();
            for receiver in self.merchant.recipients.iter() {
                match channels.settler.sweep(network, *receiver, token).await? {
                    SweepOutcome::Swept { transaction, amount } => {
                        tracing::info!(%network, %token, %amount, %transaction, "swept");
                        claimed.transactions.push(transaction);
                    }
                    SweepOutcome::Nothing => {}
                    SweepOutcome::Refused(reason) => {
                        tracing::error!(%network, %reason, "what was claimed cannot be swept");
                    }
                    SweepOutcome::Unknown(_) => {
                        tracing::warn!(%network, "whether it is swept is not known");
                    }
                }
            }
        }
        Ok(())
    }

    /// Claims these rows, except those that make the claim of all fail. Returns the claimed ones.
    async fn claim_rows(
        &self,
        channels: &Channels,
        mut rows: Vec<Owed>,
        until: Instant,
        (unclaimed, claimed): (&mut Unclaimed, &mut Claimed),
    ) -> Vec<Owed> {
        while !rows.is_empty() {
            let claims: Vec<VoucherClaim> = rows.iter().map(|row| row.claim.clone()).collect();
            match channels.settler.claim(channels.network(), &claims).await {
                Ok(ClaimOutcome::Claimed(transaction)) => {
                    tracing::info!(channels = rows.len(), ?transaction, "claimed");
                    self.note_sent(channels, &rows, true);
                    for row in &rows {
                        // If too few nodes answer, the ledger does not learn of the claim, and the row is claimed again.
                        let total = row.claim.total_claimed;
                        let owed = row.owed.to_u128().unwrap_or(u128::MAX);
                        let more = channels.tried().counts(row.channel.account, (total.saturating_sub(owed), total));
                        let (network, token) = (channels.network(), &row.channel.config.token);
                        metrics::claimed_of_channels(network, token, Amount::from_base_units(more));
                    }
                    claimed.channels += rows.len();
                    claimed.transactions.extend(transaction);
                    return rows;
                }
                Ok(ClaimOutcome::Refused(refused)) if !refused.is_empty() => {
                    let mut left = Vec::with_capacity(rows.len());
                    for (at, row) in rows.into_iter().enumerate() {
                        match refused.iter().find(|refusal| refusal.row == at) {
                            Some(refusal) => left.extend(self.refused(row, &refusal.reason, unclaimed, claimed).await),
                            None => left.push(row),
                        }
                    }
                    rows = left;
                }
                // A row may fail without being named.
                Ok(ClaimOutcome::Unknown(None)) if rows.len() > 1 && Instant::now() < until => {
                    let other = rows.split_off(rows.len() / 2);
                    let mut done = Box::pin(self.claim_rows(channels, rows, until, (unclaimed, claimed))).await;
                    done.extend(Box::pin(self.claim_rows(channels, other, until, (unclaimed, claimed))).await);
                    return done;
                }
                // A node that lags may still see more in these channels, so that nothing is refused for certain. What they do hold is
                // claimed.
                Ok(ClaimOutcome::Unknown(None)) if rows.iter().all(|row| covered_part(row).is_some()) => {
                    rows.iter().for_each(|row| unclaimed.lacks(row.channel.id));
                    rows = rows.iter().filter_map(covered_part).collect();
                }
                unknown => {
                    if let Ok(ClaimOutcome::Unknown(Some(_))) = unknown {
                        self.note_sent(channels, &rows, false);
                    }
                    tracing::warn!(?unknown, channels = rows.len(), "whether it is claimed is not known; trying again");
                    claimed.left += rows.len();
                    return Vec::new();
                }
            }
        }
        Vec::new()
    }

    /// Notes that a transaction was sent for these rows. Otherwise each turn would send one while the ledger does not know the outcome.
    fn note_sent(&self, channels: &Channels, rows: &[Owed], is_claimed: bool) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(self.merchant.clock.unix());
        for row in rows {
            channels.tried().sent(row.channel.account, row.claim.total_claimed, now, is_claimed);
        }
    }

    /// Returns what can still be claimed of a refused row: what its channel holds, if that is less than what was sold.
    async fn refused(
        &self,
        row: Owed,
        reason: &Reason,
        unclaimed: &mut Unclaimed,
        claimed: &mut Claimed,
    ) -> Option<Owed> {
        let channel = row.channel.id;
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
            (None, false) => claimed.left += 1,
        }
        covered
    }
}

/// Returns the rows in the order in which they are claimed, in chunks, each with whether it is urgent. Claims that failed the last time
/// come last, so that they do not take the time of all others again and again. If their payer withdraws, the money can be lost: then they
/// come before what is merely due, for a while.
fn in_order(due: Vec<Owed>, is_failed: impl Fn(&Owed) -> bool) -> Vec<(Vec<Owed>, bool)> {
    let (again, due): (Vec<Owed>, Vec<Owed>) = due.into_iter().partition(is_failed);
    let (urgent, again): (Vec<Owed>, Vec<Owed>) = again.into_iter().partition(|row| row.is_withdrawn_from);
    // In one transaction with the others, unless urgent rows come in between.
    let is_first = |row: &Owed| !urgent.is_empty() && row.is_withdrawn_from;
    let (first, rest): (Vec<Owed>, Vec<Owed>) = due.into_iter().partition(is_first);
    let parts = [(first, false), (urgent, true), (rest, false), (again, false)];
    parts
        .into_iter()
        .flat_map(|(rows, is_urgent)| in_chunks(rows).into_iter().map(move |rows| (rows, is_urgent)))
        .collect()
}

/// Splits rows into those that are claimed together: the rows of payers who withdraw first, and each row of a contract account alone.
fn in_chunks(rows: Vec<Owed>) -> Vec<Vec<Owed>> {
    // A contract account may recognise its voucher now, but not when the claim is mined. So it can fail alone.
    let (by_key, by_account): (Vec<Owed>, Vec<Owed>) =
        rows.into_iter().partition(|row| row.channel.config.voucher_key().is_some());
    let chunks = by_key.chunks(CLAIMS_MAX).chain(by_account.chunks(1));
    let mut chunks: Vec<Vec<Owed>> = chunks.map(<[Owed]>::to_vec).collect();
    chunks.sort_by_key(|rows| !rows.iter().any(|row| row.is_withdrawn_from));
    chunks
}
