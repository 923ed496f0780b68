//! `Transport`: sends one request to one facilitator. It follows no redirects, retries nothing, limits the answer's
//! size, and never prints its content or URL.

use std::{
    fmt,
    net::{Ipv6Addr, SocketAddr},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Client, ClientBuilder, Response, Url, redirect, retry};

use super::call::{Authorizer, FacilitatorAction, FacilitatorCall};
use crate::{metrics, protocol::is_loopback};

/// The longest answer that is read.
const ANSWER_MAX: usize = 64 * 1024;

/// The time limit for connecting to a facilitator.
const CONNECT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing was sent.
    NotSent,
    /// The outcome of the request is unknown.
    Lost,
}

/// A facilitator's answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

pub(super) struct Transport {
    base: Url,
    authorizer: Option<Authorizer>,
    /// The client for questions, which may be repeated; it reuses connections.
    asking: Client,
    /// The client for settling. Each request has its own connection: if a reused connection closes, it is unknown
    /// whether the request arrived.
    settling: Client,
}

/// Omits the URL and the headers.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl Transport {
    /// Creates a transport; returns `None` if the URL is neither `https` nor an `http` URL of this machine.
    pub(super) fn new(url: &str, authorizer: Option<Authorizer>) -> Option<Self> {
        let mut base = Url::parse(url.trim()).ok()?;
        let here = is_loopback(base.host_str()?);
        let plain = match base.scheme() {
            "https" => false,
            "http" if here => true,
            _ => return None,
        };
        base.set_fragment(None);
        let client = || if plain { on_this_machine(Client::builder()) } else { Client::builder() };
        let settling = careful(client()).pool_max_idle_per_host(0).build().ok()?;
        Some(Self { base, authorizer, asking: careful(client()).build().ok()?, settling })
    }

    /// Sends a request: a `GET` without a body, or a `POST` with that JSON. The caller sets the time limit.
    pub(super) async fn send(&self, action: FacilitatorAction, body: Option<String>) -> Result<Answer, Fault> {
        metrics::facilitator(action.as_str(), self.exchange(action, body)).await
    }

    async fn exchange(&self, action: FacilitatorAction, body: Option<String>) -> Result<Answer, Fault> {
        let url = self.url(action);
        let mut headers = self.authorization(action, &url).await?;
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let client = if action == FacilitatorAction::Settle { &self.settling } else { &self.asking };
        let mut request = client.request(action.method(), url);
        if let Some(body) = body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request = request.body(body);
        }
        let response = request.headers(headers).send().await.map_err(|error| fault(&error))?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        Ok(Answer { status, retry_after, body: read(response).await? })
    }

    async fn authorization(&self, action: FacilitatorAction, url: &Url) -> Result<HeaderMap, Fault> {
        let Some(authorizer) = &self.authorizer else { return Ok(HeaderMap::new()) };
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let call = FacilitatorCall { action, host, path: url.path().to_owned() };
        authorizer.headers(call).await.ok_or(Fault::NotSent)
    }

    /// Returns the base URL, with or without a trailing slash, with the action appended; its query stays.
    fn url(&self, action: FacilitatorAction) -> Url {
        let mut url = self.base.clone();
        // An HTTP URL always has path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(action.as_str());
        }
        url
    }
}

/// Turns off redirects, retries and compression.
fn careful(client: ClientBuilder) -> ClientBuilder {
    client
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .http1_only()
        .connect_timeout(CONNECT)
}

/// Turns off proxies from the environment, and fixes the address of `localhost`.
fn on_this_machine(client: ClientBuilder) -> ClientBuilder {
    // Port 0 means the port of the request.
    let here = [SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    client.no_proxy().resolve_to_addrs("localhost", &here)
}

fn fault(error: &reqwest::Error) -> Fault {
    if error.is_connect() || error.is_builder() { Fault::NotSent } else { Fault::Lost }
}

/// Returns `Retry-After` in seconds. A date is ignored, because the facilitator's clock may differ.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn read(mut response: Response) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| Fault::Lost)? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(Fault::Lost);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str) -> Option<String> {
        Transport::new(base, None).map(|transport| transport.url(FacilitatorAction::Verify).to_string())
    }

    #[test]
    fn an_action_is_a_segment_below_the_base() {
        for (base, verify) in [
            ("https://f.example", "https://f.example/verify"),
            (" https://f.example/ ", "https://f.example/verify"),
            ("https://f.example/a/b", "https://f.example/a/b/verify"),
            ("https://f.example/a/b/", "https://f.example/a/b/verify"),
            ("https://f.example/a?key=k#part", "https://f.example/a/verify?key=k"),
            ("http://localhost:4021", "http://localhost:4021/verify"),
            ("http://127.0.0.1:4021/x/", "http://127.0.0.1:4021/x/verify"),
            ("http://[::1]:4021", "http://[::1]:4021/verify"),
        ] {
            assert_eq!(url(base).as_deref(), Some(verify), "{base}");
        }
    }

    #[test]
    fn what_is_not_encrypted_stays_on_this_machine() {
        for base in ["", "f.example", "http://f.example", "http://10.0.0.1", "ftp://f.example", "http://127.1.evil"] {
            assert_eq!(url(base), None, "{base}");
        }
    }

    #[test]
    fn neither_url_nor_key_is_shown() {
        let transport = Transport::new("https://user:secret@f.example/secret?key=secret", None);
        assert!(transport.is_some_and(|transport| !format!("{transport:#?}").contains("secret")));
    }
}
