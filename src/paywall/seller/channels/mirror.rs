//! `Mirror`: the last readings of channels, which the ledger's accounts follow.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::policy::ChannelPolicy;
use crate::{
    clock::Clock,
    ledger::{Account, AccountId},
    protocol::{
        ChainTime, Network,
        channel::{ChannelConfig, ChannelId},
    },
    settle::ChannelOnChain,
};

/// How many channels a process remembers a reading of.
const CHANNELS: usize = 100_000;
/// How old a reading may be when claims rely on it.
pub(super) const LATELY: Duration = Duration::from_secs(25);
/// The shortest time between two readings of a channel that holds too little.
pub(super) const SHORTEST: Duration = Duration::from_secs(2);

/// A channel, and its account in the ledger.
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

/// The last reading of each channel, and when it was made, in monotonic time.
pub(super) struct Mirror {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lasts: Duration,
    read: Mutex<HashMap<AccountId, (Duration, Known)>>,
}

/// A reading of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) state: ChannelOnChain,
    /// The chain's head before the reading.
    pub(crate) head: ChainTime,
}

/// The backend that did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Chain,
    Ledger,
}

/// What is known about a channel now.
#[derive(Clone, Debug)]
pub(crate) struct Mirrored {
    pub(crate) state: ChannelOnChain,
    /// `None` if the channel holds nothing, and never did.
    pub(crate) account: Option<Account>,
}

impl Mirror {
    pub(super) fn new(clock: &Arc<dyn Clock>, policy: &ChannelPolicy) -> Self {
        Self { clock: Arc::clone(clock), lasts: policy.mirror_lasts(), read: Mutex::default() }
    }

    /// Returns the last reading of a channel, if it is not older than `lasts`.
    pub(super) fn within(&self, account: AccountId, lasts: Duration) -> Option<Known> {
        let (read, state) = *self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&account)?;
        (self.clock.monotonic() < read + lasts).then_some(state)
    }

    /// Returns when a channel was read last.
    pub(super) fn last_read(&self, account: AccountId) -> Option<Duration> {
        Some(self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&account)?.0)
    }

    /// Remembers a reading, unless it began before the one that is remembered.
    pub(super) fn remember(&self, account: AccountId, read: Duration, state: Known) {
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CHANNELS {
            known.retain(|_, (before, _)| read < *before + self.lasts);
        }
        // If all are recent, new channels are not remembered, and so are read more often.
        let is_full = known.len() >= CHANNELS;
        match known.get_mut(&account) {
            Some(before) if read < before.0 => {}
            Some(before) => *before = (read, state),
            None if is_full => {}
            None => _ = known.insert(account, (read, state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::SystemClock, protocol::Amount};

    #[test]
    fn a_slow_reading_undoes_no_later_one() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (mirror, account) = (Mirror::new(&clock, &ChannelPolicy::new()), AccountId::new([1; 16]));
        let read = |balance| {
            let state = ChannelOnChain::new(Amount::from_base_units(balance), Amount::ZERO);
            Known { state, head: ChainTime::from_unix(1) }
        };
        let at = clock.monotonic();
        let balance = || mirror.within(account, LATELY).map(|known| known.state.balance);
        for (began, balance_read, known) in [(1, 1_000, 1_000), (3, 500, 500), (2, 1_000, 500), (3, 400, 400)] {
            mirror.remember(account, at + Duration::from_secs(began), read(balance_read));
            assert_eq!(balance(), Some(Amount::from_base_units(known)), "{began}");
        }
    }
}
