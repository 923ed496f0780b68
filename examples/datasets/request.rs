//! The valid requests: one place for the handlers and for the pricing, so that no client is quoted a price for a
//! request that cannot be answered.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Uri, request::Parts};
use serde_json::{Map, Value};
use tower_x402::protocol::headers;

use super::{
    analytics::{Aggregate, Allowed, Filters},
    problem::Problem,
};

const MAX_QUERY: usize = 2_000;

/// Checks a request for the pricing of the two routes with a `query`. A request without a question is quoted:
/// programs look for prices like this.
///
/// # Errors
/// Returns the refusal of the request.
pub(crate) fn check_query(head: &Parts, body: &Bytes) -> Result<(), Problem> {
    if is_probe(head, body) { Ok(()) } else { question(&head.method, &head.uri, body).map(drop) }
}

/// Checks a request for the pricing of the analytics route, likewise.
///
/// # Errors
/// Returns the refusal of the request.
pub(crate) fn check_filters(allowed: &Allowed, head: &Parts, body: &Bytes) -> Result<(), Problem> {
    if is_probe(head, body) { Ok(()) } else { choice(allowed, &head.method, &head.uri, body).map(drop) }
}

/// Returns whether the body is empty and no payment is shown.
fn is_probe(head: &Parts, body: &[u8]) -> bool {
    let shown = [headers::X402_PAYMENT, headers::PAYMENT_SIGNATURE];
    head.method == Method::POST && body.is_empty() && !shown.iter().any(|name| head.headers.contains_key(name))
}

/// Returns the question: a browser's from the address, a program's from the body.
///
/// # Errors
/// The errors of [`query`].
pub(crate) fn question(method: &Method, uri: &Uri, body: &[u8]) -> Result<String, Problem> {
    if is_asked_by_address(method) { query(&members(uri)) } else { query(body) }
}

/// Returns the filters, likewise.
///
/// # Errors
/// The errors of [`filters`].
pub(crate) fn choice(allowed: &Allowed, method: &Method, uri: &Uri, body: &[u8]) -> Result<Filters, Problem> {
    if !is_asked_by_address(method) {
        return filters(allowed, body);
    }
    let filled: Map<String, Value> = fields(uri).filter(|(_, value)| value != "").collect();
    filters(allowed, Value::from_iter([("filters", Value::Object(filled))]).to_string().as_bytes())
}

fn is_asked_by_address(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns the fields of an address as a JSON object. A name that occurs twice has no text value, and so is not a
/// valid question.
fn members(uri: &Uri) -> Vec<u8> {
    Value::Object(fields(uri).collect()).to_string().into_bytes()
}

fn fields(uri: &Uri) -> impl Iterator<Item = (String, Value)> {
    let mut all = BTreeMap::<String, Value>::new();
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let value = if all.contains_key(&*name) { Value::Null } else { value.into_owned().into() };
        all.insert(name.into_owned(), value);
    }
    all.into_iter()
}

/// Returns the question in `body`, without surrounding white space.
///
/// # Errors
/// Refuses with 400 `invalid_body` or `invalid_query`.
pub(crate) fn query(body: &[u8]) -> Result<String, Problem> {
    let refuse = || {
        let detail = format!("Send a JSON object whose `query` is a text of 1 to {MAX_QUERY} characters.");
        Problem::bad_request("invalid_query", detail)
    };
    let body = object(body)?.ok_or_else(refuse)?;
    let query = body.get("query").and_then(Value::as_str).map(str::trim).ok_or_else(refuse)?;
    let length = query.chars().count();
    if (1..=MAX_QUERY).contains(&length) { Ok(query.to_owned()) } else { Err(refuse()) }
}

/// Returns the filters in `body`; without any, everything by category.
///
/// # Errors
/// Refuses with 400 `invalid_body` or `invalid_filters`.
pub(crate) fn filters(allowed: &Allowed, body: &[u8]) -> Result<Filters, Problem> {
    let body = object(body)?.ok_or_else(|| refused("Send a JSON object with `filters`."))?;
    let mut filters = Filters::default();
    let Some(given) = body.get("filters") else {
        return Ok(filters);
    };
    let given = given.as_object().ok_or_else(|| refused("`filters` must be an object."))?;
    for (name, value) in given {
        let value = value.as_str().unwrap_or_default();
        let (column, values) = match name.as_str() {
            "aggregate" => {
                filters.aggregate = aggregate(value)?;
                continue;
            }
            "country" => (Aggregate::Country, &allowed.countries),
            "category" => (Aggregate::Category, &allowed.categories),
            "industry" => (Aggregate::Industry, &allowed.industries),
            _ => return Err(refused("`filters` may have `aggregate` and one of `country`, `category`, `industry`.")),
        };
        if filters.only.is_some() {
            return Err(refused("`filters` may have at most one of `country`, `category`, `industry`."));
        }
        if !values.iter().any(|allowed| allowed == value) {
            let name = column.name();
            return Err(refused(&format!(
                "`filters.{name}` is not allowed: GET /developer/analytics-filters lists the values."
            )));
        }
        filters.only = Some((column, value.to_owned()));
    }
    Ok(filters)
}

fn aggregate(value: &str) -> Result<Aggregate, Problem> {
    let mut all = Aggregate::ALL.into_iter();
    all.find(|aggregate| aggregate.name() == value)
        .ok_or_else(|| refused("`filters.aggregate` must be `category`, `industry`, `agent` or `country`."))
}

fn refused(detail: &str) -> Problem {
    Problem::bad_request("invalid_filters", detail)
}

/// Returns the members of `body`, or `None` if it is empty or JSON of another kind.
fn object(body: &[u8]) -> Result<Option<Map<String, Value>>, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(Some(members)),
        Ok(_) => Ok(None),
        Err(_) => Err(Problem::bad_request("invalid_body", "The body is not JSON: send one JSON object in UTF-8.")),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::data, *};

    fn code<T>(result: Result<T, Problem>) -> String {
        let response = result.err().unwrap().into_http();
        assert_eq!(response.status(), 400);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["status"], 400);
        assert!(body["title"].is_string() && body["detail"].is_string());
        body["error"].as_str().unwrap().to_owned()
    }

    #[test]
    fn queries() {
        let body = |query: &str| serde_json::json!({ "query": query, "intentId": "x", "txHash": "y" }).to_string();
        assert_eq!(query(body("  why? ").as_bytes()).unwrap(), "why?");
        assert!(query(body(&format!(" {} ", "é".repeat(2_000))).as_bytes()).is_ok());
        assert_eq!(code(query(body(&"x".repeat(2_001)).as_bytes())), "invalid_query");
        assert_eq!(code(query(body(" \n ").as_bytes())), "invalid_query");
        for other in ["", "{}", "[]", "\"why\"", "{\"query\":null}", "{\"query\":7}", "{\"Query\":\"x\"}"] {
            assert_eq!(code(query(other.as_bytes())), "invalid_query", "{other}");
        }
        for broken in ["{", "query", "{\"query\":\"\\ud800\"}", "{\"query\":\"x\"} {}"] {
            assert_eq!(code(query(broken.as_bytes())), "invalid_body", "{broken}");
        }
    }

    #[test]
    fn filters_within_the_rules() {
        let allowed = Allowed::new(&data::Data::example().unwrap());
        let parse = |body: &str| filters(&allowed, body.as_bytes());
        assert_eq!(parse("{}").unwrap(), Filters::default());
        assert_eq!(parse("{\"filters\":{}}").unwrap(), Filters::default());
        let both = parse("{\"filters\":{\"aggregate\":\"agent\",\"country\":\"Germany\"}}").unwrap();
        assert_eq!(both.aggregate, Aggregate::Agent);
        assert_eq!(both.only, Some((Aggregate::Country, "Germany".to_owned())));
    }

    #[test]
    fn a_browser_asks_in_the_address() {
        let allowed = Allowed::new(&data::Data::example().unwrap());
        let ask = |uri: &str| question(&Method::GET, &uri.parse().unwrap(), b"{\"query\":\"no\"}");
        assert_eq!(ask("/?query=+why%3F+%C3%A9+&utm=x").unwrap(), "why? é");
        for uri in ["/", "/?query=", "/?query=+", "/?query=a&query=b", "/?Query=a"] {
            assert_eq!(code(ask(uri)), "invalid_query", "{uri}");
        }
        assert_eq!(question(&Method::POST, &"/?query=no".parse().unwrap(), b"{\"query\":\"why\"}").unwrap(), "why");
        let choose = |uri: &str| choice(&allowed, &Method::HEAD, &uri.parse().unwrap(), b"");
        assert_eq!(choose("/").unwrap(), Filters::default());
        assert_eq!(choose("/?aggregate=category&country=").unwrap(), Filters::default());
        let german = choose("/?aggregate=agent&country=Germany&industry=").unwrap();
        assert_eq!(
            (german.aggregate, german.only),
            (Aggregate::Agent, Some((Aggregate::Country, "Germany".to_owned())))
        );
        for uri in [
            "/?country=Atlantis",
            "/?aggregate=agent&aggregate=agent",
            "/?colour=blue",
            "/?country=Germany&industry=Retail",
        ] {
            assert_eq!(code(choose(uri)), "invalid_filters", "{uri}");
        }
    }

    #[test]
    fn filters_outside_the_rules() {
        let allowed = Allowed::new(&data::Data::example().unwrap());
        for body in [
            "[]",
            "{\"filters\":null}",
            "{\"filters\":[]}",
            "{\"filters\":{\"aggregate\":\"month\"}}",
            "{\"filters\":{\"aggregate\":null}}",
            "{\"filters\":{\"country\":\"Atlantis\"}}",
            "{\"filters\":{\"country\":\"germany\"}}",
            "{\"filters\":{\"agent\":\"Firstline\"}}",
            "{\"filters\":{\"country\":\"Germany\",\"industry\":\"Retail\"}}",
            "{\"filters\":{\"country\":\"Germany\",\"category\":\"\"}}",
        ] {
            assert_eq!(code(filters(&allowed, body.as_bytes())), "invalid_filters", "{body}");
        }
        assert_eq!(code(filters(&allowed, b"{\"filters\":")), "invalid_body");
    }
}
