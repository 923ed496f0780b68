//! `Mirror`: what the chain says of channels, as the ledger's accounts have it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Channels,
    policy::ChannelPolicy,
    record::{ChannelMemo, write_note},
};
use crate::{
    clock::Clock,
    ledger::{Account, AccountId, ErasedLedger, OpenOutcome, Opening, ReflectOutcome, Reflection},
    paywall::{
        refusal::{ASK_AGAIN, Problem},
        sale::draw::accounts,
        seller::time_limits::{ledger_in_time, settler_in_time},
    },
    protocol::{
        Amount, ChainTime, Network, ProblemCode,
        channel::{ChannelConfig, ChannelId},
    },
    settle::ChannelOnChain,
};

/// Of how many channels a process remembers when it read them.
const CHANNELS: usize = 100_000;
/// How old the knowledge of withdrawals may be that claims rest on.
const LATELY: Duration = Duration::from_secs(25);
/// The shortest time between two questions about a channel that holds too little.
const SHORTEST: Duration = Duration::from_secs(2);

/// A channel, and where the ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) config: ChannelConfig,
    pub(crate) id: ChannelId,
    pub(crate) account: AccountId,
}

impl Channel {
    pub(crate) fn new(config: ChannelConfig, network: Network) -> Self {
        let id = config.id(network);
        Self { config, id, account: AccountId::new(id.account_bytes(network)) }
    }
}

/// What was read of each channel, and when, in monotonic time.
pub(super) struct Mirror {
    clock: Arc<dyn Clock>,
    lasts: Duration,
    read: Mutex<HashMap<AccountId, (Duration, Known)>>,
}

/// What was read of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) state: ChannelOnChain,
    /// The chain's head before.
    pub(crate) head: ChainTime,
}

/// What is known of a channel now.
#[derive(Clone, Debug)]
pub(crate) struct Mirrored {
    pub(crate) state: ChannelOnChain,
    /// `None` where it holds nothing, and never did.
    pub(crate) account: Option<Account>,
}

impl Mirror {
    pub(super) fn new(clock: &Arc<dyn Clock>, policy: &ChannelPolicy) -> Self {
        Self { clock: Arc::clone(clock), lasts: policy.mirror_lasts(), read: Mutex::default() }
    }

    /// What was read of a channel, unless that is longer ago.
    fn within(&self, account: AccountId, lasts: Duration) -> Option<Known> {
        let (read, state) = *self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&account)?;
        (self.clock.monotonic() < read + lasts).then_some(state)
    }

    fn remember(&self, account: AccountId, read: Duration, state: Known) {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CHANNELS {
            known.retain(|_, (before, _)| read < *before + self.lasts);
        }
        // Where all are recent, some are read more often.
        if known.len() < CHANNELS {
            known.insert(account, (read, state));
        }
    }
}

impl Channels {
    /// What the chain said of a channel, which the ledger's account follows, where that counts still.
    pub(crate) fn is_fresh(&self, channel: &Channel) -> Option<Known> {
        self.inner.mirror.within(channel.account, self.inner.mirror.lasts)
    }

    /// The same where it was read within half a minute, for the worker that claims.
    pub(crate) fn is_lately_read(&self, channel: &Channel) -> Option<Known> {
        self.inner.mirror.within(channel.account, LATELY)
    }

    /// Whether it was read a moment ago: to read it again would tell nothing new.
    pub(crate) fn is_just_read(&self, channel: &Channel) -> bool {
        self.inner.mirror.within(channel.account, SHORTEST).is_some()
    }

    /// Reads the chain, and has the ledger's account follow it. An account is opened where the channel holds something.
    ///
    /// What was claimed was sold: a ledger that lost its state begins there.
    pub(crate) async fn read(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        head: ChainTime,
    ) -> Result<Mirrored, Problem> {
        let read = self.inner.mirror.clock.monotonic();
        let state = settler_in_time(self.settler.channel_state(self.inner.network, &channel.config)).await;
        let state = state.map_err(|_| Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN))?;
        let account = self.reflect(ledger, channel, &state).await?;
        if account.is_some() {
            self.inner.mirror.remember(channel.account, read, Known { state, head });
        }
        Ok(Mirrored { state, account })
    }

    async fn reflect(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        state: &ChannelOnChain,
    ) -> Result<Option<Account>, Problem> {
        let unavailable = |_| Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN);
        let reflection =
            Reflection::new(channel.account).limit(state.covers()).claimed(state.total_claimed).note(write_note(state));
        let reflect = || ledger_in_time(async { accounts(ledger)?.reflect(&reflection).await });
        if let ReflectOutcome::Done(account) = reflect().await.map_err(unavailable)? {
            return Ok(Some(account));
        }
        if state.balance == Amount::ZERO {
            return Ok(None);
        }
        let memo = ChannelMemo { network: self.inner.network, config: channel.config, refund: None, last: None };
        let opening = Opening::new(channel.account, state.covers())
            .with_spent(state.claimed_at_most)
            .claimable()
            .with_memo(memo.write().unwrap_or_default());
        let opened = ledger_in_time(async { accounts(ledger)?.open_account(&opening).await });
        match opened.await.map_err(unavailable)? {
            OpenOutcome::Open(_) => match reflect().await.map_err(unavailable)? {
                ReflectOutcome::Done(account) => Ok(Some(account)),
                ReflectOutcome::Unknown => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
            },
            OpenOutcome::Closed => Ok(None),
        }
    }
}
