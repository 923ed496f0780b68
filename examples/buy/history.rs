//! `buy history`: the journal as a table.
//!
//! It reads the file and changes nothing, not even the lock, so it works while another process buys.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use tower_x402::{
    client::{JournalEntry, PurchaseState, Standard},
    protocol::{Address, Amount, Asset},
};

use super::{BoxError, args::History, journal, report, screen, when};

const HEAD: [&str; 7] = ["WHEN (UTC)", "HOST", "WHAT", "AMOUNT", "STATE", "PAID BY", "TRANSACTION"];

/// Prints the table; returns the exit code.
pub(crate) fn run(args: &History) -> u8 {
    report::code(act(args))
}

fn act(args: &History) -> Result<u8, BoxError> {
    let path = &args.journal.journal;
    journal::exists(path)?;
    let bytes =
        fs::read(path).map_err(|error| format!("cannot read the journal {}: {}", path.display(), error.kind()))?;
    let entries = read(&bytes)?;
    if args.json {
        let entries: Vec<Value> = entries.iter().map(as_json).collect();
        println!("{:#}", Value::from(entries));
        return Ok(0);
    }
    print!("{}", table(&entries));
    let open: Vec<_> = entries.iter().filter(|entry| entry.state.is_open()).collect();
    if !open.is_empty() {
        eprintln!("\nOpen, for `buy resume`, `buy cancel` and --abandon:");
        open.iter().for_each(|entry| eprintln!("{}", journal::shown(entry)));
    }
    Ok(0)
}

/// Returns the newest state of each purchase, the oldest purchase first. Text after the last end of line is still
/// being written.
fn read(bytes: &[u8]) -> Result<Vec<JournalEntry>, String> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut entries = BTreeMap::new();
    for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let entry = std::str::from_utf8(line).ok().and_then(|line| JournalEntry::from_record(line.trim_end()).ok());
        let entry = entry.ok_or_else(|| format!("line {} of the journal cannot be read", number + 1))?;
        // Channels have their own table.
        if !entry.is_channel() {
            entries.insert(entry.id, entry);
        }
    }
    let mut entries: Vec<_> = entries.into_values().collect();
    entries.sort_by_key(|entry| (entry.at, entry.id));
    Ok(entries)
}

fn table(entries: &[JournalEntry]) -> String {
    let rows: Vec<[String; 7]> = [HEAD.map(str::to_owned)].into_iter().chain(entries.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns a row of the table. Host and path are the caller's own, but a journal may come from elsewhere.
fn row(entry: &JournalEntry) -> [String; 7] {
    let transaction = transaction(entry).unwrap_or_else(|| "-".to_owned());
    let shown = |amount: Amount| amount.to_decimal(entry.decimals);
    let most = shown(entry.amount);
    let amount = entry.charge().map_or_else(|| most.clone(), |charge| format!("{} of {most}", shown(charge)));
    let amount = token(entry).map_or_else(|| amount.clone(), |token| format!("{amount} {}", named(entry, token)));
    let by = match entry.standard() {
        Some(standard) => format!("{} ({})", entry.paid_by().name(), standard.name()),
        None => entry.paid_by().name().to_owned(),
    };
    let (host, what) = (screen::on_a_line(&entry.host), screen::on_a_line(&entry.request));
    [when::utc(entry.at), host, what, amount, state(entry.state).to_owned(), by, transaction]
}

/// Returns the transaction that paid, or may have paid; `None` if it was never mined.
fn transaction(entry: &JournalEntry) -> Option<String> {
    let transaction = if entry.state == PurchaseState::Void { entry.transaction } else { entry.transaction() };
    transaction.map(|transaction| transaction.to_string())
}

fn token(entry: &JournalEntry) -> Option<Address> {
    entry.token()
}

/// Names USDC by its symbol, other tokens by their address: anyone can choose a symbol.
fn named(entry: &JournalEntry, token: Address) -> String {
    let usdc = Asset::usdc_of(entry.network).filter(|usdc| usdc.contract() == token);
    usdc.map_or_else(|| token.to_string(), |usdc| usdc.symbol().to_owned())
}

const fn state(state: PurchaseState) -> &'static str {
    match state {
        PurchaseState::Paying => "paying",
        PurchaseState::Redeeming => "redeeming",
        PurchaseState::Unspent => "unspent",
        PurchaseState::Answered => "answered",
        PurchaseState::Refused => "refused",
        PurchaseState::Void => "void",
        _ => "other",
    }
}

fn as_json(entry: &JournalEntry) -> Value {
    json!({
        "id": entry.id.to_string(),
        "at": format!("{}Z", when::utc(entry.at).replace(' ', "T")),
        "host": entry.host,
        "request": entry.request,
        "amount": entry.amount.to_decimal(entry.decimals),
        "charged": entry.charge().map(|charge| charge.to_decimal(entry.decimals)),
        "token": token(entry),
        "network": entry.network,
        "recipient": entry.recipient,
        "state": state(entry.state),
        "open": entry.state.is_open(),
        "paidBy": entry.paid_by().name(),
        "standard": entry.standard().map(Standard::name),
        "transaction": transaction(entry),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `buy`: one purchase twice, then another, and an unfinished line.
    const JOURNAL: &str = include_str!("history.jsonl");

    #[test]
    fn each_purchase_is_a_row_in_its_newest_state() {
        let entries = read(JOURNAL.as_bytes()).unwrap();
        let table = table(&entries);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[0].starts_with("WHEN (UTC)           HOST"), "{table}");
        assert!(lines[1].starts_with("2023-11-14 22:13:20  api.example") && lines[1].contains("0.49 USDC"), "{table}");
        assert!(lines[1].contains("answered  transfer"), "{table}");
        assert!(lines[2].contains(r"evil\u001b[2J.example") && lines[2].ends_with("unspent   transfer  -"), "{table}");
    }

    #[test]
    fn a_line_that_is_no_purchase_is_named() {
        let damaged = JOURNAL.replacen("answered", "heard", 1);
        assert_eq!(read(damaged.as_bytes()).unwrap_err(), "line 2 of the journal cannot be read");
        assert!(read(b"").unwrap().is_empty());
    }
}
