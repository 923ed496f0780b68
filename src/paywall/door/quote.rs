//! Quotes: the answers to requests without payment, and to refused payments.

use http::Response;

use crate::{
    paywall::{
        body::ResponseBody,
        dialect::quote::Bill,
        door::{format::ReplyFormat, page::dress_quote, refuse::turn_away},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Fault, Problem, Rejection},
        seller::pricing::{Cost, Price, Tariff},
        way::offers,
    },
    protocol::ProblemCode,
};

/// Answers a request without proof at a known price; `None` if it is free.
pub(crate) fn quote<ResB>(request: &PricedRequest, price: Price) -> Option<Response<ResponseBody<ResB>>> {
    let route = &*request.route;
    Some(match price {
        Price::Free => return None,
        Price::Refuse(refusal) => turn_away(request, refusal),
        // A bill that cannot be redeemed is not sent. A payment for an earlier one is still considered: it may have been for something else
        // behind this layer.
        _ if route.nested.is_known() => turn_away(request, Fault::NestedPrice),
        Price::Charge(amount) => {
            let tariff = Tariff::Fixed;
            answer(request, Cost { amount, tariff }, Bill::of(route, tariff, offers))
        }
        Price::UpTo(amount) => {
            let tariff = route.up_to();
            answer(request, Cost { amount, tariff }, Bill::of(route, tariff, offers))
        }
        Price::Labelled { amount, label } => {
            let tariff = Tariff::Fixed;
            answer(request, Cost { amount, tariff }, Bill::saying(route, &label, tariff, offers))
        }
    })
}

/// Answers in the same way if the price takes time, or the merchant has not started yet.
pub(crate) async fn quote_when_ready<ResB>(request: &PricedRequest) -> Option<Response<ResponseBody<ResB>>> {
    match ready(request).await {
        Ok(price) => quote(request, price),
        Err(rejection) => Some(turn_away(request, rejection)),
    }
}

async fn ready(request: &PricedRequest) -> Result<Price, Rejection> {
    let price = request.price().await?;
    if matches!(price, Price::Charge(_) | Price::UpTo(_) | Price::Labelled { .. }) {
        request.route.merchant.first().started().await?;
    }
    Ok(price)
}

fn answer<ResB>(request: &PricedRequest, cost: Cost, bill: Bill<'_>) -> Response<ResponseBody<ResB>> {
    let Cost { amount, tariff } = cost;
    let bill = bill.accepted_by(&request.parts.headers);
    if amount.is_zero() {
        return turn_away(request, Fault::ZeroPrice);
    }
    let route = &*request.route;
    if !bill.can_be_paid(route) {
        if tariff.is_metered() && route.merchant.chains.iter().all(|chain| chain.start.is_done()) {
            tracing::error!(
                resource = &*route.resource,
                "no way to pay for a metered answer is set: the merchant needs a settler of permits or of channels, or the route `or_fixed`"
            );
        }
        return turn_away(request, Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN));
    }
    let terms = request.intent_terms(route.seals.current(), amount);
    let url = || request.url();
    let mut quote = bill.render(route, &terms, request.redeem_by, &request.parts.method, None, url);
    if let Some(state) = request.pass_spent {
        quote.note_pass(state);
    }
    let mut response = Response::new(ResponseBody::whole(quote.body));
    *response.status_mut() = ProblemCode::PaymentRequired.status();
    *response.headers_mut() = quote.headers;
    if let Some(page) = &route.page {
        response = dress_quote(page, request, (&terms, tariff), &bill.label, response);
    }
    ReplyFormat::of_request(request).apply(&mut response, ProblemCode::PaymentRequired);
    tracing::debug!(resource = &*route.resource, %amount, "quoted");
    route.quotes.count();
    response
}
