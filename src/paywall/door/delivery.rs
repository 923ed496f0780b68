//! Writes the result of a purchase.

use http::Response;

use crate::{
    metrics,
    paywall::{
        body::ResponseBody,
        dialect::outcome::mark_made,
        door::{format::ReplyFormat, refuse::write},
        refusal::Rejection,
        sale::{deliver::Delivery, ending::Unsold},
        seller::route::Route,
    },
};

/// Writes the answer that was sold, or the reason why none leaves.
///
/// # Errors
/// The service's own error, unchanged.
pub(crate) fn write_delivery<ResB, E>(
    delivery: Delivery<ResB, E>,
    format: ReplyFormat,
    route: &Route,
) -> Result<Response<ResponseBody<ResB>>, E> {
    let Delivery { outcome, made, paid } = delivery;
    let mut response = match outcome {
        Ok(response) => response,
        Err(Unsold::Rejected(rejection)) => {
            metrics::redeemed(&route.resource, rejection.outcome());
            let rejection = match rejection {
                Rejection::Problem(problem) if paid => problem.after_payment().into(),
                rejection => rejection,
            };
            write(rejection, format, &route.resource)
        }
        Err(Unsold::Failed(error)) => {
            metrics::redeemed(&route.resource, "service_failed");
            return Err(error);
        }
    };
    if let Some(made) = made {
        mark_made(response.headers_mut(), &made);
    }
    Ok(response)
}
