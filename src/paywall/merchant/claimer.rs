//! `Claimer`: claims on the chain what was sold in channels.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::accounts_of,
    metrics,
    paywall::{
        error::HealthError,
        merchant::{
            Merchant,
            debts::{PAGE, answered, debts},
            turn::{Report, Turn},
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
    protocol::{ChainTime, TxHash, channel::VoucherClaim},
    settle::{CLAIMS_MAX, ClaimOutcome, SettleError, SweepOutcome},
};

/// How often it looks what is due. A withdrawal that a payer began is claimed within a minute.
const EVERY: Duration = Duration::from_secs(10);
/// After how many looks it sweeps what others claimed.
const SWEEP_EACH: u32 = 60;
/// The longest turn.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// For how long a turn begins claims. What is left of it sweeps and reports; the next turn claims the rest.
const CLAIMS_FOR: Duration = Duration::from_secs(3 * 60);

/// Claims on the chain what was sold in [channels](crate::MerchantBuilder::channel_settler), and sweeps it to the seller.
///
/// Every replica runs one, and by a lease in the ledger one of them works. It claims what has been owed for longer than the
/// [policy](crate::ChannelPolicy) says, everything once that is a large enough sum, and at once what is sold in a channel whose payer
/// withdraws. What it does may be repeated: the contract takes the difference to what was claimed before.
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

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// In how many channels.
    pub channels: usize,
    /// How many are left that could not be claimed, or of which that is not known yet.
    pub left: usize,
    /// By these transactions: claims, then sweeps.
    pub transactions: Vec<TxHash>,
    /// Whether another process is at it, so that nothing was done here.
    pub elsewhere: bool,
}

/// What a turn does.
#[derive(Clone, Copy)]
struct Effort {
    /// Claims what is not due yet as well.
    all: bool,
    /// Sweeps also where it claims nothing.
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
    /// [`HealthError`] if the ledger or the chain does not answer. What was claimed by then is claimed.
    pub async fn claim_now(&self) -> Result<Claimed, HealthError> {
        self.claimer().turn(Effort { all: true, sweeps: true }).await
    }
}

impl Claimer {
    /// Claims what is due, now and then, until it is dropped. An outage is logged, and passes.
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
        // All of them: one that fails keeps no other back.
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
        let Some(turn) = Turn::take(&self.merchant.ledger, chain.network, self.merchant.lease).await? else {
            claimed.elsewhere = true;
            return Ok(());
        };
        // A settler that hangs must not keep it from the others.
        let done = timeout(LONGEST, self.claim_on(chain, channels, effort, claimed)).await;
        let done = done.unwrap_or(Err(SettleError::unavailable().into()));
        turn.end(done.as_ref().ok().copied()).await;
        done.map(drop)
    }

    /// Claims what is due on one network, and sweeps it.
    async fn claim_on(
        &self,
        chain: &SellingChain,
        channels: &Channels,
        effort: Effort,
        claimed: &mut Claimed,
    ) -> Result<Report, HealthError> {
        // What was sold is claimed all the same where one of these does not answer.
        let _ = channels.learn().await;
        let clock = ChainTime::from_unix(self.merchant.clock.unix());
        let head = verifier_in_time(chain.view.head()).await.unwrap_or(clock);
        let owed = debts(&self.merchant, channels, head).await?;
        let now = self.merchant.clock.unix();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let due = due(&owed, &channels.policy, time, effort.all);
        let (mut sweeps, mut done) = (effort.sweeps, HashSet::new());
        // A contract account may recognise its voucher now, and no longer when the claim is mined: it fails alone.
        let (by_key, by_account): (Vec<Owed>, Vec<Owed>) =
            due.into_iter().partition(|row| row.channel.config.voucher_key().is_some());
        let mut chunks: Vec<_> = by_key.chunks(CLAIMS_MAX).chain(by_account.chunks(1)).collect();
        chunks.sort_by_key(|rows| !rows.iter().any(|row| row.is_withdrawn_from));
        let until = Instant::now() + CLAIMS_FOR;
        for rows in chunks {
            if Instant::now() >= until {
                claimed.left += rows.len();
                continue;
            }
            let rows = answered(&self.merchant, rows, head).await;
            for row in self.claim_rows(channels, rows.iter().collect(), until, claimed).await {
                let _ = channels.read(&*self.merchant.ledger, &row.channel, head).await;
                done.insert(row.channel.id);
                sweeps = true;
            }
        }
        if sweeps {
            self.sweep(channels, claimed).await?;
        }
        let left = owed.iter().filter(|row| !done.contains(&row.channel.id));
        Ok(Report { at: now, first: first_to_claim(left) })
    }

    /// Checks that no payer can soon take back what was sold to it, by the report of the last turn: that what is owed is claimed before half of
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
                // No turn came to its end for so long.
                _ => self.nothing_waits(now).await?,
            }
        }
        Ok(())
    }

    /// Checks, where no worker tells, that nothing has been owed for half of a delay: in as many channels as one question lists.
    async fn nothing_waits(&self, now: u64) -> Result<(), HealthError> {
        let ledger = &*self.merchant.ledger;
        let page = ledger_in_time(async { accounts_of(ledger)?.owed(None, PAGE).await }).await?;
        for (_, account) in page {
            let Some(memo) = ChannelMemo::read(&account.memo) else { continue };
            let Some(since) = account.claims.as_ref().and_then(|claims| claims.since) else { continue };
            let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let half = u64::from(memo.config.withdraw_delay) / 2;
            // What is lost waits for nothing.
            let is_lost = account.owed().to_u128().is_some_and(|owed| owed <= memo.lost);
            if !is_lost && since.saturating_add(half) < now {
                return Err(HealthError::ChannelAtRisk { channel: memo.config.id(memo.network) });
            }
        }
        Ok(())
    }

    /// Sends to each recipient what is claimed for it.
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

    /// Claims these rows, without those that make all of them fail, and returns the claimed ones.
    async fn claim_rows<'a>(
        &self,
        channels: &Channels,
        mut rows: Vec<&'a Owed>,
        until: Instant,
        claimed: &mut Claimed,
    ) -> Vec<&'a Owed> {
        while !rows.is_empty() {
            let claims: Vec<VoucherClaim> = rows.iter().map(|row| row.claim.clone()).collect();
            match channels.settler.claim(channels.network(), &claims).await {
                Ok(ClaimOutcome::Claimed(transaction)) => {
                    tracing::info!(channels = rows.len(), ?transaction, "claimed");
                    for row in &rows {
                        metrics::claimed_of_channels(channels.network(), &row.channel.config.token, row.owed);
                    }
                    claimed.channels += rows.len();
                    claimed.transactions.extend(transaction);
                    return rows;
                }
                Ok(ClaimOutcome::Refused(refused)) if !refused.is_empty() => {
                    for refusal in &refused {
                        let channel = rows.get(refusal.row).map(|row| row.channel.id);
                        tracing::error!(?channel, reason = %refusal.reason, "what was sold in this channel cannot be claimed");
                    }
                    claimed.left += refused.len();
                    let mut at = 0..;
                    rows.retain(|_| at.next().is_none_or(|at: usize| refused.iter().all(|refusal| refusal.row != at)));
                }
                // A row may fail in a way that names none.
                Ok(ClaimOutcome::Unknown(None)) if rows.len() > 1 && Instant::now() < until => {
                    let (one, other) = rows.split_at(rows.len() / 2);
                    let mut done = Box::pin(self.claim_rows(channels, one.to_vec(), until, claimed)).await;
                    done.extend(Box::pin(self.claim_rows(channels, other.to_vec(), until, claimed)).await);
                    return done;
                }
                unknown => {
                    tracing::warn!(?unknown, channels = rows.len(), "whether it is claimed is not known; trying again");
                    claimed.left += rows.len();
                    return Vec::new();
                }
            }
        }
        Vec::new()
    }
}
