//! Reads channels: the chain is asked, and the ledger's account follows its answer.

use std::time::Duration;

use super::{
    Channels, Inner,
    mirror::{Channel, Known, LATELY, Mirrored, SHORTEST, Unread},
    readings::Place,
    record::{ChannelMemo, write_note},
};
use crate::{
    ledger::{Account, ErasedLedger, OpenOutcome, Opening, ReflectOutcome, Reflection, accounts_of},
    paywall::seller::time_limits::{ledger_in_time, settler_in_time},
    protocol::{Amount, ChainTime},
    settle::ChannelOnChain,
};

impl Channels {
    /// Returns the last reading of a channel, which the ledger's account has followed, if it still counts.
    pub(crate) fn fresh_reading(&self, channel: &Channel) -> Option<Known> {
        self.inner.mirror.within(channel.account, self.inner.mirror.lasts)
    }

    /// Returns the last reading if it is at most 25 seconds old, for the worker that claims.
    pub(crate) fn recent_reading(&self, channel: &Channel) -> Option<Known> {
        self.inner.mirror.within(channel.account, LATELY)
    }

    /// Returns when this process read the channel last, in monotonic time; `None` if never, or long ago.
    pub(crate) fn last_read(&self, channel: &Channel) -> Option<Duration> {
        self.inner.mirror.last_read(channel.account)
    }

    /// Returns whether the channel was read a moment ago, so that another reading would show nothing new.
    pub(crate) fn is_just_read(&self, channel: &Channel) -> bool {
        let Inner { mirror, readings, .. } = &*self.inner;
        let was_empty = || readings.was_empty(channel.account, mirror.clock.monotonic()).is_some();
        mirror.within(channel.account, SHORTEST).is_some() || was_empty()
    }

    /// Waits until a payer's account may be asked about a signature; `None` if too many wait already.
    pub(crate) async fn may_check(&self) -> Option<Place<'_>> {
        self.inner.readings.check().await
    }

    /// Waits until the chain may be asked about a channel for a request; `None` if too many wait already.
    async fn enter(&self, ledger: &dyn ErasedLedger, channel: &Channel, is_begun: bool) -> Option<Place<'_>> {
        let is_known = is_begun || self.last_read(channel).is_some() || {
            let account = ledger_in_time(async { accounts_of(ledger)?.account(channel.account).await }).await;
            account.is_ok_and(|account| account.is_some())
        };
        self.inner.readings.enter(is_known).await
    }

    /// Reads a channel for a request, unless it was found empty a moment ago.
    pub(crate) async fn look(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        head: ChainTime,
    ) -> Result<Mirrored, Unread> {
        let Inner { mirror, readings, .. } = &*self.inner;
        if let Some(state) = readings.was_empty(channel.account, mirror.clock.monotonic()) {
            return Ok(Mirrored { state, account: None });
        }
        self.look_anew(ledger, channel, head, false).await
    }

    /// Reads a channel for a request, which may have invented it. Requests for one channel share a reading, and only a limited number of
    /// channels are read at once. `is_begun`: a deposit was checked and begun, which does not happen for an invented channel.
    pub(crate) async fn look_anew(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        head: ChainTime,
        is_begun: bool,
    ) -> Result<Mirrored, Unread> {
        let reading = self.inner.readings.join(channel.account);
        let read = || async {
            let _place = self.enter(ledger, channel, is_begun).await.ok_or(Unread::Chain)?;
            self.read(ledger, channel, head).await
        };
        reading.get_or_init(read).await.clone()
    }

    /// Reads the chain, and updates the ledger's account to it. If the channel holds something, an account is opened.
    ///
    /// What was claimed counts as sold: a ledger that lost its state begins there.
    pub(crate) async fn read(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        head: ChainTime,
    ) -> Result<Mirrored, Unread> {
        let read = self.inner.mirror.clock.monotonic();
        let state = settler_in_time(self.settler.channel_state(self.inner.network, &channel.config)).await;
        let state = state.map_err(|_| Unread::Chain)?;
        self.follow(ledger, channel, state, (read, head)).await
    }

    /// Reads many channels by few questions, in their order, and updates the ledger's accounts.
    pub(crate) async fn read_all(
        &self,
        ledger: &dyn ErasedLedger,
        channels: &[Channel],
        head: ChainTime,
    ) -> Result<Vec<Mirrored>, Unread> {
        let read = self.inner.mirror.clock.monotonic();
        let configs: Vec<_> = channels.iter().map(|channel| channel.config).collect();
        let states = settler_in_time(self.settler.channel_states(self.inner.network, &configs)).await;
        let states = states.ok().filter(|states| states.len() == channels.len()).ok_or(Unread::Chain)?;
        let mut mirrored = Vec::with_capacity(channels.len());
        for (channel, state) in channels.iter().zip(states) {
            mirrored.push(self.follow(ledger, channel, state, (read, head)).await?);
        }
        Ok(mirrored)
    }

    async fn follow(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        state: ChannelOnChain,
        (read, head): (Duration, ChainTime),
    ) -> Result<Mirrored, Unread> {
        let account = self.reflect(ledger, channel, &state).await?;
        let Inner { mirror, readings, .. } = &*self.inner;
        readings.remember(channel.account, read, account.is_none().then_some(state));
        if account.is_some() {
            mirror.remember(channel.account, read, Known { state, head });
        }
        Ok(Mirrored { state, account })
    }

    async fn reflect(
        &self,
        ledger: &dyn ErasedLedger,
        channel: &Channel,
        state: &ChannelOnChain,
    ) -> Result<Option<Account>, Unread> {
        let unavailable = |_| Unread::Ledger;
        let reflection =
            Reflection::new(channel.account).limit(state.covers()).claimed(state.total_claimed).note(write_note(state));
        // Only a later block can show that a claim or a deposit is gone.
        let reflection = match state.as_of {
            Some(block) => reflection.as_of(block),
            None => reflection,
        };
        let reflect = || ledger_in_time(async { accounts_of(ledger)?.reflect(&reflection).await });
        if let ReflectOutcome::Done(account) = reflect().await.map_err(unavailable)? {
            return Ok(Some(account));
        }
        // Where an account begins is final, so a few nodes, which may be wrong, begin none.
        if state.of_few {
            return Err(Unread::Chain);
        }
        if state.balance == Amount::ZERO {
            return Ok(None);
        }
        let memo = ChannelMemo::of(self.inner.network, channel.config);
        let opening = Opening::new(channel.account, state.covers())
            .with_spent(state.claimed_at_most)
            .claimable()
            .with_memo(memo.write().unwrap_or_default());
        let opened = ledger_in_time(async { accounts_of(ledger)?.open_account(&opening).await });
        match opened.await.map_err(unavailable)? {
            OpenOutcome::Open(_) => match reflect().await.map_err(unavailable)? {
                ReflectOutcome::Done(account) => Ok(Some(account)),
                ReflectOutcome::Unknown => Err(Unread::Ledger),
            },
            OpenOutcome::Closed => Ok(None),
        }
    }
}
