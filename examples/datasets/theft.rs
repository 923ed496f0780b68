//! A demonstration of attempted theft: another client shows a transaction that it did not make.

use http::{HeaderMap, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;
use tower_x402::{
    client::{Body, ReqwestClient},
    protocol::{TxHash, headers},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Asks for a quote like any client, and redeems it with the hash of another buyer's transaction, which is public.
/// Returns the outcome in two lines.
///
/// # Errors
/// Fails if the seller cannot be reached.
pub(crate) async fn attempt(url: &str, order: &str, stolen: TxHash) -> Result<String, BoxError> {
    let seller = ReqwestClient::new(reqwest::Client::builder())?;
    let mut request: Value = serde_json::from_str(order)?;
    let (_, quote) = ask(&seller, url, &request).await?;
    let intent = quote.get(headers::X_PRICE_INTENT).ok_or("no quote was given")?;
    request["intentId"] = intent.to_str()?.into();
    request["txHash"] = stolen.to_string().into();
    let (status, headers) = ask(&seller, url, &request).await?;
    let told = headers.get(headers::X402_ERROR).map_or("", |code| code.to_str().unwrap_or_default());
    let outcome = if status.is_success() { "stolen" } else { "refused" };
    Ok(format!(
        "  theft       a second buyer presents {stolen} with an intent of its own\n  {outcome:<11} {} {told}",
        status.as_u16()
    ))
}

async fn ask(seller: &ReqwestClient, url: &str, body: &Value) -> Result<(StatusCode, HeaderMap), BoxError> {
    let request = Request::post(url).header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))?;
    let (parts, body) = seller.clone().oneshot(request).await?.into_parts();
    body.collect().await?;
    Ok((parts.status, parts.headers))
}
