//! The seller's reply to a proof of payment. Everything is pure, except reading a refusal's body.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, response::Parts};
use http_body::Body;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    client::{ResponseBody, http::Peek},
    protocol::{
        Amount, IntentId, Media, ProblemCode, RetryRule, TxHash, decode_base64,
        headers::{PAYMENT_RECEIPT, PAYMENT_REQUIRED, PAYMENT_RESPONSE, X_PAYMENT_RESPONSE, X_PRICE_INTENT},
        v2::Reason,
    },
};

/// The longest refusal that is read. Refusals of this protocol have a few hundred bytes.
const REFUSAL_MAX: usize = 16 * 1024;

/// The seller's reply to a proof of payment, as the next step.
#[derive(Debug)]
pub(crate) enum SellerReply {
    /// This is the answer.
    Sold,
    /// Show the same payment with this intent.
    Fresh(IntentId),
    /// The seller does not see the transaction yet.
    NotConfirmed(Option<Duration>),
    /// Show the same proof later.
    Later(Option<ProblemCode>, Option<Duration>),
    /// Show the proof in the header instead of the body.
    Elsewhere,
    /// The seller refuses the payment for good.
    Refused(ProblemCode),
    /// The seller demands a proof by the payer, or rejects the proof.
    Unproven(ProblemCode),
    /// The seller's payment layer rejects the request in this form.
    Misunderstood,
    /// A bill for a paid request.
    Billed,
    /// The seller redirects to another address.
    Redirected,
    /// The server failed, without saying what that means for the payment.
    Failed,
    /// The service itself answered, without taking the payment.
    Declined,
}

/// Judges the reply to a proof by its head, and by the code of its body if it is a refusal.
pub(crate) fn judge(status: StatusCode, headers: &HeaderMap, code: Option<ProblemCode>) -> SellerReply {
    if is_sold(status, headers) {
        return SellerReply::Sold;
    }
    let after = retry_after(headers);
    match code {
        Some(ProblemCode::PaymentRequired) => return SellerReply::Billed,
        Some(ProblemCode::TxNotConfirmed) => return SellerReply::NotConfirmed(after),
        Some(ProblemCode::BodyTooLarge | ProblemCode::UnsupportedEncoding) => return SellerReply::Elsewhere,
        Some(code) => match code.retry() {
            // These close the payment, so the status must match the contract's: a service may use the same code for
            // itself.
            RetryRule::Investigate if status == code.status() => return SellerReply::Refused(code),
            RetryRule::ProvePayer if status == code.status() => return SellerReply::Unproven(code),
            RetryRule::Investigate | RetryRule::ProvePayer => {}
            RetryRule::AskAgain => return SellerReply::Later(Some(code), after),
            RetryRule::RedeemWithFreshIntent => {}
            _ => return SellerReply::Misunderstood,
        },
        None => {}
    }
    if let Some(intent) = fresh_intent(status, headers) {
        return SellerReply::Fresh(intent);
    }
    match (status, after) {
        (StatusCode::PAYMENT_REQUIRED, _) => SellerReply::Billed,
        (status, _) if status.is_redirection() && status != StatusCode::NOT_MODIFIED => SellerReply::Redirected,
        (status, Some(after)) if is_passing(status) => SellerReply::Later(None, Some(after)),
        (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS, None) => SellerReply::Failed,
        (status, None) if status.is_server_error() => SellerReply::Failed,
        _ if code.is_some_and(|code| code.retry() != RetryRule::Investigate) => SellerReply::Misunderstood,
        _ => SellerReply::Declined,
    }
}

/// Returns whether an answer consumed the payment. Only such answers carry `PAYMENT-RESPONSE`, or in MPP a success with
/// `Payment-Receipt`. At other servers `PAYMENT-RESPONSE` also accompanies failed payments.
fn is_sold(status: StatusCode, headers: &HeaderMap) -> bool {
    let failed = || taken(headers).is_some_and(|taken| taken.success == Some(false));
    let tells = headers.contains_key(PAYMENT_RESPONSE)
        || headers.contains_key(X_PAYMENT_RESPONSE)
        || (headers.contains_key(PAYMENT_RECEIPT) && status.is_success());
    tells && status != StatusCode::PAYMENT_REQUIRED && !failed()
}

/// Returns whether the answer confirms that the seller took this transaction.
pub(crate) fn confirms(answer: &Parts, transaction: TxHash) -> bool {
    confirmation(answer).is_some_and(|taken| taken.transaction == Some(transaction))
}

/// Returns whether the answer confirms that the seller took the payment.
pub(crate) fn claims_success(answer: &Parts) -> bool {
    confirmation(answer).is_some()
}

/// Returns the transaction that settled an authorization, according to the seller.
pub(crate) fn settled_by(answer: &Parts) -> Option<TxHash> {
    confirmation(answer)?.transaction.filter(|transaction| !transaction.is_zero())
}

/// Returns the seller's confirmation, only from a sold answer: elsewhere it would make an unused payment look used.
fn confirmation(answer: &Parts) -> Option<Taken> {
    taken(&answer.headers).filter(|taken| is_sold(answer.status, &answer.headers) && taken.success == Some(true))
}

/// The seller's statement of what it charged of a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatedCharge {
    Amount(Amount),
    /// The seller names no amount.
    Nothing,
    /// The statement is not an amount.
    Unreadable,
}

/// Returns the charge that the seller states. Only x402 version 2 has one.
pub(crate) fn stated_charge(headers: &HeaderMap) -> StatedCharge {
    #[derive(Deserialize)]
    struct Stated {
        amount: Option<Value>,
    }
    let mut told = headers.get_all(PAYMENT_RESPONSE).iter();
    let (Some(first), None) = (told.next(), told.next()) else {
        return if headers.contains_key(PAYMENT_RESPONSE) { StatedCharge::Unreadable } else { StatedCharge::Nothing };
    };
    let stated = decode_base64(first.as_bytes()).and_then(|json| serde_json::from_slice::<Stated>(&json).ok());
    match stated {
        Some(Stated { amount: None }) => StatedCharge::Nothing,
        Some(Stated { amount: Some(amount) }) => {
            serde_json::from_value(amount).map_or(StatedCharge::Unreadable, StatedCharge::Amount)
        }
        None => StatedCharge::Unreadable,
    }
}

/// Returns the seller's reason for refusing an authorization, if it has the standard's form.
pub(crate) fn refusal(headers: &HeaderMap) -> Option<Reason> {
    let told = taken(headers).and_then(|taken| taken.error_reason?.parse().ok());
    told.or_else(|| {
        let json = decode_base64(headers.get(PAYMENT_REQUIRED)?.as_bytes())?;
        serde_json::from_slice::<Refusal>(&json).ok()?.error?.parse().ok()
    })
}

#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    success: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    transaction: Option<TxHash>,
    error_reason: Option<String>,
}

/// Reads a hash leniently: for a failed payment the transaction's text may be empty.
fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TxHash>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

fn taken(headers: &HeaderMap) -> Option<Taken> {
    let read = |told: &HeaderValue| serde_json::from_slice(&decode_base64(told.as_bytes())?).ok();
    match headers.get(PAYMENT_RESPONSE).or_else(|| headers.get(X_PAYMENT_RESPONSE)) {
        Some(told) => read(told),
        None => receipt(headers),
    }
}

/// Reads the same from a receipt of MPP.
fn receipt(headers: &HeaderMap) -> Option<Taken> {
    #[derive(Deserialize)]
    struct Receipt {
        status: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        reference: Option<TxHash>,
    }
    let Receipt { status, reference } =
        serde_json::from_slice(&decode_base64(headers.get(PAYMENT_RECEIPT)?.as_bytes())?).ok()?;
    let success = status.map(|status| status == "success");
    Some(Taken { success, transaction: reference, error_reason: None })
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::CONFLICT | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// Returns a fresh intent. Only these three statuses carry one; elsewhere the header means nothing.
fn fresh_intent(status: StatusCode, headers: &HeaderMap) -> Option<IntentId> {
    let carries = matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE);
    let mut values = headers.get_all(X_PRICE_INTENT).iter();
    let intent = values.next().filter(|_| carries)?;
    if values.next().is_some() {
        return None;
    }
    IntentId::new(intent.to_str().ok()?).ok()
}

/// Returns `Retry-After` in seconds. A date is ignored, because the seller's clock may differ.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Reads a refusal's code, and leaves the response as it was.
///
/// # Errors
/// The body's error: the caller then treats it as if no response had come.
pub(crate) async fn read<B>(response: Response<B>) -> Result<(Parts, Option<ProblemCode>, ResponseBody<B>), B::Error>
where
    B: Body<Data = Bytes>,
{
    let (parts, body) = response.into_parts();
    if parts.status.is_success() || is_sold(parts.status, &parts.headers) || Media::of(&parts.headers) != Media::Json {
        return Ok((parts, None, ResponseBody::untouched(body)));
    }
    let mut beginning = Peek::of(body);
    beginning.read(REFUSAL_MAX).await?;
    let code = beginning.whole().and_then(code);
    Ok((parts, code, beginning.into_body()))
}

fn code(body: &[u8]) -> Option<ProblemCode> {
    #[derive(Deserialize)]
    struct Problem<'a> {
        #[serde(borrow)]
        error: std::borrow::Cow<'a, str>,
    }
    let problem: Problem<'_> = serde_json::from_slice(body).ok()?;
    problem.error.parse().ok()
}
