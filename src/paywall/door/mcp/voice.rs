//! `Voice`: the layer's own answers to a call, in the format that its client understands.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use serde_json::{Value, json};

use super::message::Refusal;
use crate::{
    metrics,
    paywall::{
        dialect::quote::Bill,
        door::refuse::whole_seconds,
        priced_request::PricedRequest,
        refusal::{Fault, MADE, Problem, RefusedPayment, Rejection, Requote},
        seller::{pricing::Tariff, route::Route},
        way::offers,
    },
    protocol::{
        IntentId, IntentTerms, Origin, ProblemCode, ResourceUrl, decode_base64,
        headers::{NO_STORE, PAYMENT_REQUIRED, PAYMENT_RESPONSE},
        mcp::{self, Refused, Speaks, error_message, result_message, with_outcome},
        mpp::receipt_json,
        v2::{PaymentRequired, Reason, SettleResponse},
    },
};

/// A message for the client, and the head of the response that carries it.
pub(super) struct Message {
    pub(super) headers: HeaderMap,
    pub(super) json: String,
}

/// What happened to the payment before the tool was called.
#[derive(Clone, Copy, Default)]
pub(super) struct Made<'a> {
    /// Whether the payment was made.
    pub(super) paid: bool,
    /// The settlement reply, if the payment was signed.
    pub(super) told: Option<&'a SettleResponse>,
}

/// The client that the layer answers, and its call.
pub(super) struct Voice {
    /// The call's id, as it is written.
    pub(super) id: String,
    pub(super) speaks: Speaks,
    /// The challenge that the call answers, if it pays by MPP.
    pub(super) challenge: Option<IntentId>,
}

/// What to do about a payment that cannot be read, or is not taken here.
const SHOW_ONE: &str = "Show one payment, as an object in the member x402/payment of the call's _meta, for terms that were quoted for this tool; nowhere else. If a payment was made already, do not pay again.";
/// What to do about a payment that is for something else.
const MADE_FOR_ANOTHER: &str = "This payment was made for another tool, for other arguments, or for another service: call that. It buys nothing here. Do not pay again for what it was made for.";
/// The same if the chain is read, so that a payment that bought nothing can be redeemed here.
const REDEEM_HERE: &str = "This payment was made for another tool, for other arguments, or for another service: call that. If it bought nothing, its payer redeems it here: show an entry of this tool's quote with scheme \"exact\" and extra {\"assetTransferMethod\":\"txid\",\"paymentFlow\":\"upfront\",\"binding\":[\"tag\",\"nonce\",\"signature\"],\"intentId\":…}, the intentId of this answer, and the payload {\"type\":\"payment-proof\",\"txRef\":…,\"paymentSignature\":…}. Do not pay again for what it was made for.";

/// What an error says if no payment was made.
const NOTHING_TAKEN: &str = "Nothing was taken.";
const MISCONFIGURED: &str =
    r#"{"code":-32603,"message":"Internal error: the price of this tool is misconfigured. Nothing was taken."}"#;

fn log_fault(route: &Route, fault: Fault) {
    tracing::error!(resource = &*route.resource, ?fault, "a tool's price is misconfigured; it is not sold");
}

impl Voice {
    /// Returns a result that the layer makes itself.
    pub(super) fn result(&self, result: &str) -> Message {
        Message {
            headers: HeaderMap::from_iter([(header::CACHE_CONTROL, NO_STORE)]),
            json: result_message(&self.id, result),
        }
    }

    fn error(&self, error: &str) -> Message {
        Message {
            headers: HeaderMap::from_iter([(header::CACHE_CONTROL, NO_STORE)]),
            json: error_message(&self.id, error),
        }
    }

    /// Refuses a call that shows no payment.
    pub(super) fn turn_away(&self, route: &Route, rejection: impl Into<Rejection>) -> Message {
        let rejection = rejection.into();
        metrics::refused(&route.resource, rejection.outcome());
        self.refuse(route, rejection)
    }

    /// Refuses a call that shows a payment.
    pub(super) fn deny(&self, route: &Route, rejection: impl Into<Rejection>) -> Message {
        let rejection = rejection.into();
        metrics::redeemed(&route.resource, rejection.outcome());
        self.refuse(route, rejection)
    }

    /// Refuses a call whose payment was made before the tool was called.
    pub(super) fn deny_paid(&self, route: &Route, rejection: Rejection, made: Option<Box<SettleResponse>>) -> Message {
        match rejection {
            Rejection::Problem(problem) => {
                let mut problem = problem.after_payment();
                problem.settlement = problem.settlement.or(made);
                self.deny(route, problem)
            }
            Rejection::Fault(fault) => {
                metrics::redeemed(&route.resource, Rejection::Fault(fault).outcome());
                log_fault(route, fault);
                self.failed(HeaderMap::new(), MISCONFIGURED, Made { paid: true, told: made.as_deref() })
            }
            rejection => self.deny(route, rejection),
        }
    }

    fn refuse(&self, route: &Route, rejection: Rejection) -> Message {
        match rejection {
            Rejection::Problem(problem) => self.problem(route, &problem),
            Rejection::Refusal(refusal) => {
                let text = String::from_utf8_lossy(refusal.into_response().body()).into_owned();
                let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
                self.result(&result.to_string())
            }
            Rejection::Fault(fault) => self.fault(route, fault),
            Rejection::Replay(answer) => {
                tracing::info!(resource = &*route.resource, "delivered again");
                let (parts, body) = answer.into_parts();
                let receipt = self.receipt(route, &parts.headers);
                self.sold(parts.headers, &body, receipt.as_slice())
            }
            Rejection::GivenBack(answer) => {
                let (parts, body) = answer.into_parts();
                let result = json!({ "content": [{ "type": "text", "text": String::from_utf8_lossy(&body) }] });
                self.sold(parts.headers, &Bytes::from(result.to_string()), &[])
            }
            Rejection::Quoted(refused) => self.refused_payment(&refused),
        }
    }

    /// Returns MPP's receipt for a result with this head, as a member of its `_meta`.
    pub(super) fn receipt(&self, route: &Route, headers: &HeaderMap) -> Option<(&'static str, String)> {
        let settled = SettleResponse::from_headers(headers).ok()??;
        receipt_json(&settled, self.challenge.as_ref()?, route.merchant.clock.unix()).map(|json| (mcp::RECEIPT, json))
    }

    /// Returns a result that was sold, now or before. Its head names the payment. `more` are further members of its `_meta`.
    pub(super) fn sold(&self, mut headers: HeaderMap, result: &Bytes, more: &[(&str, String)]) -> Message {
        let outcome = headers.remove(PAYMENT_RESPONSE).and_then(|value| decode_base64(value.as_bytes()));
        let outcome = outcome.and_then(|json| String::from_utf8(json).ok());
        let ours = outcome
            .iter()
            .map(|json| (mcp::PAYMENT_RESPONSE, json.as_str()))
            .chain(more.iter().map(|(name, json)| (*name, json.as_str())));
        let result = mcp::with_meta(&String::from_utf8_lossy(result), &ours.collect::<Vec<_>>());
        Message { headers, json: result_message(&self.id, &result) }
    }

    /// Returns a server's answer that is not sold, unchanged, but with a report of a payment that was `made` all the same.
    pub(super) fn unsold(&self, headers: HeaderMap, result: &str, made: Option<&SettleResponse>) -> Message {
        let result = match made {
            Some(made) => with_outcome(result, &made.to_json()),
            None => result.to_owned(),
        };
        Message { headers, json: result_message(&self.id, &result) }
    }

    /// Returns an error of JSON-RPC in the same way. If there is a payment to report, the error becomes a failed result, which has room for
    /// that.
    pub(super) fn failed(&self, headers: HeaderMap, error: &str, made: Made<'_>) -> Message {
        let error = if made.paid { error.replace(NOTHING_TAKEN, MADE) } else { error.to_owned() };
        if made.told.is_none() {
            return Message { headers, json: error_message(&self.id, &error) };
        }
        let text = serde_json::from_str::<Value>(&error)
            .ok()
            .and_then(|error| Some(error.get("message")?.as_str()?.to_owned()));
        let result = json!({ "content": [{ "type": "text", "text": text.unwrap_or_default() }], "isError": true });
        self.unsold(headers, &result.to_string(), made.told)
    }

    fn problem(&self, route: &Route, problem: &Problem) -> Message {
        let code = problem.code;
        tracing::debug!(resource = &*route.resource, error = %code, "refused");
        let detail = match code {
            ProblemCode::InvalidRedemption => SHOW_ONE,
            ProblemCode::IntentNotFound if route.merchant.chains.iter().any(|chain| chain.reader().is_some()) => {
                REDEEM_HERE
            }
            ProblemCode::IntentNotFound => MADE_FOR_ANOTHER,
            code => problem.detail.unwrap_or(code.detail()),
        };
        let more = [
            ("contact", problem.contact.clone()),
            ("message", problem.message.clone()),
            // The payer of a payment that was made, and bought nothing, redeems it with a new intent.
            ("intentId", problem.intent.clone()),
        ];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value?.into()))).collect();
        let refused = Refused { code, detail, retry_after: problem.retry_after.map(whole_seconds), more };
        let result = mcp::refusal(&refused, self.speaks);
        self.result(&match &problem.settlement {
            Some(settlement) => with_outcome(&result, &settlement.to_json()),
            None => result,
        })
    }

    fn fault(&self, route: &Route, fault: Fault) -> Message {
        log_fault(route, fault);
        self.error(MISCONFIGURED)
    }

    /// Returns the quote for a call.
    pub(super) fn bill(
        &self,
        request: &PricedRequest,
        bill: &Bill<'_>,
        (terms, tariff): (&IntentTerms, Tariff),
    ) -> Message {
        let requote = Requote {
            route: std::sync::Arc::clone(&request.route),
            terms: *terms,
            tariff,
            redeem_by: request.redeem_by,
            method: request.parts.method.clone(),
            url: request.url().text(),
        };
        self.write_bill(&requote, bill, None, &of_passes(request))
    }

    fn refused_payment(&self, refused: &RefusedPayment) -> Message {
        let RefusedPayment { requote, reason, network, payer, correction } = refused;
        tracing::debug!(resource = &*requote.route.resource, %reason, "authorization refused");
        let outcome = SettleResponse::failed(reason.clone(), *network);
        let outcome = match payer {
            Some(payer) => outcome.with_payer(*payer),
            None => outcome,
        };
        let bill = Bill::of(&requote.route, requote.tariff, offers).correcting(correction.as_deref());
        // As over HTTP, a correction reports no payment.
        let outcome = Some(&outcome).filter(|_| correction.is_none());
        self.write_bill(requote, &bill, Some((reason, outcome)), &[])
    }

    fn write_bill(
        &self,
        requote: &Requote,
        bill: &Bill<'_>,
        refused: Option<(&Reason, Option<&SettleResponse>)>,
        passes: &[(&str, String)],
    ) -> Message {
        let Requote { route, terms, redeem_by, method, url, .. } = requote;
        let address = || ResourceUrl { origin: Origin::Unknown, path: url };
        let quote = bill.render(route, terms, *redeem_by, method, refused.map(|(reason, _)| reason), address);
        let challenges = if self.speaks.mpp { bill.challenges(&quote, terms) } else { Vec::new() };
        if !challenges.is_empty() {
            let code = refused.map_or(ProblemCode::PaymentRequired, |_| ProblemCode::AuthorizationRefused);
            return self.error(&mcp::challenge(&challenges, code));
        }
        let required = quote.headers.get(PAYMENT_REQUIRED).and_then(|value| decode_base64(value.as_bytes()));
        let Some(required) = required.and_then(|json| PaymentRequired::from_json(json).ok()) else {
            let unavailable = Problem::after(ProblemCode::VerificationUnavailable, crate::paywall::refusal::ASK_AGAIN);
            return self.problem(route, &unavailable);
        };
        let result = mcp::bill(&required.to_json(), self.speaks);
        self.result(&match refused {
            Some((_, Some(outcome))) => with_outcome(&result, &outcome.to_json()),
            Some((_, None)) => result,
            None if passes.is_empty() => result,
            None => {
                let passes: Vec<_> = passes.iter().map(|(name, json)| (*name, json.as_str())).collect();
                mcp::with_meta(&result, &passes)
            }
        })
    }
}

/// Returns what a bill says about passes, in its `_meta`: those that count, and why the one that was shown buys nothing.
fn of_passes(request: &PricedRequest) -> Vec<(&'static str, String)> {
    let (route, decimals) = (&request.route, request.route.merchant.decimals());
    let passes: Vec<Value> = route.passes.iter().map(|pass| pass.described(decimals)).collect();
    let named = (!passes.is_empty()).then(|| (mcp::PASSES, Value::from(passes).to_string()));
    let spent = request.pass_spent.map(|state| (mcp::PASS, json!({ "state": state }).to_string()));
    named.into_iter().chain(spent).collect()
}

/// Returns the answer to a message that is not forwarded: an error of JSON-RPC. If its id is unknown, the status reports the error as well.
pub(super) fn refuse_message(refusal: &Refusal) -> (StatusCode, String) {
    let Refusal { id, code, message } = refusal;
    let status = if id.is_some() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let error = json!({ "code": code, "message": message });
    (status, error_message(id.as_deref().unwrap_or("null"), &error.to_string()))
}

/// Returns the same for a body that was not read.
pub(super) fn refuse_body(code: ProblemCode) -> (StatusCode, String) {
    let message = match code {
        ProblemCode::BodyTooLarge => "Body too large: send a smaller message.",
        ProblemCode::UnsupportedEncoding => {
            "Unsupported encoding: send the message uncompressed and in UTF-8, with one Content-Type."
        }
        code => code.detail(),
    };
    let error = json!({ "code": -32600, "message": message, "data": { "error": code.as_str() } });
    (code.status(), error_message("null", &error.to_string()))
}

/// Returns a response with this JSON.
pub(super) fn respond(status: StatusCode, mut headers: HeaderMap, json: String) -> Response<String> {
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, json.len().into());
    let mut response = Response::new(json);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
