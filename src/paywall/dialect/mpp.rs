//! MPP: asks for a payment, reads one, and reports its outcome.

use http::{HeaderMap, HeaderValue, Response, header};

use crate::{
    paywall::{body::ResponseBody, seller::inner::MerchantInner},
    protocol::{
        IntentId, IntentTerms, InvalidRedemption, ProblemCode, Proof, Redemption, RenderedQuote,
        headers::{PAYMENT_RECEIPT, expose_line},
        mpp::{Asked, Challenge, Credential, CredentialPayload, problem_type, receipt},
        v2::SettleResponse,
        with_type,
    },
};

/// Returns the proof in a request's headers, in any format that the merchant reads.
///
/// # Errors
/// If there are several, or one that cannot be read.
pub(crate) fn proof_in(merchant: &MerchantInner, headers: &HeaderMap) -> Result<Option<Proof>, InvalidRedemption> {
    let proof = Proof::from_headers(headers)?;
    let Some(mpp) = &merchant.mpp else { return Ok(proof) };
    match (proof, Credential::from_headers(headers, &mpp.header())?) {
        (Some(_), Some(_)) => Err(InvalidRedemption),
        (None, Some(credential)) => Ok(Some(Proof::Mpp(Box::new(credential)))),
        (proof, None) => Ok(proof),
    }
}

/// Adds the challenges for a quote of these terms.
pub(crate) fn ask_for_credential(
    quote: &mut RenderedQuote,
    challenges: &[Challenge],
    terms: &IntentTerms,
    code: ProblemCode,
) {
    if challenges.is_empty() {
        return;
    }
    let intent = String::from_utf8_lossy(quote.intent()).into_owned();
    for challenge in challenges {
        let value = challenge.value(&intent, terms.amount, terms.expiry());
        quote.headers.append(header::WWW_AUTHENTICATE, value);
    }
    expose_line(&mut quote.headers, HeaderValue::from_static("WWW-Authenticate"));
    if let Some(uri) = problem_type(code) {
        quote.set_type(uri);
    }
}

/// Returns the transfer that a credential shows, if it shows one.
pub(crate) fn redemption(credential: &Credential) -> Option<Redemption> {
    let CredentialPayload::Hash(transaction) = credential.payload else { return None };
    let network = Asked::read(&credential.challenge.request)?.network;
    Some(Redemption::new(credential.challenge.id.clone(), transaction).on(network))
}

/// Reports the outcome to a client of MPP in its format: a receipt beside `PAYMENT-RESPONSE`, or the type of the problem.
pub(crate) fn tell_outcome<B>(answer: &mut Response<ResponseBody<B>>, intent: &IntentId, now: u64) {
    match answer.extensions().get::<ProblemCode>() {
        Some(code) => name_problem(*code, answer),
        None => add_receipt(answer, intent, now),
    }
}

/// Adds a receipt. A refusal has none, even if the payment was made.
fn add_receipt<B>(answer: &mut Response<B>, intent: &IntentId, now: u64) {
    let failed = answer.status().is_client_error() || answer.status().is_server_error();
    let Ok(Some(settled)) = SettleResponse::from_headers(answer.headers()) else { return };
    if let Some(receipt) = receipt(&settled, intent, now).filter(|_| !failed) {
        answer.headers_mut().insert(PAYMENT_RECEIPT, receipt);
        expose_line(answer.headers_mut(), HeaderValue::from_static("Payment-Receipt"));
    }
}

fn name_problem<B>(code: ProblemCode, answer: &mut Response<ResponseBody<B>>) {
    let body = answer.body().as_whole().filter(|body| body.starts_with(br#"{"title""#));
    let Some(typed) = body.zip(problem_type(code)).map(|(body, uri)| with_type(body, uri)) else { return };
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(typed.len()));
    *answer.body_mut() = ResponseBody::whole(typed);
}
