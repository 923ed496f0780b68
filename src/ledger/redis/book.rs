//! The book: remembered sales, and those in the permanent book, if there is one.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    super::{Announcements, BookedSale, KnownPayment, LedgerError, Refund, RefundOutcome, SalesBook, SalesQuery},
    handle::RedisLedger,
    words::word,
};
use crate::{
    ledger::stored::known,
    protocol::{Network, PaymentId, TxHash},
};

/// The number of words of a sale.
const WORDS: usize = 14;
/// The largest whole number that Lua, which counts in doubles, has exactly. A time in milliseconds never gets there.
const LAST: u128 = (1 << 53) - 1;
/// How long to wait before a page includes the sales that were recorded just now.
const MOMENT: Duration = Duration::from_millis(2);

impl SalesBook for RedisLedger {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        let until = query.end().map_or(LAST, millis).to_string();
        let (mut found, mut last) = (Vec::new(), after.cloned());
        loop {
            let since = millis(last.as_ref().map_or(query.start(), |last| last.sold_at)).to_string();
            let words = [since, until.clone(), most.to_string()];
            let mut told: Vec<String> = self.ask(&self.inner.scripts.page, &words).await?;
            if word(&told, &[("sales", false), ("sales of the past", true)])? {
                tokio::time::sleep(MOMENT).await;
                told = self.ask(&self.inner.scripts.page, &words).await?;
            }
            let (sales, is_all) = behind(&told, last.as_ref(), most)?;
            last = sales.last().cloned().or(last);
            found.extend(sales.into_iter().filter(|sale| query.has(sale)));
            if is_all || found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        let ids: Vec<_> = payments.iter().map(PaymentId::to_string).collect();
        let told: Vec<String> = self.ask(&self.inner.scripts.known, &ids).await?;
        let known = told.get(1..).unwrap_or_default().as_chunks::<2>().0;
        if known.len() != payments.len() {
            return Err(LedgerError::incompatible());
        }
        known.iter().map(|[sold, noted]| Ok(KnownPayment::new(!sold.is_empty(), refund(noted)?))).collect()
    }

    async fn note_refund(&self, payment: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        let words = [payment.to_string(), transaction.to_string()];
        let told: Vec<String> = self.ask(&self.inner.scripts.refund, &words).await?;
        if word(&told, &[("noted", true), ("noted before", false)])? {
            return Ok(RefundOutcome::Noted);
        }
        let noted = told.get(1).map(|noted| refund(noted)).transpose()?.flatten();
        match noted.ok_or(LedgerError::incompatible())?.transaction {
            noted if noted == transaction => Ok(RefundOutcome::NotedBefore),
            transaction => Ok(RefundOutcome::Differs { transaction }),
        }
    }
}

impl Announcements for RedisLedger {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        let since = millis(after.map_or(UNIX_EPOCH, |last| last.sold_at)).to_string();
        let told: Vec<String> = self.ask(&self.inner.scripts.unannounced, &[since, most.to_string()]).await?;
        Ok(behind(&told, after, most)?.0)
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        let told: Vec<String> = self.ask(&self.inner.scripts.announced, &[payment.to_string()]).await?;
        word(&told, &[("done", ())])
    }
}

/// Returns the first whole millisecond at or after this moment.
fn millis(moment: SystemTime) -> u128 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().div_ceil(1_000_000).min(LAST)
}

fn moment(millis: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))
}

/// Returns up to `most` sales after this one, in order, and whether there are no more. A sale that is both remembered
/// and booked comes once, as it is remembered.
fn behind(told: &[String], after: Option<&BookedSale>, most: usize) -> Result<(Vec<BookedSale>, bool), LedgerError> {
    let mut sales = BTreeMap::new();
    for told in told.get(1..).unwrap_or_default().as_chunks::<WORDS>().0 {
        let sale = sale(told)?;
        let key = (sale.sold_at, sale.payment.to_string());
        if after.is_none_or(|after| key > (after.sold_at, after.payment.to_string())) {
            sales.entry(key).or_insert(sale);
        }
    }
    let is_all = sales.len() < most;
    Ok((sales.into_values().take(most).collect(), is_all))
}

/// Parses a transaction and the time of its note.
fn refund(noted: &str) -> Result<Option<Refund>, LedgerError> {
    if noted.is_empty() {
        return Ok(None);
    }
    let read = |(transaction, noted_at): (&str, &str)| Some(Refund::new(transaction.parse().ok()?, moment(noted_at)?));
    noted.split_once(' ').and_then(read).map(Some).ok_or(LedgerError::incompatible())
}

fn sale(told: &[String; WORDS]) -> Result<BookedSale, LedgerError> {
    let [id, resource, chain, hash, _position, payer, recipient, token, amount, number, time, maximum, sold_at, noted] =
        told;
    let read = || {
        let transaction: TxHash = hash.parse().ok()?;
        let number: u64 = number.parse().ok()?;
        Some(BookedSale {
            payment: id.parse().ok()?,
            resource: resource.clone(),
            network: Network::eip155(chain.parse().ok()?),
            token: token.parse().ok()?,
            payer: payer.parse().ok()?,
            recipient: recipient.parse().ok()?,
            amount: amount.parse().ok()?,
            // Empty at a fixed price.
            maximum: Some(maximum)
                .filter(|maximum| !maximum.is_empty())
                .map(|maximum| maximum.parse())
                .transpose()
                .ok()?,
            transaction: known(transaction),
            block_number: Some(number).filter(|number| *number > 0),
            block_time: super::maintenance::time(time)?,
            sold_at: moment(sold_at)?,
            refund: None,
        })
    };
    Ok(read().ok_or(LedgerError::incompatible())?.with_refund(refund(noted)?))
}
