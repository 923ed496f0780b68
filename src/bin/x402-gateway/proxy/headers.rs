//! Filters headers in both directions.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Returns whether a header concerns one connection only (RFC 9110, 7.6.1), or is `Expect`, which the gateway answers
/// itself.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(name, "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" | "upgrade" | "expect")
        || matches!(name, "proxy-authenticate" | "proxy-authorization")
}

/// Returns the tokens of a header that lists them.
pub(super) fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Removes headers of one connection, including those that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> =
            tokens(headers, &header::CONNECTION).filter_map(|token| token.parse().ok()).collect();
        for name in named {
            headers.remove(name);
        }
    }
    remove_where(headers, is_hop_by_hop);
}

/// Removes what a client may not tell the upstream: payments, the payer, the request's origin, and another method or
/// path than the priced one.
pub(super) fn strip_request(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        is_odd(name)
            || is_payment(name)
            || name == "accept-payment"
            || matches!(name, "forwarded" | "trailer")
            || name.starts_with("x-forwarded-")
            || matches!(name, "x-http-method" | "x-http-method-override" | "x-method-override")
            || matches!(name, "x-original-url" | "x-rewrite-url" | "x-original-uri" | "x-rewrite-uri")
            || matches!(name, "script-name" | "x-script-name" | "path-info" | "x-path-info" | "x-original-path")
    });
    remove_values(headers, &header::AUTHORIZATION, names_payment);
}

/// Removes what an upstream may not tell clients: bills and receipts are the gateway's. If the answer is priced, the
/// upstream's charge stays: the paywall reads and removes it.
pub(super) fn strip_answer(headers: &mut HeaderMap, is_priced: bool) {
    let charge: Vec<HeaderValue> = headers.get_all(CHARGE).iter().filter(|_| is_priced).cloned().collect();
    remove_where(headers, |name| {
        let name = &*folded(name);
        is_payment(name) || matches!(name, "pay" | "x-price-intent")
    });
    charge.into_iter().for_each(|value| _ = headers.append(CHARGE, value));
    remove_values(headers, &header::WWW_AUTHENTICATE, names_payment);
}

/// The upstream's charge within a maximum.
const CHARGE: &str = "settlement-overrides";

fn is_payment(name: &str) -> bool {
    name == "x-payment"
        || name == CHARGE
        || name.starts_with("payment-")
        || name.starts_with("x402-")
        || name.starts_with("x-payment-")
}

fn remove_where(headers: &mut HeaderMap, unwanted: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Returns whether a name has a character other than letters, digits and hyphens. Services read such names as others:
/// `X402_Payer` is `X402-Payer` to a WSGI application, and `SCRIPT_NAME` is the part of the path that a server cuts
/// off.
fn is_odd(name: &str) -> bool {
    name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-')
}

/// Returns the name with a hyphen for each odd character, as clients may read it.
fn folded(name: &str) -> Cow<'_, str> {
    if is_odd(name) { name.replace(|c: char| !c.is_ascii_alphanumeric(), "-").into() } else { name.into() }
}

fn remove_values(headers: &mut HeaderMap, name: &HeaderName, unwanted: impl Fn(&[u8]) -> bool) {
    if !headers.get_all(name).iter().any(|value| unwanted(value.as_bytes())) {
        return;
    }
    let kept: Vec<HeaderValue> =
        headers.get_all(name).iter().filter(|value| !unwanted(value.as_bytes())).cloned().collect();
    headers.remove(name);
    for value in kept {
        headers.append(name, value);
    }
}

/// Returns whether one of the challenges or credentials is of the scheme `Payment`.
fn names_payment(value: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    let parts = value.split(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    });
    parts.into_iter().any(|part| {
        let part = part.trim_ascii();
        let word = part.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        word.eq_ignore_ascii_case(b"payment")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn kept(headers: &HeaderMap) -> Vec<String> {
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn what_belongs_to_one_connection_ends_with_it() {
        let mut all = headers(&[
            ("connection", "close, X-Mine"),
            ("connection", "x402-payer , ,Keep-Alive"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("x-mine", "1"),
            ("accept", "*/*"),
        ]);
        strip_hop_by_hop(&mut all);
        assert_eq!(kept(&all), ["accept: */*"]);
    }

    #[test]
    fn what_a_client_may_not_say_does_not_pass_in_any_spelling() {
        for name in [
            "trailer",
            "x402-payment",
            "X402-Payer",
            "X402_Payer",
            "x402_payment-id",
            "X402.Amount",
            "x402-page",
            "payment-signature",
            "Payment_Signature",
            "payment-authorization",
            "x-payment",
            "x_payment",
            "accept-payment",
            "settlement-overrides",
            "x-forwarded-for",
            "X_Forwarded_For",
            "x-forwarded-proto",
            "x-forwarded-prefix",
            "forwarded",
            "x-http-method-override",
            "x_http_method",
            "x-original-url",
            "X-Rewrite-URL",
            "SCRIPT_NAME",
            "Script-Name",
            "X-Script-Name",
            "PATH_INFO",
            "Path-Info",
            "x_custom",
            "x.custom",
        ] {
            let mut all = headers(&[(name, "1"), ("accept", "*/*")]);
            strip_request(&mut all);
            assert_eq!(kept(&all), ["accept: */*"], "{name}");
        }
        for name in ["x402", "payments", "x-forwarded", "pay", "x-custom", "cookie", "range"] {
            let mut all = headers(&[(name, "1")]);
            strip_request(&mut all);
            assert_eq!(all.len(), 1, "{name}");
        }
    }

    #[test]
    fn credentials_of_payments_are_taken_out_and_others_pass() {
        let mut all = headers(&[("authorization", "payment eyJ9"), ("authorization", "Bearer x")]);
        strip_request(&mut all);
        assert_eq!(kept(&all), ["authorization: Bearer x"]);
        let mut all = headers(&[("authorization", "Basic payment")]);
        strip_request(&mut all);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn bills_of_the_upstream_do_not_pass() {
        for (name, value, passes) in [
            ("pay", "{}", false),
            ("x-price-intent", "i", false),
            ("x-payment-contracts", "0x", false),
            ("x-payment-response", "x", false),
            ("payment-required", "x", false),
            ("PAYMENT-RESPONSE", "x", false),
            ("payment-receipt", "x", false),
            ("x402-error", "x", false),
            ("settlement-overrides", "x", false),
            ("www-authenticate", "Payment id=\"1\"", false),
            ("www-authenticate", "Basic realm=\"a, b\", PAYMENT id=\"1\"", false),
            ("www-authenticate", "payment", false),
            ("www-authenticate", "Basic realm=\"x, Payment y\"", true),
            ("www-authenticate", "Basic realm=\"\\\", Payment y\"", true),
            ("www-authenticate", "Bearer payment=\"1\"", true),
            ("set-cookie", "a=b", true),
            ("etag", "\"1\"", true),
        ] {
            let mut all = headers(&[(name, value)]);
            strip_answer(&mut all, false);
            assert_eq!(!all.is_empty(), passes, "{name}: {value}");
        }
    }

    #[test]
    fn the_charge_of_what_is_priced_passes_to_the_paywall_in_one_spelling() {
        let mut all = headers(&[("settlement-overrides", "{}"), ("settlement_overrides", "{}"), ("pay", "{}")]);
        strip_answer(&mut all, true);
        assert_eq!(kept(&all), ["settlement-overrides: {}"]);
    }
}
