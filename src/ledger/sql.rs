//! The common part of the SQL ledgers: the inputs of [`decide`] from a database's rows, and the encoding of values.
//!
//! A refusal follows from one look at one moment. A grant does not: the look only chooses what to try, and one write
//! decides, under the unique indexes. A claim that loses looks again.
#![cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite looks, judges and writes in one transaction"))]

use std::{
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    BookedSale, Claim, Lease, LedgerError, Refund, ReserveOutcome, Settling,
    claim::FURTHEST_END,
    decide::{Candidate, Decision, Entry, decide},
};
use crate::{
    ledger::stored::known,
    protocol::{Address, ChainTime, Network, Payment, PaymentId, PurchaseKey, TxHash},
};

/// The version of the schema that this crate reads and writes. Additions that an older reader can ignore do not change it; each
/// ledger counts those by its own revision.
pub(super) const SCHEMA: i64 = 3;
/// The most records of each kind that one step of a sweep forgets: too few to delay a sale.
pub(super) const BATCH: i64 = 128;
/// How long an idle lease is remembered.
pub(super) const KEPT: Duration = Duration::from_secs(60 * 60);
/// The default time limit of one question.
pub(super) const TIME_LIMIT: Duration = Duration::from_millis(1_900);
/// The longest lease, so that no sum overflows.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
/// After this many lost grants, the client has to repeat the claim later.
const TRIES: usize = 16;
/// The time after which it may repeat it.
const AGAIN: Duration = Duration::from_secs(1);

/// The error of an unusable table prefix or schema name.
pub(super) const TABLE_PREFIX: LedgerError =
    LedgerError::setting("a table prefix is 1 to 32 of the characters a to z, 0 to 9 and _, and begins with no digit");

/// Accepts a prefix only if it can be put into a statement as it is.
pub(super) fn table_prefix(prefix: &str) -> Result<&str, LedgerError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = |byte: &u8| !byte.is_ascii_digit();
    match prefix.len() <= 32 && prefix.bytes().all(plain) && prefix.as_bytes().first().is_some_and(begins) {
        true => Ok(prefix),
        false => Err(TABLE_PREFIX),
    }
}

/// A chain as a database keeps it.
pub(super) fn chain(network: Network) -> i64 {
    network.chain_id().cast_signed()
}

/// Chain time as a database keeps it.
pub(super) fn seconds(time: ChainTime) -> i64 {
    i64::try_from(time.unix()).unwrap_or(i64::MAX)
}

/// Chain time that a database kept.
pub(super) fn time(seconds: i64) -> ChainTime {
    ChainTime::from_unix(u64::try_from(seconds).unwrap_or(0))
}

/// A span as a database adds it, in microseconds.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Fails if the answer takes longer than `limit`.
pub(super) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, LedgerError>>,
) -> Result<T, LedgerError> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
        tracing::warn!("the ledger did not answer in time");
        Err(LedgerError::unavailable())
    })
}

/// Logs an error as a code only: a driver's message may quote a URL, a statement or its values.
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
    if incompatible { LedgerError::incompatible() } else { LedgerError::unavailable() }
}

/// Checks a schema's version; `None` means that there is no schema.
pub(super) fn compatible(version: Option<i64>) -> Result<(), LedgerError> {
    if version == Some(SCHEMA) { Ok(()) } else { Err(LedgerError::incompatible()) }
}

/// One row of a look: the ledger, the claim's intent, and one candidate with the mark of its chain. The candidate's
/// columns are `None` if the claim has no candidate. Spans are in microseconds, and negative for an expired lease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SnapshotRow {
    pub(super) version: i64,
    pub(super) mark: Option<i64>,
    pub(super) intent_sold: bool,
    pub(super) intent_left: Option<i64>,
    pub(super) sold: bool,
    pub(super) left: Option<i64>,
    /// The candidate's block time on record.
    pub(super) block_time: Option<i64>,
    /// Whether the candidate's settlement was begun for another intent, or that of another payment for this intent.
    pub(super) barred: bool,
    /// The purchase for a grant: that of a begun settlement, or else the claim's.
    pub(super) purchase: Option<PurchaseKey>,
    /// Whether another payment bought that purchase. `purchase_left` is the rest of another payment's lease on it.
    pub(super) purchase_sold: bool,
    pub(super) purchase_left: Option<i64>,
    /// Whether the settlement of another payment, for another intent, was begun for that purchase.
    pub(super) purchase_begun: bool,
}

/// A database's records of a claim at one moment: a row for each candidate, in the claim's order. Without rows the
/// ledger's own record is missing.
#[derive(Debug, Default)]
pub(super) struct Snapshot(Vec<SnapshotRow>);

impl FromIterator<SnapshotRow> for Snapshot {
    fn from_iter<I: IntoIterator<Item = SnapshotRow>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// The result of a look.
#[derive(Debug)]
pub(super) enum Seen {
    /// The claim is granted, and already written: no record stood in the way.
    Granted(Lease),
    Snapshot(Snapshot),
}

/// A grant to try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant<'c> {
    pub(super) paid: &'c Payment,
    /// Whether an expired lease is in the way.
    pub(super) takes_over: bool,
    /// The purchase of the grant.
    pub(super) purchase: Option<PurchaseKey>,
}

/// The result of an uncommitted write, with the mark read after the write.
pub(super) struct Written {
    pub(super) fence: i64,
    pub(super) mark: Option<i64>,
    /// The settlement that was begun for this intent and payment.
    pub(super) settling: Option<Settling>,
    /// As [`SnapshotRow::barred`].
    pub(super) barred: bool,
    /// Whether intent or payment is in the book of forgotten sales, or a settlement of another purchase was begun
    /// meanwhile.
    pub(super) is_void: bool,
}

impl Written {
    /// Whether the grant is valid, checked now that no other transaction can change it: between look and write, a
    /// record may have been forgotten.
    pub(super) fn holds(&self, paid: &Payment) -> bool {
        !self.is_void
            && (!self.barred || paid.is_settled())
            && self.mark.is_some_and(|mark| seconds(paid.time()) > mark)
    }

    pub(super) fn lease(&self, claim: &Claim, paid: &Payment) -> Result<Lease, LedgerError> {
        let fence = u64::try_from(self.fence).map_err(|_| LedgerError::incompatible())?;
        Ok(Lease::new(claim, paid, fence).with_settling(self.settling))
    }
}

/// The record of a sale or a lease. A payment in the book is sold, and has no lease. A lease with an impossibly late
/// end has expired: the clock was set back.
fn entry(sold: bool, left: Option<i64>) -> Option<Entry> {
    match left {
        _ if sold => Some(Entry::Sold),
        Some(left @ 1..) if span(left) <= FURTHEST_END => Some(Entry::Held { left: span(left) }),
        Some(_) => Some(Entry::Lapsed),
        None => None,
    }
}

impl SnapshotRow {
    fn intent(&self) -> Option<Entry> {
        entry(self.intent_sold, self.intent_left)
    }

    fn candidate<'c>(&self, paid: &'c Payment) -> Option<Candidate<'c>> {
        let mark = time(self.mark?);
        Some(Candidate {
            entry: entry(self.sold, self.left),
            barred: self.barred,
            purchase: entry(self.purchase_sold, self.purchase_left),
            purchase_begun: self.purchase_begun,
            ..Candidate::new(paid, mark)
        })
    }
}

impl Snapshot {
    #[cfg(feature = "sqlite")]
    pub(super) fn push(&mut self, row: SnapshotRow) {
        self.0.push(row);
    }

    /// The columns that all rows share: the ledger and the claim's intent. Without rows, a version that does not exist.
    fn ledger(&self) -> SnapshotRow {
        self.0.first().copied().unwrap_or_default()
    }

    /// Sold payments that were mined again later than recorded. Their sales have to be kept longer.
    pub(super) fn mined_again<'c>(&self, claim: &'c Claim) -> impl Iterator<Item = &'c Payment> {
        let later = |(paid, row): (&'c Payment, &SnapshotRow)| {
            // An unsettled payment has no block.
            let is_shown_mined = row.sold && paid.is_settled();
            let is_later = is_shown_mined && row.block_time.is_some_and(|known| known < seconds(paid.time()));
            is_later.then_some(paid)
        };
        claim.payments().iter().zip(&self.0).filter_map(later)
    }

    pub(super) fn decide<'c>(&self, claim: &'c Claim) -> Result<Decision<'c>, LedgerError> {
        let ledger = self.ledger();
        compatible(Some(ledger.version))?;
        let candidates = claim.payments().iter().zip(&self.0).map(|(paid, row)| row.candidate(paid));
        // A chain without a mark means that the ledger has not begun there.
        let candidates: Option<Vec<_>> = candidates.collect();
        Ok(decide(ledger.intent(), claim.lease(), candidates.ok_or(LedgerError::unavailable())?))
    }

    /// The write that would grant this candidate of the claim.
    fn grant<'c>(&self, claim: &Claim, candidate: Candidate<'c>) -> Grant<'c> {
        let takes_over = candidate.entry.is_some() || candidate.purchase.is_some() || self.ledger().intent().is_some();
        let row = claim.payments().iter().zip(&self.0).find(|(paid, _)| std::ptr::eq(*paid, candidate.paid));
        Grant { paid: candidate.paid, takes_over, purchase: row.and_then(|(_, row)| row.purchase) }
    }
}

/// The parts of a reservation that differ between databases.
pub(super) trait SqlBackend: Sync {
    /// Reads the records once.
    fn look(&self, claim: &Claim) -> impl Future<Output = Result<Seen, LedgerError>> + Send;

    /// Keeps a sale according to this later block time.
    fn prolong(&self, claim: &Claim, paid: &Payment) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Writes the grant, in one transaction. Returns `None` if another claim was faster.
    fn grant(&self, claim: &Claim, wish: Grant<'_>) -> impl Future<Output = Result<Option<Lease>, LedgerError>> + Send;
}

/// [`Ledger::reserve`](super::Ledger::reserve) on a database.
pub(super) async fn reserve(backend: &impl SqlBackend, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
    for _ in 0..TRIES {
        let snapshot = match backend.look(claim).await? {
            Seen::Granted(lease) => return Ok(ReserveOutcome::Granted(lease)),
            Seen::Snapshot(snapshot) => snapshot,
        };
        for paid in snapshot.mined_again(claim) {
            backend.prolong(claim, paid).await?;
        }
        match snapshot.decide(claim)? {
            Decision::Refused(reservation) => return Ok(reservation),
            Decision::Free(candidate) => {
                if let Some(lease) = backend.grant(claim, snapshot.grant(claim, candidate)).await? {
                    return Ok(ReserveOutcome::Granted(lease));
                }
            }
        }
    }
    Ok(ReserveOutcome::Busy { retry_after: AGAIN })
}

/// The time limit of a question to the book, if the ledger's own is shorter: the book may have to find rare sales among
/// many.
pub(super) const BOOK_TIME: Duration = Duration::from_secs(30);

/// Decodes the record of a settlement.
pub(super) fn settling(request: Vec<u8>, head: i64, transaction: Option<Vec<u8>>) -> Result<Settling, LedgerError> {
    let request = request.try_into().map_err(|_| LedgerError::incompatible())?;
    let begun = Settling::new(request, time(head));
    Ok(match transaction.map(hash).transpose()? {
        Some(transaction) => begun.with_transaction(transaction),
        None => begun,
    })
}

/// Returns the payment in the database's answer, if it is one of these.
pub(super) fn among(payments: &[PaymentId], told: &str) -> Result<Option<PaymentId>, LedgerError> {
    let told = told.parse().map_err(|_| LedgerError::incompatible())?;
    Ok(payments.contains(&told).then_some(told))
}

/// Decodes a purchase.
pub(super) fn purchase(bytes: Vec<u8>) -> Result<PurchaseKey, LedgerError> {
    bytes.try_into().map(PurchaseKey::new).map_err(|_| LedgerError::incompatible())
}

/// A sale in a database's encoding. The time of the sale is in units of `1 / per_second`.
pub(super) struct SaleRow {
    pub(super) payment: String,
    pub(super) resource: String,
    pub(super) chain_id: i64,
    pub(super) transaction: Vec<u8>,
    pub(super) payer: Vec<u8>,
    pub(super) recipient: Vec<u8>,
    pub(super) token: Vec<u8>,
    pub(super) amount: String,
    pub(super) maximum: Option<String>,
    pub(super) block_number: i64,
    pub(super) block_time: i64,
    pub(super) sold_at: SystemTime,
    pub(super) refund: Option<Refund>,
}

impl SaleRow {
    pub(super) fn read(self) -> Result<BookedSale, LedgerError> {
        let incompatible = |_| LedgerError::incompatible();
        let payment: PaymentId = self.payment.parse().map_err(|_| LedgerError::incompatible())?;
        let transaction = hash(self.transaction)?;
        let [payer, recipient, token] =
            [self.payer, self.recipient, self.token].map(|bytes| bytes.try_into().map(Address::new));
        let amount = self.amount.parse().map_err(|_| LedgerError::incompatible())?;
        let maximum = self.maximum.map(|maximum| maximum.parse().map_err(|_| LedgerError::incompatible()));
        Ok(BookedSale {
            payment,
            resource: self.resource,
            network: Network::eip155(self.chain_id.cast_unsigned()),
            token: token.map_err(incompatible)?,
            payer: payer.map_err(incompatible)?,
            recipient: recipient.map_err(incompatible)?,
            amount,
            maximum: maximum.transpose()?,
            transaction: known(transaction),
            block_number: Some(self.block_number.cast_unsigned()).filter(|number| *number > 0),
            block_time: time(self.block_time),
            sold_at: self.sold_at,
            refund: self.refund,
        })
    }
}

/// Decodes a transaction.
pub(super) fn hash(bytes: Vec<u8>) -> Result<TxHash, LedgerError> {
    bytes.try_into().map(TxHash::new).map_err(|_| LedgerError::incompatible())
}

/// Decodes a moment in microseconds.
pub(super) fn moment(micros: i64) -> SystemTime {
    UNIX_EPOCH + span(micros)
}

/// Returns the first whole unit at or after this moment, for a comparison in the database.
pub(super) fn not_before(moment: SystemTime, unit: Duration) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos().div_ceil(unit.as_nanos())).unwrap_or(i64::MAX)
}

/// A number of rows.
pub(super) fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Address, Amount, Network, SignedTransfer, Transfer, TxHash};

    fn paid(block_time: u64) -> Payment {
        Transfer::new(Network::BASE, TxHash::new([1; 32]), 0)
            .with_token(Address::ZERO)
            .with_payer(Address::ZERO)
            .with_recipient(Address::ZERO)
            .with_amount(Amount::from_base_units(1))
            .with_block(1, ChainTime::from_unix(block_time))
            .into()
    }

    #[test]
    fn a_grant_holds_above_the_mark_and_outside_the_book() {
        let written = |mark, is_void| Written { fence: 1, mark, settling: None, barred: false, is_void };
        let holds = |mark, is_void| written(mark, is_void).holds(&paid(100));
        assert!(holds(Some(99), false));
        assert!(!holds(Some(100), false), "at the mark");
        assert!(!holds(None, false), "nothing begun");
        assert!(!holds(Some(99), true), "in the book");
        let barred = Written { barred: true, ..written(Some(99), false) };
        assert!(barred.holds(&paid(100)), "settled, whatever was begun");
        let unsettled = SignedTransfer::new(Network::BASE, Address::ZERO, Address::ZERO, [1; 32])
            .with_shown(ChainTime::from_unix(100))
            .into();
        assert!(!barred.holds(&unsettled), "to be settled for another");
    }
}
