//! `--unfinished` and `--abandon`: purchases that the journal has open.

use tower_x402::client::{FileJournal, JournalEntry, PayLayer};

use super::{BoxError, args::Args, screen};

/// Shows what is open, or gives one purchase up; returns the exit code.
pub(crate) async fn run(args: &Args) -> u8 {
    match act(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", screen::on_a_line(&error.to_string()));
            1
        }
    }
}

async fn act(args: &Args) -> Result<u8, BoxError> {
    if !args.journal.exists() {
        return Err(format!("there is no journal {}: name the right one with --journal", args.journal.display()).into());
    }
    let layer = PayLayer::redeem_only().journal(FileJournal::open(&args.journal).await?).build().await?;
    let Some(purchase) = args.abandon else {
        layer.unfinished().iter().for_each(|entry| println!("{}", shown(entry)));
        return Ok(0);
    };
    let Some(entry) = layer.unfinished().into_iter().find(|entry| entry.id == purchase) else {
        return Err("the journal has no open purchase of this name: --unfinished shows those it has".into());
    };
    eprintln!("{}", shown(&entry));
    eprintln!(
        "To abandon it is to forget it: the money may be gone. A transfer that is under way can still be mined, and the \
         proof of a payment is not presented again. The same request then pays anew."
    );
    if !args.yes {
        eprintln!("Nothing was changed. To go on, add --yes.");
        return Ok(1);
    }
    layer.abandon(purchase).await?;
    eprintln!("Abandoned.");
    Ok(0)
}

/// A purchase on one line. Host and path are the caller's own, but a journal may come from elsewhere.
fn shown(entry: &JournalEntry) -> String {
    let amount = entry.amount.to_decimal(entry.decimals);
    let transaction =
        entry.transaction().map_or("no transaction yet".to_owned(), |transaction| transaction.to_string());
    let line = format!("{}  {amount} for {} at {}  {transaction}", entry.id, entry.request, entry.host);
    screen::on_a_line(&line)
}
