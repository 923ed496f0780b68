//! Parts of an answer: what is sold is the whole, and a ticket lets the same request ask for parts of it.

use http::{HeaderMap, HeaderValue, Request, header};

use crate::{
    paywall::{priced_request::PricedRequest, seller::route::Route},
    protocol::headers::{X402_TICKET, expose_line},
};

/// The ticket for this request, on a route that has tickets.
pub(crate) fn ticket(request: &PricedRequest) -> Option<HeaderValue> {
    let tickets = request.route.tickets.as_ref()?;
    let ticket = tickets.issue(&request.ticket_digest(tickets), request.route.merchant.clock.unix());
    HeaderValue::try_from(ticket).ok()
}

/// Has the handler answer as a whole: a part of it would cost as much.
pub(crate) fn ask_for_all<B>(request: &mut Request<B>, route: &Route) {
    if !route.keep_ranges {
        request.headers_mut().remove(header::RANGE);
        request.headers_mut().remove(header::IF_RANGE);
    }
}

/// Hands out the ticket with a sold answer. Without one, no parts are promised: each would have to be paid for anew.
pub(crate) fn tell(headers: &mut HeaderMap, ticket: Option<HeaderValue>, route: &Route) {
    match ticket {
        Some(ticket) => {
            headers.insert(X402_TICKET, ticket);
            expose_line(headers, HeaderValue::from_static("X402-Ticket"));
        }
        None if !route.keep_ranges => _ = headers.remove(header::ACCEPT_RANGES),
        None => {}
    }
}
