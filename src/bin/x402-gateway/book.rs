//! `sales`, `refund` and `unredeemed`: the seller's book.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Args as Flags;
use tower_x402::{
    Unredeemed, UnredeemedReason,
    ledger::{AnyLedger, RefundOutcome, SalesBook as _, SalesQuery, UtcDay},
    protocol::{ChainTime, PaymentId, TxHash},
};

use super::{
    failure::Failure,
    rows::{self, Format},
};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A range of days, and the format of the output.
#[derive(Clone, Debug, Flags)]
pub(crate) struct Span {
    /// First day, in UTC: 2026-11-01
    #[arg(long, value_name = "DAY")]
    pub(crate) since: UtcDay,
    /// Last day, in UTC [default: today]
    #[arg(long, value_name = "DAY")]
    pub(crate) until: Option<UtcDay>,
    /// Write comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write a JSON array
    #[arg(long)]
    json: bool,
}

/// The filters of `sales`.
#[derive(Clone, Debug, Flags)]
pub(crate) struct Sales {
    #[command(flatten)]
    span: Span,
    /// One resource only
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Show totals by day, resource and token instead of sales
    #[arg(long)]
    totals: bool,
}

/// The payment that was given back, and the refund's transaction.
#[derive(Clone, Debug, Flags)]
pub(crate) struct RefundArgs {
    /// Id of the payment that was given back, as `sales` and `unredeemed` show it
    #[arg(long, value_name = "ID")]
    payment: PaymentId,
    /// Transaction of the refund
    #[arg(long, value_name = "0x…")]
    transaction: TxHash,
    /// First day, in UTC, to search for a payment that was not sold [default: a week ago]
    #[arg(long, value_name = "DAY")]
    since: Option<UtcDay>,
    /// Record the refund without asking the chain: the server's log, or another record, shows that the payment bought
    /// nothing
    #[arg(long)]
    not_sold: bool,
}

impl Span {
    fn format(&self) -> Format {
        match (self.csv, self.json) {
            (true, _) => Format::Csv,
            (_, true) => Format::Json,
            _ => Format::Table,
        }
    }

    fn start(&self) -> SystemTime {
        self.since.start()
    }

    fn end(&self) -> Option<SystemTime> {
        self.until.map(UtcDay::end)
    }
}

/// The seller whose book is read.
pub(crate) trait Seller {
    /// Returns the book of its ledger.
    async fn book(&self) -> Result<AnyLedger, Failure>;

    /// Returns the payments in this span that bought nothing.
    async fn owed(&self, since: SystemTime, until: Option<SystemTime>) -> Result<Vec<Unredeemed>, Failure>;
}

/// Writes what was sold.
///
/// # Errors
/// Fails on wrong flags and on errors of the ledger.
pub(crate) async fn sales(seller: &impl Seller, asked: &Sales) -> Result<(), Failure> {
    let book = seller.book().await?;
    let query = SalesQuery::since(asked.span.start());
    let query = asked.span.end().into_iter().fold(query, SalesQuery::until);
    let query = asked.resource.iter().fold(query, |query, name| query.resource(name.as_str()));
    let mut out = rows::Writer::new(io::stdout().lock(), asked.span.format());
    if asked.totals {
        for total in book.totals(query).await.map_err(Failure::environment)? {
            out.row(&rows::total(&total)).map_err(unwritten)?;
        }
        return out.finish(rows::TOTAL).map_err(unwritten);
    }
    let mut sales = book.sales(query);
    while let Some(sale) = sales.next().await {
        out.row(&rows::sale(&sale.map_err(Failure::environment)?)).map_err(unwritten)?;
    }
    out.finish(rows::SALE).map_err(unwritten)
}

/// Notes a refund.
///
/// # Errors
/// Fails on wrong flags and on errors of the chain or the ledger. Also fails if another transaction already gave the
/// payment back, or if the payment may have been sold without a record.
pub(crate) async fn refund(seller: &impl Seller, given: &RefundArgs) -> Result<(), Failure> {
    let RefundArgs { payment, transaction, .. } = *given;
    let book = seller.book().await?;
    let known = book.known(&[payment]).await.map_err(Failure::environment)?;
    let is_known = known.first().is_some_and(|known| known.sold || known.refund.is_some());
    if !is_known && !given.not_sold {
        bought_nothing(seller, given).await?;
    }
    let outcome = book.note_refund(payment, transaction).await.map_err(Failure::environment)?;
    let known = book.known(&[payment]).await.map_err(Failure::environment)?;
    let unsold = if known.first().is_some_and(|known| known.sold) { "" } else { " It is not on record as sold." };
    let said = match outcome {
        RefundOutcome::Noted => format!("{payment} is noted as given back by {transaction}.{unsold}"),
        RefundOutcome::NotedBefore => format!("{payment} was noted as given back by {transaction} before.{unsold}"),
        RefundOutcome::Differs { transaction: before } => {
            return Err(Failure::environment(format!(
                "{payment} is noted as given back by {before}: it may have been given back twice"
            )));
        }
        _ => return Err(Failure::environment("the ledger's answer is not known to this program")),
    };
    writeln!(io::stdout(), "{said}").map_err(unwritten)
}

/// Checks that a payment without a recorded sale was made, and lies above the mark, where every sale is on record.
async fn bought_nothing(seller: &impl Seller, given: &RefundArgs) -> Result<(), Failure> {
    let payment = given.payment;
    let since = given.since.map_or_else(|| SystemTime::now().checked_sub(WEEK).unwrap_or(UNIX_EPOCH), UtcDay::start);
    let owed = seller.owed(since, None).await?;
    match owed.iter().find(|owed| owed.payment == payment).map(|owed| owed.reason) {
        Some(UnredeemedReason::BelowMark) => Err(Failure::environment(format!(
            "{payment} was mined below the ledger's mark: it may have been sold, and the record of it was lost. Look for it in the \
             server's log (`ledger replay` records what the log has), and say --not-sold if it is not there"
        ))),
        Some(_) => Ok(()),
        None => Err(Failure::environment(format!(
            "{payment} is not on record as sold, nor on the chain since {}: name an earlier --since DAY, and the server's settings about \
             payments",
            UtcDay::of(since)
        ))),
    }
}

/// Writes what was paid and bought nothing.
///
/// # Errors
/// Fails on wrong flags and on errors of the chain or the ledger.
pub(crate) async fn unredeemed(seller: &impl Seller, span: &Span) -> Result<(), Failure> {
    let owed = seller.owed(span.start(), span.end()).await?;
    let mut out = rows::Writer::new(io::stdout().lock(), span.format());
    for owed in &owed {
        out.row(&rows::owed(owed)).map_err(unwritten)?;
    }
    out.finish(rows::OWED).map_err(unwritten)
}

pub(crate) fn chain_time(time: SystemTime) -> ChainTime {
    ChainTime::from_unix(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs())
}

/// The usual cause is a reader that closed the pipe early.
fn unwritten(error: io::Error) -> Failure {
    Failure::environment(format!("cannot write: {}", error.kind()))
}
