//! `datasets sales`, `refund` and `unredeemed`: the seller's book.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args as Flags, ValueEnum};
use tower_x402::{
    HealthError, Merchant, Unredeemed, UnredeemedReason,
    ledger::{AnyLedger, RefundOutcome, SalesBook as _, SalesQuery, UtcDay},
    protocol::{ChainTime, PaymentId, SealingKeys, TxHash},
    verify::EvmVerifier,
};

use super::{args::Args, merchant, rows, run::Failure};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Which days, and how they are written.
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

/// What is asked of the sales.
#[derive(Clone, Debug, Flags)]
pub(crate) struct Sales {
    #[command(flatten)]
    span: Span,
    /// One resource only
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Sums of each day, resource and token instead of sales
    #[arg(long)]
    totals: bool,
}

/// What was given back.
#[derive(Clone, Debug, Flags)]
pub(crate) struct RefundArgs {
    /// Id of the payment that was given back, as `sales` and `unredeemed` tell it
    #[arg(long, value_name = "ID")]
    payment: PaymentId,
    /// Transaction that gave it back
    #[arg(long, value_name = "0x…")]
    transaction: TxHash,
    /// First day, in UTC, on which a payment that was not sold is looked for [default: a week ago]
    #[arg(long, value_name = "DAY")]
    since: Option<UtcDay>,
    /// The server's log, or another record, shows that the payment bought nothing: note it without asking the chain
    #[arg(long)]
    not_sold: bool,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Csv,
    Json,
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

/// Writes what was sold.
///
/// # Errors
/// What is wrong with the flags or the ledger.
pub(crate) async fn sales(args: &Args, asked: &Sales) -> Result<(), Failure> {
    let ledger = args.ledger().map_err(Failure::flags)?;
    let book = ledger.book(args.network()).await?;
    let query = SalesQuery::since(asked.span.start());
    let query = asked.span.end().into_iter().fold(query, SalesQuery::until);
    let query = asked.resource.iter().fold(query, |query, name| query.resource(name.as_str()));
    let mut out = rows::Writer::new(io::stdout().lock(), asked.span.format());
    if asked.totals {
        for total in book.totals(query).await.map_err(Failure::world)? {
            out.row(&rows::total(&total)).map_err(unwritten)?;
        }
        return out.finish(rows::TOTAL).map_err(unwritten);
    }
    let mut sales = book.sales(query);
    while let Some(sale) = sales.next().await {
        out.row(&rows::sale(&sale.map_err(Failure::world)?)).map_err(unwritten)?;
    }
    out.finish(rows::SALE).map_err(unwritten)
}

/// Notes a refund.
///
/// # Errors
/// What is wrong with the flags, the chain or the ledger; a payment that was given back by another transaction before, and one that may
/// have been sold without a record of it.
pub(crate) async fn refund(args: &Args, given: &RefundArgs) -> Result<(), Failure> {
    let RefundArgs { payment, transaction, .. } = *given;
    let book = args.ledger().map_err(Failure::flags)?.book(args.network()).await?;
    let known = book.known(&[payment]).await.map_err(Failure::world)?;
    let is_known = known.first().is_some_and(|known| known.sold || known.refund.is_some());
    if !is_known && !given.not_sold {
        bought_nothing(args, given).await?;
    }
    let outcome = book.note_refund(payment, transaction).await.map_err(Failure::world)?;
    let known = book.known(&[payment]).await.map_err(Failure::world)?;
    let unsold = if known.first().is_some_and(|known| known.sold) { "" } else { " It is not on record as sold." };
    let said = match outcome {
        RefundOutcome::Noted => format!("{payment} is noted as given back by {transaction}.{unsold}"),
        RefundOutcome::NotedBefore => format!("{payment} was noted as given back by {transaction} before.{unsold}"),
        RefundOutcome::Differs { transaction: before } => {
            return Err(Failure::world(format!(
                "{payment} is noted as given back by {before}: it may have been given back twice"
            )));
        }
        _ => return Err(Failure::world("the ledger's answer is not known to this program")),
    };
    writeln!(io::stdout(), "{said}").map_err(unwritten)
}

/// Makes sure that a payment which is not on record as sold was made, and is above the mark, where every sale is on record.
async fn bought_nothing(args: &Args, given: &RefundArgs) -> Result<(), Failure> {
    let payment = given.payment;
    let since = given.since.map_or_else(|| SystemTime::now().checked_sub(WEEK).unwrap_or(UNIX_EPOCH), UtcDay::start);
    let owed = owed(args, since, None).await?;
    match owed.iter().find(|owed| owed.payment == payment).map(|owed| owed.reason) {
        Some(UnredeemedReason::BelowMark) => Err(Failure::world(format!(
            "{payment} was mined below the ledger's mark: it may have been sold, and the record of it was lost. Look for it in the \
             server's log (`ledger replay` records what the log has), and say --not-sold if it is not there"
        ))),
        Some(_) => Ok(()),
        None => Err(Failure::world(format!(
            "{payment} is not on record as sold, nor on the chain since {}: name an earlier --since DAY, and the server's flags about \
             payments",
            UtcDay::of(since)
        ))),
    }
}

/// Writes what was paid and bought nothing.
///
/// # Errors
/// What is wrong with the flags, the chain or the ledger.
pub(crate) async fn unredeemed(args: &Args, span: &Span) -> Result<(), Failure> {
    let owed = owed(args, span.start(), span.end()).await?;
    let mut out = rows::Writer::new(io::stdout().lock(), span.format());
    for owed in &owed {
        out.row(&rows::owed(owed)).map_err(unwritten)?;
    }
    out.finish(rows::OWED).map_err(unwritten)
}

async fn owed(args: &Args, since: SystemTime, until: Option<SystemTime>) -> Result<Vec<Unredeemed>, Failure> {
    let asked = Asked::of(args).await?;
    // So that what is below it is known to be. A default would be another service's.
    if let Some(price) = &args.price {
        let price = super::amount(&asked.merchant, price).map_err(Failure::flags)?;
        drop(asked.merchant.charge("any", price).map_err(Failure::flags)?);
    }
    let owed = asked.merchant.unredeemed(&asked.verifier, &asked.book, chain_time(since), until.map(chain_time)).await;
    owed.map_err(unhealthy)
}

/// A merchant that sells nothing, of the chain and the ledger that the flags name.
pub(crate) struct Asked {
    pub(crate) merchant: Merchant,
    pub(crate) verifier: EvmVerifier,
    book: AnyLedger,
}

impl Asked {
    /// # Errors
    /// What is wrong with the flags, the chain or the ledger.
    pub(crate) async fn of(args: &Args) -> Result<Self, Failure> {
        let Some(recipient) = args.recipient.filter(|_| !args.rpc_url.is_empty()) else {
            return Err(Failure::flags("name who was paid with --recipient 0x…, and an endpoint with --rpc-url URL"));
        };
        let book = args.ledger().map_err(Failure::flags)?.book(args.network()).await?;
        let verifier = merchant::verifier(args, args.network()).await?;
        // Nothing is quoted under this key.
        let keys = SealingKeys::random().map_err(Failure::world)?;
        let builder = Merchant::builder(recipient).verifier(verifier.clone()).sealing_keys(keys);
        let builder = merchant::tokens(builder.network(args.network()), args, &verifier).await?;
        let builder = builder.ledger(book.clone()).start_lazily().max_payment_age(args.max_payment_age);
        let merchant = builder.build().await.map_err(Failure::flags)?;
        Ok(Self { merchant, verifier, book })
    }
}

/// Which backend does not answer.
pub(crate) fn unhealthy(error: HealthError) -> Failure {
    match error {
        HealthError::Verifier(error) => merchant::chain(error),
        other => Failure::world(other),
    }
}

pub(crate) fn chain_time(time: SystemTime) -> ChainTime {
    ChainTime::from_unix(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs())
}

/// Who reads may have had enough, and closed the pipe.
fn unwritten(error: io::Error) -> Failure {
    Failure::world(format!("cannot write: {}", error.kind()))
}
