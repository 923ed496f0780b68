//! Parts of an answer: a sale covers the whole answer, and a ticket lets the same request ask for parts of it later.

use http::{HeaderMap, HeaderValue, Request, header};

use crate::{
    paywall::{priced_request::PricedRequest, seller::route::Route},
    protocol::{
        RequestDigest,
        headers::{X402_TICKET, expose_line},
    },
};

/// Returns the digest that a ticket for this request covers, on a route with tickets.
pub(crate) fn digest(request: &PricedRequest) -> Option<RequestDigest> {
    request.route.tickets.as_ref().map(|tickets| request.ticket_digest(tickets))
}

/// Removes the request's range, so that the handler answers as a whole: a part would cost as much.
pub(crate) fn ask_for_all<B>(request: &mut Request<B>, route: &Route) {
    if !route.keep_ranges {
        request.headers_mut().remove(header::RANGE);
        request.headers_mut().remove(header::IF_RANGE);
    }
}

/// Adds a ticket for the request with this digest to a sold answer. Without a ticket, removes `Accept-Ranges`: each part would cost another
/// payment.
pub(crate) fn tell(headers: &mut HeaderMap, digest: Option<RequestDigest>, route: &Route) {
    let issued = |digest| Some(route.tickets.as_ref()?.issue(&digest, route.merchant.clock.unix()));
    match digest.and_then(issued).and_then(|ticket| HeaderValue::try_from(ticket).ok()) {
        Some(ticket) => {
            headers.insert(X402_TICKET, ticket);
            expose_line(headers, HeaderValue::from_static("X402-Ticket"));
        }
        None if !route.keep_ranges => _ = headers.remove(header::ACCEPT_RANGES),
        None => {}
    }
}
