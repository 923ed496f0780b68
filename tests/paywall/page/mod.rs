//! The 402 for people: who gets a page, what stays as it is, and the form that redeems without script.

mod document;
mod forms;
mod hook;
mod negotiation;
mod script;

use std::fmt::Debug;

use axum::body::Body;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower_x402::ResponseBody;

/// What a browser sends where it opens a page.
pub const CHROME: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8";

pub fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

/// The same by a browser.
pub fn navigation(uri: &str) -> Request<Body> {
    let request = Request::get(uri).header("accept", CHROME).header("sec-fetch-mode", "navigate");
    request.body(Body::empty()).unwrap()
}

/// A form that a browser sends.
pub fn form(uri: &str, fields: &str) -> Request<Body> {
    let request = Request::post(uri).header("accept", CHROME).header("sec-fetch-mode", "navigate");
    let request =
        request.header("content-type", "application/x-www-form-urlencoded").header("content-length", fields.len());
    request.body(Body::from(fields.to_owned())).unwrap()
}

/// The head, and the body as text.
pub async fn text(
    response: Response<ResponseBody<impl http_body::Body<Data = bytes::Bytes, Error: Debug>>>,
) -> (u16, HeaderMap, String) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, String::from_utf8(body.into()).unwrap())
}

/// What the page tells its script.
pub fn data(page: &str) -> Value {
    let block = page.split_once(r#"id="data">"#).unwrap().1.split("</script>").next().unwrap();
    serde_json::from_str(block).unwrap()
}

/// By what the answer varies, line by line.
pub fn varying(headers: &HeaderMap) -> Vec<&str> {
    headers.get_all("vary").iter().map(|line| line.to_str().unwrap()).collect()
}
