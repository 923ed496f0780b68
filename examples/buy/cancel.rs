//! `buy cancel`: voids the signed payment of an open purchase.

use tower_x402::client::{PaymentMethod, PurchaseState};

use super::{BoxError, args::Cancel, journal, means, purchase, report, requests::Requests, steps, when};

/// Cancels a purchase; returns the exit code.
pub(crate) async fn run(args: &Cancel) -> u8 {
    report::code(act(args).await)
}

async fn act(args: &Cancel) -> Result<u8, BoxError> {
    let path = &args.journal.journal;
    let journal = journal::open(path).await?;
    let layer = means::layer(&args.means, journal, []).await?.on_event(steps::show).build().await?;
    let entry = journal::named(layer.unfinished(), args.purchase)?;
    eprintln!("{}", journal::shown(&entry));
    match entry.paid_by() {
        PaymentMethod::Authorization => {}
        PaymentMethod::Permit => {
            let end = when::utc(entry.expiry);
            return Err(
                format!("it is paid by a permit, which is not cancelled: it ends by itself at {end} UTC").into()
            );
        }
        PaymentMethod::Channel => {
            return Err("it is paid by a channel: `buy resume` finishes the purchase, and --abandon gives it up".into());
        }
        _ => {
            return Err(
                "it is paid by a transfer, which cannot be cancelled: `buy resume` finishes the purchase".into()
            );
        }
    }
    eprintln!(
        "The seller can use the signed payment until {} UTC. To cancel it costs the account gas, and the same request \
         then pays anew. If the seller is quicker, it is paid, and `buy resume` asks for the answer.",
        when::utc(entry.expiry)
    );
    if !args.yes {
        eprintln!("Nothing was changed. To go on, add --yes.");
        return Ok(1);
    }
    eprintln!("Cancelling, and waiting until the chain will not change its mind: a dozen blocks.");
    let state = layer.cancel(args.purchase).await?;
    purchase::forget(&Requests::beside(path), &layer);
    match state {
        Some(PurchaseState::Void) => {
            eprintln!("Cancelled: nothing was paid, and the signed payment is void.");
            Ok(0)
        }
        Some(_) => {
            eprintln!("It was used before: it is paid. `buy resume` asks for the answer.");
            Ok(4)
        }
        None => Err("there is nothing to cancel: it is known by which transaction it was paid; `buy resume` asks for the answer".into()),
    }
}
