//! Rows of a book, as a table, as comma-separated values, or as JSON.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::ValueEnum;
use serde_json::{Map, Value};
use tower_x402::{
    Unredeemed, UnredeemedReason,
    ledger::{BookedSale, DayTotal, Refund, UtcDay},
    protocol::{Address, Amount, Asset, Network},
};

/// The format of the rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Csv,
    Json,
}

/// A row: the name and the text of each column.
pub(crate) type Row = Vec<(&'static str, String)>;

/// The columns of sales.
pub(crate) const SALE: &[&str] = &[
    "sold_at",
    "resource",
    "amount",
    "base_units",
    "token",
    "network",
    "payer",
    "recipient",
    "transaction",
    "block",
    "block_time",
    "payment",
    "refund",
];
/// The columns of totals.
pub(crate) const TOTAL: &[&str] =
    &["day", "resource", "network", "token", "sales", "amount", "base_units", "refunds", "refunded_base_units"];
/// The columns of unredeemed payments.
pub(crate) const OWED: &[&str] = &[
    "block_time",
    "reason",
    "redeemable_until",
    "amount",
    "base_units",
    "token",
    "network",
    "payer",
    "recipient",
    "transaction",
    "block",
    "payment",
    "refund",
];
/// Columns that a table omits to save width.
const LEFT_OUT: [&str; 6] = ["base_units", "network", "recipient", "block", "block_time", "transaction"];

pub(crate) fn sale(sale: &BookedSale) -> Row {
    row(
        SALE,
        [
            moment(sale.sold_at),
            sale.resource.clone(),
            shown(sale.network, sale.token, sale.amount),
            sale.amount.to_string(),
            sale.token.to_string(),
            sale.network.to_string(),
            sale.payer.to_string(),
            sale.recipient.to_string(),
            sale.transaction.map(|transaction| transaction.to_string()).unwrap_or_default(),
            sale.block_number.map(|number| number.to_string()).unwrap_or_default(),
            moment(time(sale.block_time.unix())),
            sale.payment.to_string(),
            refund(sale.refund),
        ],
    )
}

pub(crate) fn total(total: &DayTotal) -> Row {
    row(
        TOTAL,
        [
            total.day.to_string(),
            total.resource.clone(),
            total.network.to_string(),
            total.token.to_string(),
            total.sales.to_string(),
            shown(total.network, total.token, total.base_units),
            total.base_units.to_string(),
            total.refunds.to_string(),
            total.refunded.to_string(),
        ],
    )
}

pub(crate) fn owed(owed: &Unredeemed) -> Row {
    let paid = &owed.transfer;
    row(
        OWED,
        [
            moment(time(paid.block_time.unix())),
            reason(owed.reason).to_owned(),
            owed.redeemable_until.map(|until| moment(time(until.unix()))).unwrap_or_default(),
            shown(paid.network, paid.token, paid.amount),
            paid.amount.to_string(),
            paid.token.to_string(),
            paid.network.to_string(),
            paid.payer.to_string(),
            paid.recipient.to_string(),
            paid.transaction.to_string(),
            paid.block_number.to_string(),
            owed.payment.to_string(),
            refund(owed.refund),
        ],
    )
}

fn row<const N: usize>(columns: &'static [&'static str], cells: [String; N]) -> Row {
    columns.iter().copied().zip(cells).collect()
}

fn reason(reason: UnredeemedReason) -> &'static str {
    match reason {
        UnredeemedReason::NotRedeemed => "not redeemed",
        UnredeemedReason::TooOld => "too old",
        UnredeemedReason::BelowMark => "below mark",
        UnredeemedReason::PermitUntold => "permit untold",
        UnredeemedReason::BelowEveryPrice { .. } => "below every price",
        _ => "unknown",
    }
}

fn refund(refund: Option<Refund>) -> String {
    refund.map(|refund| refund.transaction.to_string()).unwrap_or_default()
}

/// Formats an amount in whole tokens if it is the chain's USDC, else in base units.
fn shown(network: Network, token: Address, amount: Amount) -> String {
    match Asset::usdc_of(network).filter(|usdc| usdc.contract() == token) {
        Some(usdc) => format!("{} {}", amount.to_decimal(usdc.decimals()), usdc.symbol()),
        None => amount.to_string(),
    }
}

fn time(unix: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_secs(unix)).unwrap_or(UNIX_EPOCH)
}

/// Formats a time such as `2026-11-22T18:33:38Z`.
fn moment(time: SystemTime) -> String {
    let day = UtcDay::of(time);
    let seconds = time.duration_since(day.start()).map_or(0, |since| since.as_secs());
    format!("{day}T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Writes rows one after the other. A table buffers its first rows to learn the widths of its columns.
pub(crate) struct Writer<W: Write> {
    out: W,
    format: Format,
    written: usize,
    /// Buffered rows of a table.
    waiting: Vec<Row>,
    widths: Vec<usize>,
}

/// How many rows of a table are buffered; then the widths of its columns are fixed.
const WAIT: usize = 200;

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, format: Format) -> Self {
        Self { out, format, written: 0, waiting: Vec::new(), widths: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: &Row) -> io::Result<()> {
        match self.format {
            Format::Csv => {
                if self.written == 0 {
                    csv_line(&mut self.out, row.iter().map(|(name, _)| *name))?;
                }
                csv_line(&mut self.out, row.iter().map(|(_, cell)| cell.as_str()))?;
            }
            Format::Json => {
                write!(self.out, "{}", if self.written == 0 { "[\n  " } else { ",\n  " })?;
                let object: Map<_, _> =
                    row.iter().map(|(name, cell)| ((*name).to_owned(), Value::from(cell.as_str()))).collect();
                serde_json::to_writer(&mut self.out, &object)?;
            }
            Format::Table => {
                let kept = row.iter().filter(|(name, _)| !LEFT_OUT.contains(name)).cloned().collect();
                self.waiting.push(kept);
                if !self.widths.is_empty() || self.waiting.len() >= WAIT {
                    self.flush_table()?;
                }
            }
        }
        self.written += 1;
        Ok(())
    }

    /// Ends the output. Without any row, CSV still gets its header, JSON an empty array, and a table the word `none`.
    pub(crate) fn finish(mut self, columns: &[&str]) -> io::Result<()> {
        match (self.format, self.written) {
            (Format::Csv, 0) => csv_line(&mut self.out, columns.iter().copied())?,
            (Format::Json, 0) => writeln!(self.out, "[]")?,
            (Format::Json, _) => writeln!(self.out, "\n]")?,
            (Format::Table, 0) => writeln!(self.out, "none")?,
            (Format::Table, _) => self.flush_table()?,
            (Format::Csv, _) => {}
        }
        self.out.flush()
    }

    fn flush_table(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.waiting);
        if self.widths.is_empty()
            && let Some(first) = rows.first()
        {
            let width = |column: usize| {
                let cells = rows.iter().map(|row| row[column].1.chars().count());
                cells.chain([first[column].0.len()]).max().unwrap_or_default()
            };
            self.widths = (0..first.len()).map(width).collect();
            self.table_line(first.iter().map(|(name, _)| *name))?;
        }
        rows.iter().try_for_each(|row| self.table_line(row.iter().map(|(_, cell)| cell.as_str())))
    }

    fn table_line<'a>(&mut self, cells: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let cells = cells.zip(&self.widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// Writes a line of RFC 4180. A cell that a spreadsheet would take for a formula gets an apostrophe in front: the
/// seller chooses the names of resources, and they may begin with any character.
fn csv_line<'a>(out: &mut impl Write, cells: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let cells: Vec<_> = cells.map(csv_cell).collect();
    write!(out, "{}\r\n", cells.join(","))
}

fn csv_cell(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    let quoted = cell.contains(['"', ',', '\r', '\n']);
    if quoted { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, rows: &[[&str; 2]]) -> String {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, format);
        for [resource, base_units] in rows {
            writer.row(&vec![("resource", (*resource).to_owned()), ("amount", (*base_units).to_owned())]).unwrap();
        }
        writer.finish(&["resource", "amount"]).unwrap();
        String::from_utf8(out).unwrap()
    }

    const ROWS: [[&str; 2]; 3] = [["demand-insights", "1"], ["=cmd|' /C calc'!A0", "22"], ["a, \"b\"\nc", "333"]];

    #[test]
    fn csv_is_quoted_and_holds_no_formula() {
        assert_eq!(
            written(Format::Csv, &ROWS),
            "resource,amount\r\ndemand-insights,1\r\n'=cmd|' /C calc'!A0,22\r\n\"a, \"\"b\"\"\nc\",333\r\n"
        );
        for formula in ["+1", "-1", "@x", "\tx"] {
            assert!(written(Format::Csv, &[[formula, "1"]]).contains(&format!("'{formula},1")), "{formula}");
        }
        assert_eq!(written(Format::Csv, &[]), "resource,amount\r\n");
    }

    #[test]
    fn json_is_one_array() {
        let array: Value = serde_json::from_str(&written(Format::Json, &ROWS)).unwrap();
        assert_eq!((array.as_array().unwrap().len(), &array[2]["resource"]), (3, &Value::from("a, \"b\"\nc")));
        assert_eq!(serde_json::from_str::<Value>(&written(Format::Json, &[])).unwrap(), Value::Array(vec![]));
    }

    #[test]
    fn a_table_is_as_wide_as_its_rows() {
        let table = written(Format::Table, &ROWS[..2]);
        assert_eq!(table, "resource            amount\ndemand-insights     1\n=cmd|' /C calc'!A0  22\n");
        let many: Vec<_> = (0..500).map(|_| ["x", "1"]).collect();
        assert_eq!(written(Format::Table, &many).lines().count(), 501);
        assert_eq!(written(Format::Table, &[]), "none\n");
    }

    #[test]
    fn a_moment_is_told_in_utc() {
        assert_eq!(moment(time(1_795_305_600 + 3_600 * 18 + 33 * 60 + 38)), "2026-11-22T18:33:38Z");
        let usdc = Asset::USDC_BASE;
        assert_eq!(shown(usdc.network(), usdc.contract(), Amount::from_base_units(490_000)), "0.49 USDC");
        assert_eq!(shown(usdc.network(), Address::ZERO, Amount::from_base_units(7)), "7");
    }
}
