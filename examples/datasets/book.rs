//! `datasets sales`, `refund` and `unredeemed`: the seller's book.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::{Args as Flags, ValueEnum};
use tower_x402::{
    HealthError, Merchant, Unredeemed,
    ledger::{RefundOutcome, SalesBook as _, SalesQuery, UtcDay},
    protocol::{Address, ChainTime, PaymentId, SealingKeys, TxHash},
};

use super::{args::Args, merchant, rows, run::Failure};

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
    let book = ledger.book().await?;
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
/// What is wrong with the flags or the ledger, and a payment that was given back by another transaction before.
pub(crate) async fn refund(args: &Args, given: &RefundArgs) -> Result<(), Failure> {
    let RefundArgs { payment, transaction } = *given;
    let book = args.ledger().map_err(Failure::flags)?.book().await?;
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

/// Writes what was paid and bought nothing.
///
/// # Errors
/// What is wrong with the flags, the chain or the ledger.
pub(crate) async fn unredeemed(args: &Args, span: &Span) -> Result<(), Failure> {
    if args.rpc_url.is_empty() || args.recipient.is_none() {
        return Err(Failure::flags("name who was paid with --recipient 0x…, and an endpoint with --rpc-url URL"));
    }
    let owed = owed(args, span).await?;
    let mut out = rows::Writer::new(io::stdout().lock(), span.format());
    for owed in &owed {
        out.row(&rows::owed(owed)).map_err(unwritten)?;
    }
    out.finish(rows::OWED).map_err(unwritten)
}

async fn owed(args: &Args, span: &Span) -> Result<Vec<Unredeemed>, Failure> {
    let book = args.ledger().map_err(Failure::flags)?.book().await?;
    let verifier = merchant::verifier(args).await?;
    // Nothing is quoted under this key.
    let keys = SealingKeys::random().map_err(Failure::world)?;
    let builder =
        Merchant::builder(args.recipient.unwrap_or(Address::ZERO)).verifier(verifier.clone()).sealing_keys(keys);
    let builder = merchant::tokens(builder.network(args.network()), args, &verifier).await?;
    let builder = book.give_to(builder).start_lazily().max_payment_age(args.max_payment_age);
    let merchant = builder.build().await.map_err(Failure::flags)?;
    // So that what is below it is known to be. A default would be another service's.
    if let Some(price) = &args.price {
        let price = super::amount(&merchant, price).map_err(Failure::flags)?;
        drop(merchant.charge("any", price).map_err(Failure::flags)?);
    }
    let [since, until] = [Some(span.start()), span.end()].map(|time| time.map(chain_time));
    let owed = merchant.unredeemed(&verifier, &book, since.unwrap_or_default(), until).await;
    owed.map_err(|error| match error {
        HealthError::Verifier(error) => merchant::chain(error),
        other => Failure::world(other),
    })
}

fn chain_time(time: SystemTime) -> ChainTime {
    ChainTime::from_unix(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs())
}

/// Who reads may have had enough, and closed the pipe.
fn unwritten(error: io::Error) -> Failure {
    Failure::world(format!("cannot write: {}", error.kind()))
}
