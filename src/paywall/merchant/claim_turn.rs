//! `Turn`: a lease in the ledger, by which one of several processes claims; and its `Report`, which tells all others how that went.

use std::{sync::Arc, time::Duration};

use crate::{
    ledger::{AccountId, AccountMemo, Draw, DrawOutcome, ErasedLedger, LedgerError, Opening, accounts_of},
    paywall::{
        sale::draw::{DrawGuard, PendingDraw, RenewedDraw},
        seller::{byte_fields::take, time_limits::ledger_in_time},
    },
    protocol::{Amount, Network, channel::ChannelId},
};

/// The version of a report's format.
const FORM: u8 = 1;

/// The turn of this process.
pub(crate) struct Turn(RenewedDraw);

/// How a turn ended. Times are Unix seconds by the merchant's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// When it ended.
    pub(crate) at: u64,
    /// The channel that has to be claimed first, of those that still owe something, and until when.
    pub(crate) first: Option<(u64, ChannelId)>,
}

impl Turn {
    /// Takes the turn, unless another process holds it.
    pub(crate) async fn take(
        ledger: &Arc<dyn ErasedLedger>,
        network: Network,
        lease: Duration,
    ) -> Result<Option<Self>, LedgerError> {
        let id = account_of(network);
        for _ in 0..2 {
            let draw = Draw::new(id, Amount::ZERO, lease).expecting(Amount::ZERO).for_upkeep();
            match ledger_in_time(PendingDraw::new(ledger, draw)).await? {
                DrawOutcome::Granted(lease) => {
                    return Ok(Some(Self(DrawGuard::new(Arc::clone(ledger), lease).renewed())));
                }
                DrawOutcome::Unknown => {
                    let opening = Opening::new(id, Amount::ZERO);
                    let _ = ledger_in_time(async { accounts_of(&**ledger)?.open_account(&opening).await }).await?;
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Gives up the turn. If it came to its end, leaves its report for the others.
    pub(crate) async fn end(mut self, report: Option<Report>) {
        match report {
            Some(report) => _ = self.0.guard.charge_part(Amount::ZERO, Some(&report.write())).await,
            None => self.0.release().await,
        }
    }
}

impl Report {
    /// Returns the report of the last finished turn on a network; `None` before the first.
    pub(crate) async fn last(ledger: &dyn ErasedLedger, network: Network) -> Result<Option<Self>, LedgerError> {
        let account = ledger_in_time(async { accounts_of(ledger)?.account(account_of(network)).await }).await?;
        Ok(account.and_then(|account| Self::read(&account.memo)))
    }

    fn write(&self) -> AccountMemo {
        let mut memo = vec![FORM];
        memo.extend_from_slice(&self.at.to_be_bytes());
        if let Some((until, channel)) = self.first {
            memo.extend_from_slice(&until.to_be_bytes());
            memo.extend_from_slice(channel.as_bytes());
        }
        // The memo has a fixed length, below the limit.
        AccountMemo::new(memo).unwrap_or_default()
    }

    fn read(memo: &AccountMemo) -> Option<Self> {
        let rest = &mut memo.as_bytes();
        if take(rest)? != [FORM] {
            return None;
        }
        let at = u64::from_be_bytes(take(rest)?);
        let first = match rest.is_empty() {
            true => None,
            false => Some((u64::from_be_bytes(take(rest)?), ChannelId::new(take(rest)?))),
        };
        rest.is_empty().then_some(Self { at, first })
    }
}

/// Returns the account in the ledger that holds the turn.
fn account_of(network: Network) -> AccountId {
    let hash = blake3::derive_key("tower-x402 2026-11 turn to claim channels", &network.chain_id().to_be_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    AccountId::new(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for first in [None, Some((7, ChannelId::new([9; 32])))] {
            let report = Report { at: 5, first };
            assert_eq!(Report::read(&report.write()), Some(report));
        }
        for memo in [&[][..], &[FORM], &[FORM, 0, 0, 0, 0, 0, 0, 0, 5, 1]] {
            assert_eq!(Report::read(&AccountMemo::new(memo).unwrap()), None);
        }
    }
}
