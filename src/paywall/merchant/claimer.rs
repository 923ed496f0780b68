//! `Claimer`: claims on the chain what was sold in channels.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::accounts_of,
    paywall::{
        error::HealthError,
        merchant::{
            Merchant,
            at_once::at_once,
            claim_order::in_order,
            claim_turn::{Report, Turn},
            claimed::Claimed,
            claiming::{Claiming, Progress},
            debts::{PAGE, debts},
            unclaimed::told_elsewhere,
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
    protocol::ChainTime,
    settle::{SettleError, SweepOutcome},
};

/// How often the claimer checks what is due. A withdrawal that a payer began is claimed within a minute.
const EVERY: Duration = Duration::from_secs(10);
/// The number of checks from one sweep of what others claimed to the next.
const SWEEP_EACH: u32 = 60;
/// How long the turn of a process that died keeps the others waiting: far less than any payer waits for a withdrawal. A running turn is
/// renewed.
const TURN: Duration = Duration::from_secs(60);
/// The longest turn.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// How long a turn may begin new claims. The next turn claims the rest.
const CLAIMS_FOR: Duration = Duration::from_secs(3 * 60);
/// How long after its beginning a turn still waits for claims in progress. It needs the rest of its time to sweep and to report.
const CLAIMS_END: Duration = Duration::from_secs(4 * 60 + 30);

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
        // Each network has turns of its own, so that a slow one delays no other.
        let networks = self.kept().map(|(chain, channels)| self.run_on(chain, channels)).collect();
        at_once(networks, usize::MAX).await;
        std::future::pending().await
    }

    async fn run_on(&self, chain: &SellingChain, channels: &Channels) {
        for turn in 0_u32.. {
            // Refunds claim as well, so a sweep is due even without claims of this worker.
            let effort = Effort { all: false, sweeps: turn % SWEEP_EACH == 0 };
            if let Err(error) = self.take_turn(chain, channels, effort).await {
                tracing::warn!(%error, "what was sold in channels could not be claimed; trying again");
            }
            sleep(EVERY).await;
        }
    }

    /// Takes one turn on every network. A failure on one does not hold back the others.
    async fn turn(&self, effort: Effort) -> Result<Claimed, HealthError> {
        let turns = self.kept().map(|(chain, channels)| self.take_turn(chain, channels, effort)).collect();
        let turns = at_once(turns, usize::MAX).await;
        turns.into_iter().try_fold(Claimed::default(), |all, of_chain| Ok(all.and(of_chain?)))
    }

    /// Returns the networks with channels.
    fn kept(&self) -> impl Iterator<Item = (&SellingChain, &Channels)> {
        self.merchant.chains.iter().filter_map(|chain| Some((&**chain, chain.channels.as_ref()?)))
    }

    /// # Errors
    /// [`HealthError`] that names the network.
    async fn take_turn(
        &self,
        chain: &SellingChain,
        channels: &Channels,
        effort: Effort,
    ) -> Result<Claimed, HealthError> {
        let done = self.turn_on(chain, channels, effort).await;
        done.map_err(|error| self.merchant.of_network(chain.network, error))
    }

    async fn turn_on(&self, chain: &SellingChain, channels: &Channels, effort: Effort) -> Result<Claimed, HealthError> {
        let Some(turn) = Turn::take(&self.merchant.ledger, chain.network, self.merchant.lease.min(TURN)).await? else {
            told_elsewhere(channels);
            return Ok(Claimed { elsewhere: true, ..Claimed::default() });
        };
        let (mut owed, progress) = (Vec::new(), Progress::default());
        // A settler that hangs must not keep the turn from the others.
        let done = timeout(LONGEST, self.claim_on((chain, channels), effort, &mut owed, &progress)).await;
        let done = done.unwrap_or_else(|_| {
            // `owed` is empty if the turn was cut off before it had read the debts.
            if !owed.is_empty() {
                progress.unclaimed.tell(channels, &owed);
            }
            Err(SettleError::unavailable().into())
        });
        turn.end(done.as_ref().ok().copied()).await;
        done.map(|_| progress.claimed())
    }

    /// Claims what is due on one network, and sweeps it.
    async fn claim_on(
        &self,
        (chain, channels): (&SellingChain, &Channels),
        effort: Effort,
        owed: &mut Vec<Owed>,
        progress: &Progress,
    ) -> Result<Report, HealthError> {
        let end = Instant::now() + CLAIMS_END;
        // If one of these does not answer, claims go on all the same.
        let _ = channels.learn().await;
        let clock = ChainTime::from_unix(self.merchant.clock.unix());
        let head = verifier_in_time(chain.view.head()).await.unwrap_or(clock);
        *owed = debts(&self.merchant, channels, head).await?;
        let now = self.merchant.clock.unix();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        let worth = channels.worth_their_gas(owed).await;
        let due = due(owed, &channels.policy, time, effort.all, &worth);
        channels.tried().keep(&owed.iter().map(|row| row.channel.account).collect());
        let is_failed = |row: &Owed| channels.tried().contains(row.channel.account);
        let times = [(Instant::now() + CLAIMS_FOR).min(end), end];
        let claiming = Claiming::new((&self.merchant, channels), head, progress, times);
        claiming.claim(in_order(due, is_failed)).await;
        let unclaimed = &progress.unclaimed;
        // A claim counts even if the ledger does not know of it.
        let is_claimed = |row: &&Owed| row.claim.total_claimed <= channels.tried().last(row.channel.account).claimed;
        owed.iter().filter(is_claimed).for_each(|row| unclaimed.claimed(row.channel.id));
        // A sweep that fails puts nothing at risk: what is claimed belongs to the seller.
        unclaimed.tell(channels, owed);
        if effort.sweeps || progress.claimed().channels > 0 {
            self.sweep(channels, progress).await?;
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
                // No turn has ended for that long.
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
    async fn sweep(&self, channels: &Channels, progress: &Progress) -> Result<(), HealthError> {
        let network = channels.network();
        for token in channels.tokens().unwrap_or_default() {
            let token = token.asset.contract();
            for receiver in self.merchant.recipients.iter() {
                match channels.settler.sweep(network, *receiver, token).await? {
                    SweepOutcome::Swept { transaction, amount } => {
                        tracing::info!(%network, %token, %amount, %transaction, "swept");
                        progress.note(|claimed| claimed.transactions.push(transaction));
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
}
