//! One answer is bought, and what came of it is said.

use std::io::{self, IsTerminal as _, Write as _};

use http::Request;
use tower::{Layer as _, ServiceExt as _};
use tower_x402::client::{AlreadyPaid, Body, FileJournal, Pay, PayLayer, Purchase, ReqwestClient, ResumeOnly};

use super::{
    BoxError,
    answer::{self, End},
    args::{Buying, Reading},
    means,
    order::Order,
    report::{self, Bought, Torn},
    requests::Requests,
    screen, steps,
};

/// Buys what the arguments say; gives the exit code.
pub(crate) async fn run(args: &Buying, order: &Order) -> u8 {
    let outcome = buy_one(args, order).await;
    say(&outcome, &args.reading)
}

async fn buy_one(args: &Buying, order: &Order) -> Result<Bought, BoxError> {
    let mut request = order.request()?;
    if let Some(transaction) = args.paid {
        request.extensions_mut().insert(AlreadyPaid(transaction));
        let layer = PayLayer::redeem_only().on_event(steps::show).proof_in(args.reading.proof_in()).build().await?;
        return buy(&client(&layer)?, request, args.reading.max_answer).await;
    }
    let journal = FileJournal::open(&args.journal.journal).await?;
    let layer = means::layer(&args.means, journal, [order]).await?.on_event(steps::show);
    let layer = layer.proof_in(args.reading.proof_in()).build().await?;
    let requests = Requests::beside(&args.journal.journal);
    requests.keep(order).map_err(unkept)?;
    if args.resume {
        request.extensions_mut().insert(ResumeOnly);
    }
    let outcome = buy(&client(&layer)?, request, args.reading.max_answer).await;
    forget(&requests, &layer);
    outcome
}

fn unkept(error: io::Error) -> String {
    format!("cannot write the request down beside the journal, so it is not sent: {}", error.kind())
}

/// The client of a layer.
pub(crate) fn client(layer: &PayLayer) -> Result<Pay<ReqwestClient>, BoxError> {
    Ok(layer.layer(ReqwestClient::new(reqwest::Client::builder())?))
}

/// Buys one answer, and reads it.
pub(crate) async fn buy(
    client: &Pay<ReqwestClient>,
    request: Request<Body>,
    max_answer: usize,
) -> Result<Bought, BoxError> {
    let response = client.clone().oneshot(request).await?;
    let (parts, body) = response.into_parts();
    let purchase = parts.extensions.get::<Purchase>().cloned();
    let (answer, end) = answer::read(body, max_answer).await;
    let why = match end {
        End::Whole => return Ok(Bought { status: parts.status, purchase, answer }),
        End::TooLong => "the answer is longer than --max-answer",
        End::BrokeOff(_) => "the answer broke off",
    };
    Err(Torn { why, purchase, part: answer }.into())
}

/// Forgets requests of which nothing is open. What cannot be forgotten now is, next time.
pub(crate) fn forget(requests: &Requests, layer: &PayLayer) {
    let open = layer.unfinished();
    let _ = requests.retain(|order| open.iter().any(|entry| entry.request == order.name()));
}

/// Says what came of it; gives the exit code.
pub(crate) fn say(outcome: &Result<Bought, BoxError>, reading: &Reading) -> u8 {
    let (code, said) = match outcome {
        Ok(bought) => {
            bought.remark();
            (bought.code(), bought.shown(reading.json))
        }
        Err(error) => (report::failure(error), report::complaint(error, reading.json)),
    };
    // The reader may be gone.
    let _ = write(io::stdout(), &said);
    code
}

/// To a terminal, which a seller is not to steer, as text; to anything else as it came.
fn write(mut to: io::Stdout, said: &[u8]) -> io::Result<()> {
    if to.is_terminal() {
        to.write_all(screen::visible(&String::from_utf8_lossy(said)).as_bytes())
    } else {
        to.write_all(said)
    }
}
