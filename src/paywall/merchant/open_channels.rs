//! `OpenChannel`: what the seller knows of a payer's channel.

use tokio::time::Instant;

use super::debts::{READING, named};
use crate::{
    ledger::{Account, AccountId, accounts_of},
    paywall::{
        error::HealthError,
        merchant::Merchant,
        seller::{
            channels::{Channel, Channels, record::read_note},
            inner::MerchantInner,
            time_limits::{ledger_in_time, verifier_in_time},
        },
    },
    protocol::{
        Amount, ChainTime, Network,
        channel::{ChannelConfig, ChannelId},
    },
    settle::ChannelOnChain,
};

/// How many accounts are listed at once.
const PAGE: usize = 500;

/// A payer's [channel](crate::MerchantBuilder::channel_settler), as the seller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenChannel {
    /// Its chain.
    pub network: Network,
    /// Its id.
    pub id: ChannelId,
    /// Its configuration: its parties, its token and its withdrawal delay.
    pub config: ChannelConfig,
    /// The total charged to it, in base units of its token.
    pub charged: Amount,
    /// How much of that is claimed.
    pub claimed: Amount,
    /// The chain's last known state: what is in the channel, and what its payer is withdrawing.
    pub state: Option<ChannelOnChain>,
}

impl OpenChannel {
    /// Returns the total that is charged and not claimed yet, in base units.
    #[must_use]
    pub fn owed(&self) -> Amount {
        self.charged.checked_sub(self.claimed).unwrap_or(Amount::ZERO)
    }
}

impl Merchant {
    /// Returns all channels in which something was deposited for this merchant, on all networks.
    ///
    /// Asks the chain about one channel after the other, for at most a minute. The rest is returned as the ledger has it.
    ///
    /// # Errors
    /// [`HealthError`] if the ledger does not answer.
    pub async fn channels(&self) -> Result<Vec<OpenChannel>, HealthError> {
        let (inner, end) = (&*self.inner, Instant::now() + READING);
        let accounts = accounts(inner).await?;
        let mut open = Vec::new();
        for chain in inner.chains.iter() {
            let Some(channels) = &chain.channels else { continue };
            let clock = ChainTime::from_unix(inner.clock.unix());
            let head = verifier_in_time(chain.view.head()).await.unwrap_or(clock);
            let mut answers = true;
            for (id, account) in &accounts {
                let Some((channel, _)) = named(*id, account, chain.network) else { continue };
                let is_asked = answers && Instant::now() < end;
                let now = if is_asked { read(inner, channels, &channel, head).await } else { None };
                // After a channel that was not answered, the chain is not asked about the others.
                answers &= now.is_some() || !is_asked;
                open.push(listed(chain.network, &channel, now.as_ref().unwrap_or(account)));
            }
        }
        Ok(open)
    }
}

/// Reads a channel from the chain, and returns its account.
async fn read(inner: &MerchantInner, channels: &Channels, channel: &Channel, head: ChainTime) -> Option<Account> {
    channels.read(&*inner.ledger, channel, head).await.ok()?.account
}

fn listed(network: Network, channel: &Channel, account: &Account) -> OpenChannel {
    let claims = account.claims.as_deref();
    OpenChannel {
        network,
        id: channel.id,
        config: channel.config,
        charged: account.spent,
        claimed: claims.map_or(Amount::ZERO, |claims| claims.claimed),
        state: claims.and_then(|claims| read_note(&claims.note)),
    }
}

/// Returns the accounts of all channels.
async fn accounts(inner: &MerchantInner) -> Result<Vec<(AccountId, Account)>, HealthError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = ledger_in_time(async { accounts_of(&*inner.ledger)?.claimable(after, PAGE).await }).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|(id, _)| *id);
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}
