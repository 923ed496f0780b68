//! A request that may be sent several times: without payment, and with its proof.

use std::collections::HashMap;

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, header,
    request::Parts,
    uri::{Authority, Scheme},
};
use serde_json::value::RawValue;

use super::{Paid, ReplayBody, ResumeOnly};
use crate::protocol::{TxHash, ascii_json, headers::X402_PAYMENT};

/// Where a proof of payment travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofIn {
    /// In the `x402-payment` header: for every body, on every route.
    #[default]
    Header,
    /// As members of the JSON body, where that is an object; else, and where the seller will not have it, in the header.
    Body,
}

pub(super) struct Order<B> {
    parts: Parts,
    /// `None` once it was sent and could not be kept.
    body: Option<B>,
    /// The body, where it is in memory.
    bytes: Option<Bytes>,
    /// Host, and port where it is not the scheme's own, in lower case; empty where the request names none.
    pub(super) host: String,
    /// Method and path, for the journal.
    pub(super) what: String,
    /// Tells the same request again from any other; `None` where its body cannot be told.
    pub(super) fingerprint: Option<String>,
}

impl<B: ReplayBody> Order<B> {
    pub(super) fn new(request: Request<B>) -> Self {
        let (parts, body) = request.into_parts();
        let bytes = body.bytes();
        let host = match (parts.uri.authority(), parts.headers.get(header::HOST)) {
            (Some(authority), _) => host_and_port(authority, parts.uri.scheme()),
            (None, Some(host)) => host.to_str().unwrap_or_default().to_ascii_lowercase(),
            (None, None) => String::new(),
        };
        let what = format!("{} {}", parts.method, parts.uri.path());
        let content =
            bytes.as_deref().map(|bytes| ("bytes", bytes)).or(body.name().map(|name| ("name", name.as_bytes())));
        let fingerprint = content.map(|(kind, content)| fingerprint(&parts, &host, kind, content));
        Self { host, what, fingerprint, bytes, parts, body: Some(body) }
    }

    pub(super) fn resumes_only(&self) -> bool {
        self.parts.extensions.get::<ResumeOnly>().is_some()
    }

    pub(super) fn paid(&self) -> Option<TxHash> {
        self.parts.extensions.get::<Paid>().map(|paid| paid.0)
    }

    /// Whether the caller sends a proof of his own: then he pays for himself.
    pub(super) fn has_own_proof(&self) -> bool {
        self.parts.headers.contains_key(X402_PAYMENT)
    }

    pub(super) fn is_head(&self) -> bool {
        self.parts.method == Method::HEAD
    }

    /// Whether an answer can be changed by somebody on the way.
    pub(super) fn is_plain_http(&self) -> bool {
        let loopback = || self.parts.uri.host().is_some_and(is_loopback);
        self.parts.uri.scheme() == Some(&Scheme::HTTP) && !loopback()
    }

    /// The request as the caller made it.
    pub(super) fn plain(&self) -> Option<Request<B>> {
        Some(Request::from_parts(self.parts.clone(), self.body.as_ref()?.replay()?))
    }

    /// The same, once.
    pub(super) fn take_plain(&mut self) -> Option<Request<B>> {
        Some(Request::from_parts(self.parts.clone(), self.body.take()?))
    }

    /// Whether a proof can travel in the body.
    pub(super) fn takes_proof_in_body(&self) -> bool {
        self.with_members("", TxHash::new([0; 32])).is_some()
    }

    /// The request with its proof; `None` where the body cannot be sent again, or can hold no proof.
    pub(super) fn redeeming(&self, intent: &str, transaction: TxHash, place: ProofIn) -> Option<Request<B>> {
        if place == ProofIn::Body {
            let mut parts = self.parts.clone();
            parts.headers.remove(header::CONTENT_LENGTH);
            return Some(Request::from_parts(parts, self.with_members(intent, transaction)?));
        }
        let mut request = self.plain()?;
        let proof = format!(r#"{{"intentId":{},"txHash":"{transaction}"}}"#, ascii_json(intent));
        // ASCII without control characters is a header value; the fall-back cannot be reached.
        let mut proof = HeaderValue::try_from(proof).unwrap_or(HeaderValue::from_static(""));
        // Whoever has it first gets the answer.
        proof.set_sensitive(true);
        request.headers_mut().insert(X402_PAYMENT, proof);
        Some(request)
    }

    /// The JSON object with the two members put in front; every other byte stays as it is.
    fn with_members(&self, intent: &str, transaction: TxHash) -> Option<B> {
        let content_type = self.parts.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        if !is_json(content_type) || self.parts.headers.contains_key(header::CONTENT_ENCODING) {
            return None;
        }
        let text = std::str::from_utf8(self.bytes.as_ref()?).ok()?;
        let members: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        if members.contains_key("intentId") || members.contains_key("txHash") {
            return None;
        }
        let rest = text.trim_start().strip_prefix('{')?;
        let comma = if members.is_empty() { "" } else { "," };
        let proof = format!(r#"{{"intentId":{},"txHash":"{transaction}"{comma}{rest}"#, ascii_json(intent));
        B::from_bytes(Bytes::from(proof))
    }
}

/// Without user and password, and in one spelling: the limit per host is by it.
fn host_and_port(authority: &Authority, scheme: Option<&Scheme>) -> String {
    let host = authority.host().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let usual = match scheme.map(Scheme::as_str) {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    };
    match authority.port_u16().filter(|port| Some(*port) != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "text/json") || essence.ends_with("+json")
}

fn fingerprint(parts: &Parts, host: &str, kind: &str, content: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    field(parts.method.as_str().as_bytes());
    field(parts.uri.scheme_str().unwrap_or_default().as_bytes());
    field(host.as_bytes());
    field(parts.uri.path_and_query().map_or("/", |path| path.as_str()).as_bytes());
    field(kind.as_bytes());
    field(content);
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    const_hex::encode(digest)
}
