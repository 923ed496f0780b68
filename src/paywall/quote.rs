//! The quote: the answer to a request without payment, made from the sealing key alone.

use http::Response;

use super::{
    body::ResponseBody,
    priced_request::PricedRequest,
    pricing::Price,
    problem::{Fault, Rejection},
};
use crate::protocol::{Amount, ProblemCode, QuoteTemplate};

/// Answers a request without proof whose price is known; `None` where it is free.
pub(crate) fn quote<ResB>(request: &PricedRequest, price: Price) -> Option<Response<ResponseBody<ResB>>> {
    let route = &*request.route;
    Some(match price {
        Price::Free => return None,
        Price::Refuse(refusal) => request.reject(refusal),
        // A bill that cannot be redeemed is not sent. A payment for an earlier one is considered all the same: it may have
        // been for something else behind this layer.
        _ if route.nested.is_known() => request.reject(Fault::NestedPrice),
        Price::Charge(amount) => render(request, &route.template, amount),
        Price::Labelled { amount, label } => render(request, &route.template_saying(&label), amount),
    })
}

/// The same for a price that must be waited for, or a merchant who has not started yet.
pub(crate) async fn quote_when_ready<ResB>(request: &PricedRequest) -> Option<Response<ResponseBody<ResB>>> {
    match ready(request).await {
        Ok(price) => quote(request, price),
        Err(rejection) => Some(request.reject(rejection)),
    }
}

async fn ready(request: &PricedRequest) -> Result<Price, Rejection> {
    let price = request.price().await?;
    if matches!(price, Price::Charge(_) | Price::Labelled { .. }) {
        request.route.merchant.started().await?;
    }
    Ok(price)
}

fn render<ResB>(request: &PricedRequest, template: &QuoteTemplate, amount: Amount) -> Response<ResponseBody<ResB>> {
    if amount.is_zero() {
        return request.reject(Fault::ZeroPrice);
    }
    let route = &*request.route;
    let terms = request.intent_terms(route.seals.current(), amount);
    let price = route.price_text(amount);
    let quote = template.render(&price, terms.expiry(), request.redeem_by, |out| route.seals.seal_into(&terms, out));
    let mut response = Response::new(ResponseBody::whole(quote.body));
    *response.status_mut() = ProblemCode::PaymentRequired.status();
    *response.headers_mut() = quote.headers;
    request.format().apply(&mut response, ProblemCode::PaymentRequired);
    tracing::debug!(resource = &*route.resource, %amount, "quoted");
    response
}
