//! The purchase that a payment is for, if its client names it.

use http::HeaderMap;

use crate::{
    paywall::{refusal::Problem, seller::route::Route},
    protocol::{ParseError, PurchaseKey, PurchaseName, headers::IDEMPOTENCY_KEY, v2::PaymentPayload},
};

/// The purchase that a client names, if it names one, or what is wrong with its name.
pub(crate) type Named = Result<Option<PurchaseKey>, Box<Problem>>;

const GIVEN_TWICE: ParseError = ParseError::new("a request has one idempotency key");

/// Returns the purchase that a payment of x402 is for.
///
/// # Errors
/// If it has no name and must have one, or if its name is not of the extension's form.
pub(crate) fn named_in_payload(route: &Route, payload: &PaymentPayload) -> Named {
    named(route, || payload.extensions.purchase_name())
}

/// Returns the purchase that a credential of MPP in these headers is for.
///
/// # Errors
/// As for [`named_in_payload`].
pub(crate) fn named_in_headers(route: &Route, headers: &HeaderMap) -> Named {
    named(route, || idempotency_key(headers))
}

fn named(route: &Route, id: impl FnOnce() -> Result<Option<PurchaseName>, ParseError>) -> Named {
    let merchant = &route.merchant;
    let Some(setting) = merchant.payment_identifier else { return Ok(None) };
    match id() {
        Ok(Some(id)) => Ok(Some(PurchaseKey::of(&merchant.realm, &route.resource, &id))),
        Ok(None) if setting.is_required() => Err(Box::new(Problem::names_no_purchase())),
        Ok(None) => Ok(None),
        Err(_) => Err(Box::new(Problem::misnames_purchase())),
    }
}

/// Reads the key, as a string of structured fields or as it is.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<PurchaseName>, ParseError> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(first) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(GIVEN_TWICE);
    }
    // A value that is no text is invalid as well.
    let text = first.to_str().unwrap_or_default().trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    PurchaseName::new(quoted.unwrap_or(text)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_with_and_without_quotes() {
        let id = "8e03978e-40d5-43dd-bc93-6894a57f9324";
        for (given, expected) in [
            (vec![id.to_owned()], Ok(Some(id))),
            (vec![format!("\"{id}\"")], Ok(Some(id))),
            (vec![], Ok(None)),
            (vec![format!("\"{id}")], Err(())),
            (vec![id.to_owned(), id.to_owned()], Err(())),
            (vec![String::new()], Err(())),
            (vec!["order-1".to_owned()], Err(())),
            (vec![format!("{id}, {id}")], Err(())),
        ] {
            let mut headers = HeaderMap::new();
            for value in &given {
                headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
            }
            let read = idempotency_key(&headers).map(|id| id.map(|id| id.to_string())).map_err(drop);
            assert_eq!(read, expected.map(|id| id.map(str::to_owned)), "{given:?}");
        }
    }
}
