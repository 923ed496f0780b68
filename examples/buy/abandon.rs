//! `--unfinished` and `--abandon`: the journal's open purchases.

use tower_x402::client::PayLayer;

use super::{BoxError, args::Buying, journal, purchase, report, requests::Requests};

/// Lists the open purchases, or gives one up; returns the exit code.
pub(crate) async fn run(args: &Buying) -> u8 {
    report::code(act(args).await)
}

async fn act(args: &Buying) -> Result<u8, BoxError> {
    let path = &args.journal.journal;
    let layer = PayLayer::redeem_only().journal(journal::open(path).await?).build().await?;
    let Some(name) = args.abandon else {
        layer.unfinished().iter().for_each(|entry| println!("{}", journal::shown(entry)));
        return Ok(0);
    };
    let entry = journal::named(layer.unfinished(), name)?;
    eprintln!("{}", journal::shown(&entry));
    eprintln!(
        "To abandon it is to forget it: the money may be gone. A transfer that is under way can still be mined, a signed \
         payment can still be used, and the proof of a payment is not presented again. The same request then pays anew."
    );
    if !args.yes {
        eprintln!("Nothing was changed. To go on, add --yes.");
        return Ok(1);
    }
    layer.abandon(name).await?;
    purchase::forget(&Requests::beside(path), &layer);
    eprintln!("Abandoned.");
    Ok(0)
}
