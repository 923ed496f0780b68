//! What may be asked: one place for the handlers and for the pricing, so that nobody is quoted a
//! price for a request that could not be answered.

use bytes::Bytes;
use http::request::Parts;
use serde_json::{Map, Value};

use super::{
    analytics::{Aggregate, Allowed, Filters},
    problem::Problem,
};

const MAX_QUERY: usize = 2_000;

/// For the pricing of the two routes with a `query`.
///
/// # Errors
/// What the request is refused with.
pub(crate) fn check_query(_: &Parts, body: &Bytes) -> Result<(), Problem> {
    query(body).map(drop)
}

/// For the pricing of the analytics route.
///
/// # Errors
/// What the request is refused with.
pub(crate) fn check_filters(allowed: &Allowed, body: &Bytes) -> Result<(), Problem> {
    filters(allowed, body).map(drop)
}

/// The question in `body`, without white space around it.
///
/// # Errors
/// 400 `invalid_body` or `invalid_query`.
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

/// The filters in `body`; without any, everything by category.
///
/// # Errors
/// 400 `invalid_body` or `invalid_filters`.
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

/// The members of `body`, or nothing if it is empty or JSON of another kind.
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
