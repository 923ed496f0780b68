//! The existing journal: reading must not create one.

use std::path::Path;

use tower_x402::client::{FileJournal, JournalEntry, PaymentMethod, PurchaseId};

use super::{BoxError, screen};

/// Opens the journal.
pub(crate) async fn open(path: &Path) -> Result<FileJournal, BoxError> {
    exists(path)?;
    Ok(FileJournal::open(path).await?)
}

/// Checks that the journal exists.
///
/// # Errors
/// Fails with a sentence that says how to name another one.
pub(crate) fn exists(path: &Path) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    Err(format!("there is no journal {}: name the right one with --journal", path.display()))
}

/// Finds an open purchase.
pub(crate) fn named(open: Vec<JournalEntry>, purchase: PurchaseId) -> Result<JournalEntry, &'static str> {
    let entry = open.into_iter().find(|entry| entry.id == purchase);
    entry.ok_or("the journal has no open purchase of this name: --unfinished shows those it has")
}

/// Returns a purchase on one line. Host and path are the caller's own, but a journal may come from elsewhere.
pub(crate) fn shown(entry: &JournalEntry) -> String {
    let amount = entry.amount.to_decimal(entry.decimals);
    let by = match (entry.transaction(), entry.paid_by()) {
        (Some(transaction), _) => transaction.to_string(),
        (None, PaymentMethod::Authorization) => "by authorization, no transaction known".to_owned(),
        (None, PaymentMethod::Channel) => "by a channel".to_owned(),
        (None, PaymentMethod::Permit) => "by permit, no transaction known".to_owned(),
        (None, _) => "no transaction yet".to_owned(),
    };
    screen::on_a_line(&format!("{}  {amount} for {} at {}  {by}", entry.id, entry.request, entry.host))
}
