//! Refuses a signed payment that is certainly unused, with a new quote.

use http::{HeaderValue, Response};

use crate::{
    paywall::{
        body::ResponseBody,
        dialect::quote::Bill,
        door::{format::ReplyFormat, page::vary},
        refusal::{RefusedPayment, Requote},
        way::offers,
    },
    protocol::{
        Origin, ProblemCode, RenderedQuote, ResourceUrl,
        headers::{PAYMENT_RESPONSE, X402_ERROR},
        v2::SettleResponse,
    },
};

/// Writes the refusal.
pub(crate) fn write_refused_payment<ResB>(
    refused: &RefusedPayment,
    format: ReplyFormat,
) -> Response<ResponseBody<ResB>> {
    let RefusedPayment { requote, reason, network, payer, correction } = refused;
    let Requote { route, terms, tariff, redeem_by, method, url } = requote;
    let code = ProblemCode::AuthorizationRefused;
    tracing::debug!(resource = &*route.resource, %reason, "authorization refused");
    let url = || ResourceUrl { origin: Origin::Unknown, path: url };
    let RenderedQuote { body, mut headers, .. } = Bill::of(route, *tariff, offers)
        .correcting(correction.as_deref())
        .render(route, terms, *redeem_by, method, Some(reason), url);
    let told = SettleResponse::failed(reason.clone(), *network);
    let told = match payer {
        Some(payer) => told.with_payer(*payer),
        None => told,
    };
    // With this header, the official client would not take the correction.
    if correction.is_none() {
        headers.insert(PAYMENT_RESPONSE, told.to_header());
    }
    headers.insert(X402_ERROR, HeaderValue::from_static(code.as_str()));
    if route.page.is_some() {
        vary(&mut headers);
    }
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = code.status();
    *response.headers_mut() = headers;
    response.extensions_mut().insert(code);
    format.apply(&mut response, code);
    response
}
