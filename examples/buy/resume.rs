//! `buy resume`: finishes all open purchases of the journal, with the requests that are stored beside it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use tower_x402::client::{
    JournalEntry, Pay, PayError, PayErrorKind, PayLayer, PaymentMethod, PurchaseEvent, PurchaseId, PurchaseProgress,
    ReqwestClient, ResumeOnly,
};

use super::{
    BoxError,
    args::{Reading, Resume},
    journal, means,
    order::Order,
    purchase, report,
    requests::Requests,
    screen, steps,
};

/// How to finish a purchase whose request is not stored: the command has no request of its own for a pass.
const FINISHES: &str =
    "the command that began it, with --resume, finishes it (that of a pass: with --pass and without --resume)";

/// The purchases that were resumed.
type Resumed = Arc<Mutex<BTreeSet<PurchaseId>>>;

/// Finishes what it can; returns the exit code.
pub(crate) async fn run(args: &Resume) -> u8 {
    report::code(act(args).await)
}

async fn act(args: &Resume) -> Result<u8, BoxError> {
    let path = &args.journal.journal;
    let journal = journal::open(path).await?;
    let requests = Requests::beside(path);
    let orders = requests.load()?;
    let resumed = Resumed::default();
    let layer = means::layer(&args.means, journal, &orders).await?;
    let layer = layer.proof_in(args.reading.proof_in()).on_progress(showing(Arc::clone(&resumed))).build().await?;
    let client = purchase::client(&layer)?;
    let mut worst = 0;
    for order in &orders {
        worst = worse(worst, finish(&client, &layer, order, &args.reading).await?);
    }
    purchase::forget(&requests, &layer);
    let taken_up = resumed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let open = layer.unfinished();
    let unknown: Vec<&JournalEntry> = open.iter().filter(|entry| !taken_up.contains(&entry.id)).collect();
    tell(&unknown);
    if taken_up.is_empty() && open.is_empty() {
        eprintln!("Nothing is open.");
    }
    Ok(if open.is_empty() { worst } else { worse(worst, 4) })
}

/// Shows each step, and collects the resumed purchases.
fn showing(resumed: Resumed) -> impl Fn(&PurchaseProgress) {
    move |progress| {
        if let PurchaseEvent::Resumed { purchase, .. } = progress.event {
            resumed.lock().unwrap_or_else(PoisonError::into_inner).insert(purchase);
            eprintln!("{}", screen::on_a_line(&format!("{} at {}", progress.request, progress.host)));
        }
        steps::show(&progress.event);
    }
}

/// Finishes all purchases of one request, one after the other.
async fn finish(
    client: &Pay<ReqwestClient>,
    layer: &PayLayer,
    order: &Order,
    reading: &Reading,
) -> Result<u8, BoxError> {
    let mut worst = 0;
    loop {
        let open = layer.unfinished().len();
        let mut request = order.request()?;
        request.extensions_mut().insert(ResumeOnly);
        let outcome = purchase::buy(client, request, reading).await;
        if matches!(&outcome, Err(error) if error.downcast_ref().is_some_and(|error: &PayError| error.kind() == PayErrorKind::NothingToResume))
        {
            return Ok(worst);
        }
        worst = worse(worst, purchase::say(layer, &outcome, reading).await);
        if layer.unfinished().len() >= open {
            return Ok(worst);
        }
    }
}

/// Returns the more serious exit code: lost money ranks above none.
fn worse(one: u8, other: u8) -> u8 {
    one.max(other)
}

/// Prints purchases that cannot be finished here, and what can be done about them.
fn tell(unknown: &[&JournalEntry]) {
    if unknown.is_empty() {
        return;
    }
    eprintln!("These are open, and their requests are not kept here:");
    for entry in unknown {
        eprintln!("{}", journal::shown(entry));
        match entry.paid_by() {
            PaymentMethod::Authorization => eprintln!(
                "  {FINISHES}; `buy cancel {0} --yes` makes its signed payment void; --abandon {0} gives it up",
                entry.id
            ),
            _ => eprintln!("  {FINISHES}; --abandon {} gives it up", entry.id),
        }
    }
}
