//! The layer's own refusals: what they say, and in what format they reach the client.

use std::{io::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

use crate::{
    ledger::Sale,
    paywall::{
        body::ResponseBody,
        error::HealthError,
        sale::redelivery::{self, Shown},
        seller::{nested, pricing::Refusal},
    },
    protocol::{
        Amount, Media, ProblemCode, RetryRule,
        headers::{
            EXPOSED_LINE, NO_STORE, PAY, PAYMENT_REQUIRED, PAYMENT_RESPONSE, PROBLEM_JSON, X_PRICE_INTENT, X402_ERROR,
        },
        v2::SettleResponse,
    },
};

/// When to ask again where a backend did not answer, or another redemption is under way.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// In seconds: the longest wait that a client is asked for.
const LONGEST_WAIT: u64 = 24 * 60 * 60;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// In what format the layer's own answer reaches the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyFormat {
    Whole,
    /// To HEAD an answer goes without its body.
    Head,
    /// To gRPC it goes in its headers alone, under this content type.
    TrailersOnly(&'static str),
}

impl ReplyFormat {
    pub(crate) fn of(method: &Method, media: Media) -> Self {
        match media {
            _ if *method == Method::HEAD => Self::Head,
            Media::Grpc(content_type) => Self::TrailersOnly(content_type),
            Media::Json | Media::Form | Media::Other => Self::Whole,
        }
    }

    pub(crate) fn apply<ResB>(self, response: &mut Response<ResponseBody<ResB>>, code: ProblemCode) {
        match self {
            Self::Whole => {}
            Self::Head => *response.body_mut() = ResponseBody::default(),
            Self::TrailersOnly(content_type) => {
                *response.status_mut() = StatusCode::OK;
                *response.body_mut() = ResponseBody::default();
                let headers = response.headers_mut();
                headers.remove(header::CONTENT_LENGTH);
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.insert(GRPC_STATUS, HeaderValue::from_static(grpc_status(code)));
                headers.insert(GRPC_MESSAGE, HeaderValue::from_static(code.as_str()));
            }
        }
    }
}

/// UNAVAILABLE, which clients retry by themselves, where asking again is the way; else FAILED_PRECONDITION.
fn grpc_status(code: ProblemCode) -> &'static str {
    if code.retry() == RetryRule::AskAgain { "14" } else { "9" }
}

/// Whether an answer says that it is a failure of gRPC, which is HTTP 200 all the same.
pub(crate) fn is_grpc_failure(headers: &http::HeaderMap) -> bool {
    headers.get_all(GRPC_STATUS).iter().any(|status| status != "0")
}

/// What a refusal says beside its code.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: ProblemCode,
    pub(crate) retry_after: Option<Duration>,
    /// A fresh intent for this very request.
    pub(crate) intent: Option<String>,
    /// What was paid, and what was asked.
    pub(crate) short: Option<(Amount, Amount)>,
    pub(crate) contact: Option<String>,
    /// What the payer signs.
    pub(crate) message: Option<String>,
    /// What became of a signed payment, in the standard's form.
    pub(crate) settlement: Option<Box<SettleResponse>>,
    /// In place of what the code says to do next.
    pub(crate) detail: Option<&'static str>,
}

impl From<ProblemCode> for Problem {
    fn from(code: ProblemCode) -> Self {
        Self {
            code,
            retry_after: None,
            intent: None,
            short: None,
            contact: None,
            message: None,
            settlement: None,
            detail: None,
        }
    }
}

impl From<HealthError> for Problem {
    fn from(error: HealthError) -> Self {
        let code = match error {
            HealthError::Verifier(_) | HealthError::Settler(_) | HealthError::HeadBehindMark { .. } => {
                ProblemCode::VerificationUnavailable
            }
            HealthError::Ledger(_) => ProblemCode::LedgerUnavailable,
        };
        Self::after(code, ASK_AGAIN)
    }
}

impl Problem {
    pub(crate) fn after(code: ProblemCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..code.into() }
    }

    /// For a signed payment where none is taken.
    pub(crate) fn takes_transfers_only() -> Self {
        let detail =
            "This seller takes transfers only: send one as the quote says, and show it in the x402-payment header.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a transfer in the standard's header, where that is not taken there.
    pub(crate) fn takes_no_payment_proofs() -> Self {
        let detail = "This seller takes no proofs of transfers in the PAYMENT-SIGNATURE header: show the transfer in the x402-payment header. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a transfer in the standard's header that is not shown as it must be.
    pub(crate) fn is_no_payment_proof() -> Self {
        let detail = "The payload that shows a transfer has `type` (`payment-proof`) and `txRef` (0x and 64 hexadecimal digits), and may have `paymentSecret` and `paymentSignature`; `accepted` is the entry of PAYMENT-REQUIRED with `extra.assetTransferMethod` `txid`, as it was offered. Do not pay again.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// For a transfer where nothing reads the chain.
    pub(crate) fn takes_signed_only() -> Self {
        let detail =
            "This seller takes signed payments only, in the PAYMENT-SIGNATURE header, as PAYMENT-REQUIRED says.";
        Self { detail: Some(detail), ..ProblemCode::InvalidRedemption.into() }
    }

    /// Asks who redeems to show that it is the payer, by a signature over `message`.
    pub(crate) fn to_prove(code: ProblemCode, message: String) -> Self {
        Self { message: Some(message), ..code.into() }
    }

    /// The body as JSON.
    fn body(&self) -> Vec<u8> {
        let Self { code, short, .. } = self;
        let (title, status, error) = (code.title(), code.status().as_u16(), code.as_str());
        let mut body = Vec::with_capacity(code.detail().len() + 256);
        // Writing to memory cannot fail, and the texts of a code need no escapes.
        let _ = write!(body, r#"{{"title":"{title}","status":{status},"detail":"#);
        let _ = match self.detail {
            None => write!(body, r#""{}""#, code.detail()),
            Some(detail) => serde_json::to_writer(&mut body, detail).map_err(Into::into),
        };
        let _ = write!(body, r#","error":"{error}""#);
        add(&mut body, "intentId", self.intent.as_deref());
        add(&mut body, "paid", short.map(|(paid, _)| paid));
        add(&mut body, "required", short.map(|(_, required)| required));
        add(&mut body, "contact", self.contact.as_deref());
        add(&mut body, "message", self.message.as_deref());
        body.push(b'}');
        body
    }

    pub(crate) fn into_response<ResB>(self, format: ReplyFormat) -> Response<ResponseBody<ResB>> {
        let code = self.code;
        let body = Bytes::from(self.body());
        let mut response = own(code, body);
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if let Some(intent) = self.intent.and_then(|intent| HeaderValue::try_from(intent).ok()) {
            headers.insert(X_PRICE_INTENT, intent);
        }
        if let Some(settlement) = self.settlement {
            headers.insert(PAYMENT_RESPONSE, settlement.to_header());
        }
        format.apply(&mut response, code);
        response
    }
}

/// Why a request is not answered by the handler.
#[derive(Debug)]
pub(crate) enum Rejection {
    Problem(Problem),
    /// The service's own answer to a request that it does not price.
    Refusal(Refusal),
    Fault(Fault),
    /// The answer that was sold for this payment before.
    Replay(Box<Response<Bytes>>),
    /// A signed payment is refused, and certainly not used: a new quote.
    Quoted(Box<Response<Bytes>>),
}

/// The service is put together wrongly: nothing is served or charged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A price of nothing is no price.
    ZeroPrice,
    /// Two layers around one service ask for two payments, and neither honours the other's intents.
    NestedPrice,
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<ProblemCode> for Rejection {
    fn from(code: ProblemCode) -> Self {
        Self::Problem(code.into())
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Rejection {
    /// What became of a request that is answered so, in a word.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Problem(problem) => problem.code.as_str(),
            Self::Refusal(_) => "refused_by_service",
            Self::Fault(_) => "misconfigured",
            Self::Replay(_) => "redelivered",
            Self::Quoted(_) => ProblemCode::AuthorizationRefused.as_str(),
        }
    }

    /// For an intent that bought its answer already: that answer again, if the route still redelivers, and it is kept and was sold
    /// for this payment.
    pub(crate) fn sold_before(sale: Sale, shown: Shown, redelivers: bool) -> Self {
        match sale.answer.filter(|_| redelivers).and_then(|kept| redelivery::read(kept, shown)) {
            Some(answer) => Self::Replay(Box::new(answer)),
            None => ProblemCode::AlreadyConsumed.into(),
        }
    }

    pub(crate) fn into_response<ResB>(self, format: ReplyFormat, resource: &str) -> Response<ResponseBody<ResB>> {
        match self {
            Self::Problem(problem) => {
                tracing::debug!(resource, error = %problem.code, "refused");
                problem.into_response(format)
            }
            Self::Refusal(refusal) => refusal.into_response().map(ResponseBody::whole),
            Self::Fault(fault) => fault.into_response(resource),
            Self::Replay(answer) => {
                tracing::info!(resource, "delivered again");
                answer.map(ResponseBody::whole)
            }
            Self::Quoted(answer) => {
                let mut response = answer.map(ResponseBody::whole);
                format.apply(&mut response, ProblemCode::AuthorizationRefused);
                response
            }
        }
    }
}

impl Fault {
    fn into_response<ResB>(self, resource: &str) -> Response<ResponseBody<ResB>> {
        let mut response = Response::new(ResponseBody::default());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
        match self {
            Self::ZeroPrice => tracing::error!(resource, "the service set a price of zero; answering 500"),
            Self::NestedPrice => {
                tracing::error!(
                    resource,
                    "a price inside a price: another X402Layer is inside or outside this one, or the same one twice; answering 500"
                );
                nested::mark(response.extensions_mut());
            }
        }
        response
    }
}

/// Adds a member to a JSON object that is not closed yet.
fn add(object: &mut Vec<u8>, name: &str, value: Option<impl Serialize>) {
    let Some(value) = value else { return };
    // Writing to memory cannot fail, and strings and numbers are JSON.
    let _ = write!(object, r#","{name}":"#);
    let _ = serde_json::to_writer(object, &value);
}

/// At least one second, rounded up, and at most a day: a longer wait can only be a mistake.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).clamp(1, LONGEST_WAIT)
}

/// A refusal with the headers that all of ours have.
fn own<ResB>(code: ProblemCode, body: Bytes) -> Response<ResponseBody<ResB>> {
    let length = body.len();
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = code.status();
    response.extensions_mut().insert(code);
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_LINE);
    headers.insert(X402_ERROR, HeaderValue::from_static(code.as_str()));
    response
}

/// The handler's answer to a request that shows a proof and is served for free: never a bill, not even the handler's own.
pub(crate) fn without_bill<ResB>(
    mut answer: Response<ResponseBody<ResB>>,
    format: ReplyFormat,
) -> Response<ResponseBody<ResB>> {
    if answer.status() == StatusCode::PAYMENT_REQUIRED {
        return Problem::from(ProblemCode::UpstreamPaymentRequired).into_response(format);
    }
    answer.headers_mut().remove(PAY);
    answer.headers_mut().remove(PAYMENT_REQUIRED);
    answer
}
