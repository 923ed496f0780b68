//! Parts of an answer: what is sold is the whole, and a ticket lets the same request ask for parts of it.

use http::{HeaderMap, HeaderValue, Request, header};

use crate::{
    paywall::{priced_request::PricedRequest, seller::route::Route},
    protocol::{
        RequestDigest,
        headers::{X402_TICKET, expose_line},
    },
};

/// What a ticket for this request is for, on a route that has tickets.
pub(crate) fn digest(request: &PricedRequest) -> Option<RequestDigest> {
    request.route.tickets.as_ref().map(|tickets| request.ticket_digest(tickets))
}

/// Has the handler answer as a whole: a part of it would cost as much.
pub(crate) fn ask_for_all<B>(request: &mut Request<B>, route: &Route) {
    if !route.keep_ranges {
        request.headers_mut().remove(header::RANGE);
        request.headers_mut().remove(header::IF_RANGE);
    }
}

/// Hands out the ticket for the request of this digest with a sold answer. Without one, no parts are promised: each would have to be
/// paid for anew.
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
