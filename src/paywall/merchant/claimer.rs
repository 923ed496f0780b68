//! `Claimer`: claims on the chain what was sold in channels.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    ledger::{Account, AccountId, ErasedLedger, accounts_of},
    paywall::{
        error::HealthError,
        merchant::{Merchant, turn::Turn},
        seller::{
            chain::SellingChain,
            channels::{
                Channel, Channels,
                due::{Owed, due},
                record::{ChannelMemo, read_note},
            },
            inner::MerchantInner,
            time_limits::{ledger_in_time, verifier_in_time},
        },
    },
    protocol::{ChainTime, Network, TxHash, channel::VoucherClaim},
    settle::{CLAIMS_MAX, ChannelOnChain, ClaimOutcome, SettleError, SweepOutcome},
};

/// How often it looks what is due. A withdrawal that a payer began is claimed within a minute.
const EVERY: Duration = Duration::from_secs(10);
/// After how many looks it sweeps what others claimed.
const SWEEP_EACH: u32 = 60;
/// How long a turn reads channels before it claims. Those that are left count as the ledger has them: what is owed for long is due without
/// a word of the chain.
pub(super) const READING: Duration = Duration::from_secs(60);
/// The longest turn.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// How many accounts are listed at once.
const PAGE: usize = 500;

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
        turn.end().await;
        done.unwrap_or(Err(SettleError::unavailable().into()))
    }

    /// Claims what is due on one network, and sweeps it.
    async fn claim_on(
        &self,
        chain: &SellingChain,
        channels: &Channels,
        effort: Effort,
        claimed: &mut Claimed,
    ) -> Result<(), HealthError> {
        // What was sold is claimed all the same where one of these does not answer.
        let _ = channels.learn().await;
        let clock = ChainTime::from_unix(self.merchant.clock.unix());
        let head = verifier_in_time(chain.view.head()).await.unwrap_or(clock);
        let owed = self.rows(channels, head).await?;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(self.merchant.clock.unix());
        let due = due(owed, &channels.policy, now, effort.all);
        let mut sweeps = effort.sweeps;
        // A contract account may recognise its voucher now, and no longer when the claim is mined: it fails alone.
        let (by_key, by_account): (Vec<Owed>, Vec<Owed>) =
            due.into_iter().partition(|row| row.channel.config.voucher_key().is_some());
        for rows in by_key.chunks(CLAIMS_MAX).chain(by_account.chunks(1)) {
            let done = self.claim_rows(channels, rows.iter().collect(), claimed).await;
            for row in done {
                let _ = channels.read(&*self.merchant.ledger, &row.channel, head).await;
                sweeps = true;
            }
        }
        if sweeps {
            self.sweep(channels, claimed).await?;
        }
        Ok(())
    }

    /// The channels on a network of which something is owed.
    async fn rows(&self, channels: &Channels, head: ChainTime) -> Result<Vec<Owed>, HealthError> {
        let (mut rows, mut answers, end) = (Vec::new(), true, Instant::now() + READING);
        for (id, account) in self.owed().await? {
            let Some((channel, memo)) = named(id, &account, channels.network()) else { continue };
            // What it says of a withdrawal may be old.
            let state = match channels.is_lately_read(&channel) {
                Some(known) => Some(known.state),
                // Where one was not answered, the others wait for no answer.
                None if answers && Instant::now() < end => {
                    let read = channels.read(&*self.merchant.ledger, &channel, head).await;
                    answers = read.is_ok();
                    read.ok().map(|read| read.state)
                }
                None => None,
            };
            let claims = account.claims.as_ref();
            let state = state.or_else(|| claims.and_then(|claims| read_note(&claims.note)));
            let Some(claim) = memo.claim(channel.id) else { continue };
            let is_withdrawn_from = state.is_some_and(|state| is_at_risk(&account, &state));
            let since = claims.and_then(|claims| claims.since);
            rows.push(Owed { channel, claim, owed: account.owed(), since, is_withdrawn_from });
        }
        Ok(rows)
    }

    /// Checks that no payer can soon take back what was sold to it: that what is owed in a channel which is withdrawn from is claimed before
    /// half of the delay is over.
    pub(super) async fn health(&self) -> Result<(), HealthError> {
        if self.merchant.chains.iter().all(|chain| chain.channels.is_none()) {
            return Ok(());
        }
        let now = self.merchant.clock.unix();
        for (_, account) in self.owed().await? {
            let Some(memo) = ChannelMemo::read(&account.memo) else { continue };
            let half = u64::from(memo.config.withdraw_delay) / 2;
            let claims = account.claims.as_ref();
            let note = claims.and_then(|claims| read_note(&claims.note)).filter(|state| is_at_risk(&account, state));
            let requested = note.and_then(|state| state.withdraw_requested_at).map(ChainTime::unix);
            // Where nothing is claimed for so long, nothing claims.
            let since = claims.and_then(|claims| claims.since);
            let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
            let waits = requested.into_iter().chain(since.map(|since| since.as_secs()));
            if waits.min().is_some_and(|begun| begun.saturating_add(half) < now) {
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
        claimed: &mut Claimed,
    ) -> Vec<&'a Owed> {
        while !rows.is_empty() {
            let claims: Vec<VoucherClaim> = rows.iter().map(|row| row.claim.clone()).collect();
            match channels.settler.claim(channels.network(), &claims).await {
                Ok(ClaimOutcome::Claimed(transaction)) => {
                    tracing::info!(channels = rows.len(), ?transaction, "claimed");
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
                Ok(ClaimOutcome::Unknown(None)) if rows.len() > 1 => {
                    let (one, other) = rows.split_at(rows.len() / 2);
                    let mut done = Box::pin(self.claim_rows(channels, one.to_vec(), claimed)).await;
                    done.extend(Box::pin(self.claim_rows(channels, other.to_vec(), claimed)).await);
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

    /// The accounts of which something is owed, on all networks.
    async fn owed(&self) -> Result<Vec<(AccountId, Account)>, HealthError> {
        let (mut owed, mut after) = (Vec::new(), None);
        loop {
            let page = ledger_in_time(page(&*self.merchant.ledger, after)).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|(id, _)| *id);
            owed.extend(page);
            if is_last {
                return Ok(owed);
            }
        }
    }
}

async fn page(
    ledger: &dyn ErasedLedger,
    after: Option<AccountId>,
) -> Result<Vec<(AccountId, Account)>, crate::ledger::LedgerError> {
    accounts_of(ledger)?.owed(after, PAGE).await
}

/// Whether what is owed can be lost to a withdrawal: more was sold than what stays in the channel covers.
fn is_at_risk(account: &Account, state: &ChannelOnChain) -> bool {
    state.withdraw_requested_at.is_some() && account.spent > state.covers()
}

/// The channel of an account, if it is one on this network.
pub(super) fn named(id: AccountId, account: &Account, network: Network) -> Option<(Channel, ChannelMemo)> {
    let memo = ChannelMemo::read(&account.memo).filter(|memo| memo.network == network)?;
    let channel = Channel::new(memo.config, network);
    (channel.account == id).then_some((channel, memo))
}
