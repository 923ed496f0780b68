//! A request to a seller, in a form that can be stored and repeated.

use clap::ValueEnum;
use http::{Request, Uri, header::CONTENT_TYPE, uri::Scheme};
use serde::{Deserialize, Serialize};
use tower_x402::client::Body;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Method {
    #[value(name = "GET")]
    Get,
    #[default]
    #[value(name = "POST")]
    Post,
}

/// One request. Its address may hold secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    method: Method,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    body: Option<String>,
}

impl Order {
    /// # Errors
    /// Fails with a sentence about the wrong argument.
    pub(crate) fn new(method: Method, url: &Uri, body: Option<&str>) -> Result<Self, &'static str> {
        if ![Some(&Scheme::HTTPS), Some(&Scheme::HTTP)].contains(&url.scheme()) {
            return Err("URL begins with https://, or with http:// on this machine");
        }
        let body = match (method, body) {
            (Method::Get, Some(_)) => return Err("a GET has no BODY"),
            (Method::Get, None) => None,
            (Method::Post, body) => Some(body.unwrap_or("{}")),
        };
        if body.is_some_and(|body| serde_json::from_str::<serde::de::IgnoredAny>(body).is_err()) {
            return Err("BODY is no JSON document");
        }
        Ok(Self { method, url: url.to_string(), body: body.map(str::to_owned) })
    }

    /// # Errors
    /// Fails if the address is invalid.
    pub(crate) fn request(&self) -> http::Result<Request<Body>> {
        match &self.body {
            None => Request::get(&self.url).body(Body::empty()),
            Some(body) => {
                let request = Request::post(&self.url).header(CONTENT_TYPE, "application/json");
                request.body(Body::from(body.clone()))
            }
        }
    }

    /// Returns method and path, the journal's name for a request.
    pub(crate) fn name(&self) -> String {
        let method = match self.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let url: Option<Uri> = self.url.parse().ok();
        format!("{method} {}", url.as_ref().map_or("", Uri::path))
    }

    /// Returns everything that the seller sees.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        [Some(self.url.as_str()), self.body.as_deref()].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use tower_x402::client::ReplayBody as _;

    use super::*;

    fn order(method: Method, url: &str, body: Option<&str>) -> Result<Order, &'static str> {
        Order::new(method, &url.parse().unwrap(), body)
    }

    #[test]
    fn a_request_is_the_same_after_it_was_kept() {
        for (method, body) in [(Method::Get, None), (Method::Post, None), (Method::Post, Some(r#"{"a":"ü\n"}"#))] {
            let order = order(method, "https://seller.example/a?b=c", body).unwrap();
            let kept: Order = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
            let (one, other) = (order.request().unwrap(), kept.request().unwrap());
            assert_eq!((one.method(), one.uri(), one.headers()), (other.method(), other.uri(), other.headers()));
            assert_eq!(one.body().bytes(), other.body().bytes());
            assert_eq!(kept.name(), format!("{} /a", one.method()));
        }
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let url = "https://seller.example/a";
        for (method, url, body, says) in [
            (Method::Get, url, Some("{}"), "no BODY"),
            (Method::Post, url, Some("{"), "no JSON"),
            (Method::Post, "history", None, "https://"),
            (Method::Post, "ftp://seller.example", None, "https://"),
        ] {
            assert!(order(method, url, body).is_err_and(|said| said.contains(says)), "{url}");
        }
    }
}
