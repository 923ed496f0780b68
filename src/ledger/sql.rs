//! What the SQL ledgers share: how a claim is judged by what a database shows, and how values are kept.
//!
//! A refusal follows from one look at one moment. A grant does not: the look only says what to try, and one write,
//! judged by the unique indexes, decides. Whoever loses it looks again.
#![cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite looks, judges and writes in one transaction"))]

use std::{future::Future, time::Duration};

use super::{Claim, Lease, LedgerError, Reservation, attempts::cool_down};
use crate::protocol::{ChainTime, Transfer};

/// The oldest schema that can stand for the one that this version reads and writes: what a later one added, whoever knows
/// this one can leave alone. How far a ledger is, each of them knows by its own revision.
pub(super) const SCHEMA: i64 = 1;
/// How many records one sweep forgets at most: more than one `reserve` can add, and too few to be noticed.
pub(super) const BATCH: i64 = 16;
/// How long a count of attempts, and a lease that nobody asked about, is remembered.
pub(super) const KEPT: Duration = Duration::from_secs(60 * 60);
/// How long a ledger thinks about one question unless told otherwise: answered within two seconds, come what may.
pub(super) const TIME_LIMIT: Duration = Duration::from_millis(1_900);
/// A lease is no longer than this, so that no sum overflows.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
/// After so many grants lost to others the claim is told to come back.
const TRIES: usize = 16;
/// When to come back then.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a text is no table prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a table prefix is 1 to 32 of the characters a to z, 0 to 9 and _, and begins with no digit")]
#[non_exhaustive]
pub struct TablePrefixError;

/// Lets a prefix through that can stand in a statement as it is.
pub(super) fn table_prefix(prefix: &str) -> Result<&str, TablePrefixError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = |byte: &u8| !byte.is_ascii_digit();
    match prefix.len() <= 32 && prefix.bytes().all(plain) && prefix.as_bytes().first().is_some_and(begins) {
        true => Ok(prefix),
        false => Err(TablePrefixError),
    }
}

/// Chain time as a database keeps it.
pub(super) fn seconds(time: ChainTime) -> i64 {
    i64::try_from(time.unix()).unwrap_or(i64::MAX)
}

/// A span as a database adds it.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Answers within `limit`, or not at all.
pub(super) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, LedgerError>>,
) -> Result<T, LedgerError> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
        tracing::warn!("the ledger did not answer in time");
        Err(LedgerError::Unavailable)
    })
}

/// What went wrong, as a code: what a driver says may quote a URL, a statement or its values.
pub(super) fn failed(error: &sqlx::Error) -> LedgerError {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // PostgreSQL: no such table, column, function or schema.
    let incompatible = matches!(code.as_deref(), Some("42P01" | "42703" | "42883" | "3F000"))
        || matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_));
    let kind = match error {
        sqlx::Error::Database(_) => "refused",
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => "connection lost",
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => "no connection to be had",
        sqlx::Error::Configuration(_) => "misconfigured",
        _ => "failed",
    };
    tracing::warn!(kind, code = code.as_deref().unwrap_or(""), "the ledger's database failed");
    if incompatible { LedgerError::Incompatible } else { LedgerError::Unavailable }
}

/// Holds a schema's version against the one that is read and written here; none: there is no schema.
pub(super) fn compatible(version: Option<i64>) -> Result<(), LedgerError> {
    if version == Some(SCHEMA) { Ok(()) } else { Err(LedgerError::Incompatible) }
}

/// One line of a look: the ledger, the claim's intent, and one candidate. There is one without a candidate where the
/// claim has none. In order: version, mark, whether something is to be forgotten; on the intent, and on the candidate,
/// whether it is sold and for how long it is held; whether that is by the intent; how often the two were tried, and
/// how long ago the last one ended; the candidate's block time on record. Spans in microseconds.
pub(super) type Line =
    (i64, Option<i64>, bool, bool, Option<i64>, bool, Option<i64>, bool, Option<i64>, Option<i64>, Option<i64>);

/// What a database showed of a claim, all at one moment.
#[derive(Debug)]
pub(super) struct Look {
    version: i64,
    mark: Option<i64>,
    due: bool,
    intent: Option<Entry>,
    candidates: Vec<Candidate>,
}

/// A sale or a lease.
#[derive(Clone, Copy, Debug)]
struct Entry {
    sold: bool,
    /// Negative once it ran out.
    left: i64,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    entry: Option<Entry>,
    /// The entry is this very intent's.
    own: bool,
    times: i64,
    /// Since the last attempt ended.
    since: i64,
    /// The block time on record.
    block_time: Option<i64>,
}

impl Entry {
    fn live(self) -> bool {
        !self.sold && self.left > 0
    }
}

/// What follows from a look.
#[derive(Debug)]
pub(super) enum Verdict<'c> {
    Refused(Reservation),
    Free(Try<'c>),
}

/// What a look leads to.
#[derive(Debug)]
pub(super) enum Seen {
    /// Nothing stood in the way: it is written already.
    Granted(Lease),
    Look(Look),
}

/// What to try to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try<'c> {
    pub(super) transfer: &'c Transfer,
    /// A lease that ran out is in the way.
    pub(super) takes_over: bool,
}

/// What was written, not yet for good: the pair's attempts before this one, and the mark, read after the write.
pub(super) struct Written {
    pub(super) fence: i64,
    /// This one included.
    pub(super) times: i64,
    pub(super) since: i64,
    pub(super) mark: Option<i64>,
    /// Intent or payment is in the book of what was sold and forgotten.
    pub(super) booked: bool,
}

impl Written {
    /// Whether the grant holds by what is known now that nobody else can change it: the write may have been let
    /// through by a record that was forgotten since the look, or by a release that began a pause.
    pub(super) fn holds(&self, transfer: &Transfer) -> bool {
        !self.booked
            && self.mark.is_some_and(|mark| seconds(transfer.block_time) > mark)
            && pause(self.times.saturating_sub(1), self.since).is_none()
    }

    pub(super) fn lease(&self, claim: &Claim, transfer: &Transfer) -> Result<Lease, LedgerError> {
        let fence = u64::try_from(self.fence).map_err(|_| LedgerError::Incompatible)?;
        Ok(Lease::new(claim, transfer, fence))
    }
}

/// How long a pair still has to cool down.
fn pause(times: i64, since: i64) -> Option<Duration> {
    let times = u32::try_from(times).unwrap_or(if times < 0 { 0 } else { u32::MAX });
    cool_down(times).checked_sub(span(since)).filter(|rest| !rest.is_zero())
}

impl Look {
    /// `None`: the ledger has no row of its own.
    pub(super) fn new(lines: &[Line]) -> Option<Self> {
        // What is in the book is sold, and has no lease.
        let entry =
            |sold: bool, left: Option<i64>| (sold || left.is_some()).then(|| Entry { sold, left: left.unwrap_or(0) });
        let (version, mark, due, sold, left, ..) = *lines.first()?;
        let candidates = lines.iter().map(|&(.., sold, left, own, times, since, block_time)| Candidate {
            entry: entry(sold, left),
            own,
            times: times.unwrap_or(0),
            since: since.unwrap_or(0),
            block_time,
        });
        Some(Self { version, mark, due, intent: entry(sold, left), candidates: candidates.collect() })
    }

    /// What is sold and was mined again later than is on record: it has to be kept longer.
    pub(super) fn mined_again<'c>(&self, claim: &'c Claim) -> impl Iterator<Item = &'c Transfer> {
        let candidates = claim.transfers().iter().zip(&self.candidates);
        let later = |(transfer, on): (&'c Transfer, &Candidate)| {
            let is_later = on.is_sold() && on.block_time.is_some_and(|known| known < seconds(transfer.block_time));
            is_later.then_some(transfer)
        };
        candidates.filter_map(later)
    }

    /// The first refusal that applies, or what to try. [`Reservation`] has the order.
    pub(super) fn judge<'c>(&self, claim: &'c Claim) -> Result<Verdict<'c>, LedgerError> {
        let mark = self.mark.ok_or(LedgerError::Unavailable)?;
        if self.intent.is_some_and(|entry| entry.sold) {
            return Ok(Verdict::Refused(Reservation::IntentConsumed));
        }
        let mut unsold = claim.transfers().iter().zip(&self.candidates).filter(|(_, on)| !on.is_sold()).peekable();
        if unsold.peek().is_none() {
            return Ok(Verdict::Refused(Reservation::PaymentUsed));
        }
        if let Some(held) = self.intent.filter(|entry| entry.live()) {
            return Ok(Verdict::Refused(Reservation::Busy { retry_after: span(held.left) }));
        }
        let mut frees_in = None;
        for (transfer, on) in unsold {
            match on.entry.filter(|entry| entry.live()) {
                Some(held) => frees_in = Some(frees_in.unwrap_or(held.left).min(held.left)),
                None if seconds(transfer.block_time) > mark => {
                    return Ok(match on.pause() {
                        Some(retry_after) => Verdict::Refused(Reservation::TooManyAttempts { retry_after }),
                        None => {
                            Verdict::Free(Try { transfer, takes_over: on.entry.is_some() || self.intent.is_some() })
                        }
                    });
                }
                None => {}
            }
        }
        Ok(Verdict::Refused(match frees_in {
            Some(left) => Reservation::Busy { retry_after: span(left) },
            None => Reservation::BeforeMemory,
        }))
    }
}

impl Candidate {
    fn is_sold(&self) -> bool {
        self.entry.is_some_and(|entry| entry.sold)
    }

    /// How long the intent has to wait for this candidate; its own lease that ran out is its last attempt.
    fn pause(&self) -> Option<Duration> {
        let run_out = self.entry.filter(|_| self.own).map(|entry| entry.left.saturating_neg());
        pause(self.times, run_out.unwrap_or(self.since))
    }
}

/// What a database does for a reservation.
pub(super) trait Shelf: Sync {
    /// Looks once. `None`: there is no ledger.
    fn look(&self, claim: &Claim) -> impl Future<Output = Result<Option<Seen>, LedgerError>> + Send;

    /// Forgets some of what may be forgotten.
    fn sweep(&self, head: ChainTime) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Keeps what is sold by this later block time.
    fn prolong(&self, claim: &Claim, transfer: &Transfer) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Writes, in one transaction. `None`: another was faster.
    fn grant(&self, claim: &Claim, wish: Try<'_>) -> impl Future<Output = Result<Option<Lease>, LedgerError>> + Send;
}

/// [`Ledger::reserve`](super::Ledger::reserve) on a database.
pub(super) async fn reserve(shelf: &impl Shelf, claim: &Claim) -> Result<Reservation, LedgerError> {
    let mut may_sweep = true;
    for _ in 0..TRIES {
        let look = match shelf.look(claim).await?.ok_or(LedgerError::Incompatible)? {
            Seen::Granted(lease) => return Ok(Reservation::Granted(lease)),
            Seen::Look(look) => look,
        };
        compatible(Some(look.version))?;
        if look.due && look.mark.is_some() && std::mem::take(&mut may_sweep) {
            // For space only: what is not forgotten now is forgotten later.
            let _ = shelf.sweep(claim.head()).await;
            continue;
        }
        for transfer in look.mined_again(claim) {
            shelf.prolong(claim, transfer).await?;
        }
        match look.judge(claim)? {
            Verdict::Refused(reservation) => return Ok(reservation),
            Verdict::Free(wish) => {
                if let Some(lease) = shelf.grant(claim, wish).await? {
                    return Ok(Reservation::Granted(lease));
                }
            }
        }
    }
    Ok(Reservation::Busy { retry_after: AGAIN })
}

/// Told for whoever counts; the field names are those that metrics layers take for counters.
pub(super) mod tell {
    use crate::ledger::Lease;

    pub(in crate::ledger) fn reserved(lease: &Lease, expired: i64) {
        self::expired(expired);
        tracing::debug!(monotonic_counter.x402_reserved = 1_u64, intent = %lease.intent(),
            payment = %lease.transfer().key(), fence = lease.fence(), "reserved");
    }

    pub(in crate::ledger) fn consumed(lease: &Lease) {
        tracing::debug!(monotonic_counter.x402_consumed = 1_u64, intent = %lease.intent(),
            payment = %lease.transfer().key(), fence = lease.fence(), "consumed");
    }

    pub(in crate::ledger) fn released(lease: &Lease) {
        tracing::debug!(monotonic_counter.x402_released = 1_u64, intent = %lease.intent(),
            payment = %lease.transfer().key(), fence = lease.fence(), "released");
    }

    /// Leases that ran out and were taken over or forgotten: their holders crashed, or hang.
    pub(in crate::ledger) fn expired(count: i64) {
        if let Ok(count @ 1..) = u64::try_from(count) {
            tracing::info!(monotonic_counter.x402_expired = count, "leases expired");
        }
    }

    pub(in crate::ledger) fn forgotten(count: i64) {
        if count > 0 {
            tracing::debug!(count, "sales forgotten");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Address, Amount, Network, TxHash};

    fn paid(block_time: u64) -> Transfer {
        Transfer {
            network: Network::BASE,
            transaction: TxHash::new([1; 32]),
            position: 0,
            token: Address::ZERO,
            payer: Address::ZERO,
            recipient: Address::ZERO,
            amount: Amount::from_base_units(1),
            block_number: 1,
            block_time: ChainTime::from_unix(block_time),
        }
    }

    #[test]
    fn a_grant_holds_above_the_mark_outside_a_pause_and_outside_the_book() {
        let holds = |mark, times, since, booked| Written { fence: 1, times, since, mark, booked }.holds(&paid(100));
        assert!(holds(Some(99), 1, 0, false));
        assert!(!holds(Some(100), 1, 0, false), "at the mark");
        assert!(!holds(None, 1, 0, false), "nothing begun");
        assert!(holds(Some(99), 16, 0, false), "the sixteenth");
        assert!(!holds(Some(99), 17, 59_999_999, false), "in its pause");
        assert!(holds(Some(99), 17, 60_000_000, false), "after its pause");
        assert!(!holds(Some(99), 1, 0, true), "in the book");
    }
}
