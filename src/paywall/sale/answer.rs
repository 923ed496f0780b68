//! `Answer`: an answer to sell. Its body is read to the end if the route keeps answers or lets the body decide about the sale.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header, response::Parts};
use http_body::Body;
use tokio::time::Instant;

use crate::{
    paywall::{
        body::ResponseBody,
        refusal::{ASK_AGAIN, Problem},
        sale::{
            charge::Said,
            ending::Ending,
            holder::Holder,
            read_ahead::{Read, ReadAhead},
            upkeep::HoldOutcome,
        },
        seller::{consumption::BodyRule, redelivery::Redelivery, route::Route},
    },
    protocol::ProblemCode,
};

/// How long reading an answer to keep may take. A slower answer is sold without being kept, so that the payer does not wait.
const READ_AHEAD: Duration = Duration::from_secs(10);

/// An answer whose head allows the sale.
pub(crate) struct Candidate<ResB> {
    pub(crate) response: Response<ResB>,
    /// The charge that the handler set.
    pub(crate) said: Said,
    /// Whether the route's rule about bodies still has to decide.
    pub(crate) asks_body: bool,
}

/// An answer to sell.
pub(crate) struct Answer<ResB> {
    pub(crate) response: Response<ResponseBody<ResB>>,
    /// The charge that the handler set.
    pub(crate) said: Said,
    /// The body to keep, and how.
    pub(crate) kept: Option<(Redelivery, Bytes)>,
}

/// How an answer is read.
struct Plan<'a> {
    rule: Option<&'a BodyRule>,
    redelivery: Option<Redelivery>,
    limit: usize,
    patience: Duration,
}

impl<'a> Plan<'a> {
    /// Returns `None` where nothing depends on the body. With a rule about bodies, `hold_end` bounds the wait.
    fn of<ResB>(
        candidate: &Candidate<ResB>,
        route: &'a Route,
        holder: Holder<'_>,
        hold_end: Option<Instant>,
    ) -> Option<Self> {
        let Candidate { response, asks_body, .. } = candidate;
        let rule = route.consumes_body.as_ref().filter(|_| *asks_body);
        // The bytes after a switch of protocols are no answer. A stream is kept only where it is read to its end anyway.
        let keeps = response.status() != StatusCode::SWITCHING_PROTOCOLS && (rule.is_some() || !is_stream(response));
        // A pass has no intent to keep it under.
        let redelivery = route.redelivery().filter(|_| keeps && holder.is_payment());
        let max_hold = route.merchant.max_hold;
        let (limit, patience) = match (rule, redelivery) {
            (Some(_), _) => {
                (route.answer_limit, hold_end.map_or(max_hold, |end| end.saturating_duration_since(Instant::now())))
            }
            (None, Some(redelivery)) => (redelivery.limit(), READ_AHEAD.min(max_hold)),
            (None, None) => return None,
        };
        Some(Self { rule, redelivery, limit, patience })
    }
}

/// Reads a candidate as far as its sale or its redelivery requires, while the lease is held.
pub(crate) async fn read<ResB, E>(
    ending: Ending<Candidate<ResB>, ResB, E>,
    route: &Route,
    holder: Holder<'_>,
    hold_end: Option<Instant>,
) -> Ending<Answer<ResB>, ResB, E>
where
    ResB: Body<Data = Bytes>,
{
    let candidate = match ending.split() {
        Ok(candidate) => candidate,
        Err(ending) => return ending,
    };
    let said = candidate.said;
    let Some(Plan { rule, redelivery, limit, patience }) = Plan::of(&candidate, route, holder, hold_end) else {
        return Ending::Sale(Answer { response: candidate.response.map(ResponseBody::streaming), said, kept: None });
    };
    let (parts, body) = candidate.response.into_parts();
    let mut ahead = ReadAhead::new(body, limit);
    match holder.keep(patience, None, pin!(ahead.read())).await {
        HoldOutcome::LeaseLost => return Ending::LeaseLost,
        HoldOutcome::HeldTooLong if rule.is_some() => return Ending::NoSale(Err(ProblemCode::AnswerTimeout.into())),
        HoldOutcome::Finished(()) | HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => {}
    }
    let (body, kept) = match ahead.finish() {
        Read::Whole(data, trailers) if has_its_length(&parts, &data) => {
            if rule.is_some_and(|rule| !rule.sells(&parts, &data)) {
                tracing::debug!(payment = %holder, "not sold, by its body");
                return Ending::NoSale(Ok(Response::from_parts(parts, ResponseBody::whole_with(data, trailers))));
            }
            let fits = |redelivery: &Redelivery| trailers.is_none() && data.len() <= redelivery.limit();
            let kept = redelivery.filter(fits).map(|redelivery| (redelivery, data.clone()));
            (ResponseBody::whole_with(data, trailers), kept)
        }
        Read::Part(_) if rule.is_some() => {
            tracing::error!(
                resource = &*route.resource,
                limit,
                "the answer is larger than `answer_limit`, so that `consume_when_body` cannot decide about it; it is withheld, and nothing is taken"
            );
            return Ending::NoSale(Err(ProblemCode::AnswerTooLarge.into()));
        }
        Read::Part(body) => (body, None),
        Read::Whole(..) | Read::Broken => {
            tracing::warn!(resource = &*route.resource, "the answer broke off before it was sold; nothing is taken");
            return Ending::NoSale(Err(Problem::after(ProblemCode::AnswerBroken, ASK_AGAIN).into()));
        }
    };
    Ending::Sale(Answer { response: Response::from_parts(parts, body), said, kept })
}

/// Returns whether an answer is a stream by its content type. A stream is neither kept nor read ahead: it may take long, or end in
/// trailers.
fn is_stream<B>(response: &Response<B>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let begins =
        |name: &str| content_type.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()));
    begins("application/grpc") || begins("text/event-stream")
}

/// Returns whether a body has the length that its head announces. If it has not, no client could ever receive it, however often it is
/// delivered.
fn has_its_length(head: &Parts, body: &Bytes) -> bool {
    let announced = head.headers.get(header::CONTENT_LENGTH);
    let announced = announced.map(|length| length.to_str().ok().and_then(|length| length.parse().ok()));
    // A 304 announces the length of a body that it does not send.
    announced.is_none_or(|length| length == Some(body.len())) || head.status == StatusCode::NOT_MODIFIED
}
