//! Buys one answer, and reports the outcome.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::client::{
    AlreadyPaid, AskAgain, Body, BodyError, Deadline, FileJournal, JournalEntry, Pay, PayError, PayLayer, Purchase,
    PurchaseId, PurchaseProgress, PurchaseState, ReqwestClient, ResumeOnly,
};

use super::{
    BoxError,
    answer::{self, End},
    args::{Buying, Reading},
    means,
    order::Order,
    passes,
    report::{self, Bought, Torn},
    requests::Requests,
    screen::Output,
    steps,
};

const UNWRITTEN: &str = "the answer could not be written to standard output";

/// Buys what the arguments name; returns the exit code.
pub(crate) async fn run(args: &Buying, order: &Order) -> u8 {
    match buy_one(args, order).await {
        Ok(code) => code,
        Err(error) => complain(&error, &args.reading, false),
    }
}

async fn buy_one(args: &Buying, order: &Order) -> Result<u8, BoxError> {
    let mut request = order.request()?;
    if let Some(transaction) = args.paid {
        request.extensions_mut().insert(AlreadyPaid(transaction));
        let layer = PayLayer::redeem_only().on_event(steps::show).proof_in(args.reading.proof_in()).build().await?;
        let outcome = buy(&client(&layer)?, request, &args.reading).await;
        return Ok(match &outcome {
            Ok(_) => say(&layer, &outcome, &args.reading).await,
            Err(error) => complain(error, &args.reading, true),
        });
    }
    let journal = FileJournal::open(&args.journal.journal).await?;
    let begun = Begun::default();
    let layer = means::layer(&args.means, journal, [order]).await?.on_progress(noting(Arc::clone(&begun)));
    let layer = layer.proof_in(args.reading.proof_in()).build().await?;
    let requests = Requests::beside(&args.journal.journal);
    requests.keep(order).map_err(unkept)?;
    if args.resume {
        request.extensions_mut().insert(ResumeOnly);
    }
    if let Some(purchase) = args.again {
        request.extensions_mut().insert(AskAgain(purchase));
    }
    let mut open_pass = false;
    let outcome = match &args.pass {
        Some(name) => {
            let passes = passes::layer(&args.journal.journal, name)?;
            let outcome = buy(&passes.layer(client(&layer)?), request, &args.reading).await;
            passes::acknowledge(&passes, &layer).await;
            let begun = begun.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_of_pass = |entry: &JournalEntry| begun.contains(&entry.id) && entry.request != order.name();
            let open = layer.unfinished().into_iter().find(is_of_pass).map(|entry| entry.id);
            passes::remark(&passes, name, open);
            open_pass = open.is_some();
            outcome
        }
        None => buy(&client(&layer)?, request, &args.reading).await,
    };
    let code = say(&layer, &outcome, &args.reading).await;
    forget(&requests, &layer);
    Ok(if open_pass { code.max(4) } else { code })
}

/// The purchases that this command handles: its own, and that of a pass for it.
type Begun = Arc<Mutex<BTreeSet<PurchaseId>>>;

/// Shows each step, and collects the purchases.
fn noting(begun: Begun) -> impl Fn(&PurchaseProgress) {
    move |progress| {
        begun.lock().unwrap_or_else(PoisonError::into_inner).insert(progress.purchase);
        steps::show(&progress.event);
    }
}

fn unkept(error: io::Error) -> String {
    format!("cannot write the request down beside the journal, so it is not sent: {}", error.kind())
}

/// Returns the client of a layer.
pub(crate) fn client(layer: &PayLayer) -> Result<Pay<ReqwestClient>, BoxError> {
    Ok(layer.layer(ReqwestClient::new(reqwest::Client::builder())?))
}

/// Buys one answer and reads it. It is written as it arrives, unless it becomes part of a JSON document.
pub(crate) async fn buy<S, R, E>(client: &S, mut request: Request<Body>, reading: &Reading) -> Result<Bought, BoxError>
where
    S: Service<Request<Body>, Response = Response<R>, Error = PayError> + Clone,
    R: http_body::Body<Data = Bytes, Error = BodyError<E>>,
{
    // Without a journal, the next command would have another intent.
    let is_paid_by_hand = request.extensions().get::<AlreadyPaid>().is_some();
    request.extensions_mut().insert(Deadline(Duration::from_secs(reading.timeout)));
    let response = client.clone().oneshot(request).await?;
    let (parts, body) = response.into_parts();
    let purchase = parts.extensions.get::<Purchase>().cloned();
    let mut output = Output::new();
    let write = |piece: &[u8]| if reading.json { Ok(()) } else { output.write(piece) };
    let (answer, end) = answer::read(body, reading.max_answer, write).await;
    let why = match end {
        End::Whole => return Ok(Bought { status: parts.status, purchase, answer }),
        End::TooLong => "the answer is longer than --max-answer",
        End::BrokeOff(BodyError::TimedOut) => "the answer took longer than --timeout",
        End::BrokeOff(_) => "the answer broke off",
        End::Unwritten => UNWRITTEN,
    };
    let is_kept = purchase.is_some() && !is_paid_by_hand;
    Err(Torn { why, purchase, part: answer, is_kept }.into())
}

/// Deletes stored requests without an open purchase. If that fails, the next command does it.
pub(crate) fn forget(requests: &Requests, layer: &PayLayer) {
    let open = layer.unfinished();
    let _ = requests.retain(|order| open.iter().any(|entry| entry.request == order.name()));
}

/// Reports the outcome, and closes the purchase once its answer is written; returns the exit code.
pub(crate) async fn say(layer: &PayLayer, outcome: &Result<Bought, BoxError>, reading: &Reading) -> u8 {
    let bought = match outcome {
        Ok(bought) => bought,
        Err(error) => return complain(error, reading, false),
    };
    bought.remark();
    let sold = bought.purchase.as_ref().filter(|purchase| purchase.state == PurchaseState::Answered);
    if Output::new().write(&bought.shown(reading.json)).is_err() {
        eprintln!("error: {UNWRITTEN}");
        return if sold.is_some() { 4 } else { 1 };
    }
    if let Some(purchase) = sold
        && let Err(error) = layer.acknowledge(purchase.id).await
    {
        eprintln!("The journal did not record that the answer is here, so the same command asks for it again: {error}");
    }
    bought.code()
}

/// Reports a failure; returns the exit code.
fn complain(error: &BoxError, reading: &Reading, by_hand: bool) -> u8 {
    // The reader may have closed the pipe.
    let _ = Output::new().write(&report::complaint(error, reading.json, by_hand));
    report::failure(error)
}
