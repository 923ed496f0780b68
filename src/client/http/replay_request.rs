//! `ReplayRequest`: a request that may be sent several times, without payment and with its proof.

use std::collections::HashMap;

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, header,
    request::Parts,
    uri::{Authority, Scheme},
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{
    client::{
        AlreadyPaid, AskAgain, Deadline, MaxPrice, PurchaseId, QuoteOnly, ReplayBody, ResumeOnly, http::host,
        pass::PassOrder,
    },
    protocol::{
        Amount, Media, TxHash,
        headers::{IDEMPOTENCY_KEY, PAYMENT_AUTHORIZATION, PAYMENT_SIGNATURE, X_PAYMENT, X402_PAYMENT},
        is_loopback, is_proof_member, mpp,
    },
};

/// Where a proof of payment travels in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofIn {
    /// In the `x402-payment` header: works for every body, on every route.
    #[default]
    Header,
    /// As members of the JSON body, if that is an object. Otherwise, or if the seller rejects that, in the header.
    Body,
}

/// A proof of payment in its transport form.
pub(crate) enum CarriedProof {
    /// A header, and the name of its purchase for `Idempotency-Key`.
    Header(HeaderName, HeaderValue, Option<HeaderValue>),
    /// Members for the JSON object in the body.
    Members(String),
}

impl CarriedProof {
    /// Creates a proof in a header. `text` must be ASCII without control characters.
    pub(crate) fn in_header(name: HeaderName, text: String) -> Self {
        // Such text is a valid header value, so the fallback cannot be reached.
        let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        // Sensitive, because the first to present it gets the answer.
        value.set_sensitive(true);
        Self::Header(name, value, None)
    }

    /// Adds the name of its purchase. `purchase` must be such text as well.
    pub(crate) fn naming(self, purchase: Option<String>) -> Self {
        match self {
            Self::Header(name, value, _) => {
                Self::Header(name, value, purchase.and_then(|purchase| purchase.try_into().ok()))
            }
            members => members,
        }
    }
}

pub(crate) struct ReplayRequest<B> {
    parts: Parts,
    /// The body; `None` once it was sent and could not be kept.
    body: Option<B>,
    /// The body's bytes, if it is in memory.
    bytes: Option<Bytes>,
    pub(crate) identity: RequestIdentity,
}

/// The properties that identify a request.
pub(crate) struct RequestIdentity {
    /// The host in canonical form, with the port unless it is the scheme's default; empty if the request names none.
    pub(crate) host: String,
    /// Method and path, for the journal.
    pub(crate) what: String,
    /// Identifies the same request; `None` if its body cannot be identified.
    pub(crate) fingerprint: Option<String>,
    /// Whether a pass layer buys a pass with it.
    pub(crate) is_pass: bool,
}

impl<B: ReplayBody> ReplayRequest<B> {
    pub(crate) fn new(request: Request<B>) -> Self {
        let (parts, body) = request.into_parts();
        let bytes = body.bytes();
        let host = host_of(&parts).unwrap_or_default();
        let what = format!("{} {}", parts.method, parts.uri.path());
        let content =
            bytes.as_deref().map(|bytes| ("bytes", bytes)).or(body.name().map(|name| ("name", name.as_bytes())));
        let fingerprint = content.map(|(kind, content)| fingerprint(&parts, &host, kind, content));
        let is_pass = parts.extensions.get().is_some_and(PassOrder::buys_a_pass);
        let identity = RequestIdentity { host, what, fingerprint, is_pass };
        Self { identity, bytes, parts, body: Some(body) }
    }

    pub(crate) fn resumes_only(&self) -> bool {
        self.parts.extensions.get::<ResumeOnly>().is_some()
    }

    /// Returns the finished purchase whose answer the request asks for again.
    pub(crate) fn asks_again(&self) -> Option<PurchaseId> {
        self.parts.extensions.get::<AskAgain>().map(|again| again.0)
    }

    pub(crate) fn is_quote_only(&self) -> bool {
        self.parts.extensions.get::<QuoteOnly>().is_some()
    }

    /// Returns the order of a pass layer, if there is one.
    pub(crate) fn pass_order(&self) -> Option<&PassOrder> {
        self.parts.extensions.get()
    }

    pub(crate) fn pays_nothing_new(&self) -> bool {
        self.pass_order().is_some_and(PassOrder::pays_nothing_new)
    }

    pub(crate) fn max_price(&self) -> Option<Amount> {
        self.parts.extensions.get::<MaxPrice>().map(|max| max.0)
    }

    /// Returns the limit for a resumed purchase. A pass's quoted price limits only new payments.
    pub(crate) fn max_price_of_resumed(&self) -> Option<Amount> {
        let most = self.max_price();
        self.pass_order().map_or(most, |order| order.limit_of_resumed(most))
    }

    /// Returns the deadline of the call and its answer.
    pub(crate) fn limit(&self, started: Instant) -> Option<Instant> {
        started.checked_add(self.parts.extensions.get::<Deadline>()?.0)
    }

    pub(crate) fn paid(&self) -> Option<TxHash> {
        self.parts.extensions.get::<AlreadyPaid>().map(|paid| paid.0)
    }

    /// Returns whether the caller sends its own proof, and so pays for itself.
    pub(crate) fn has_own_proof(&self) -> bool {
        has_proof(&self.parts.headers)
    }

    /// Returns whether the request has the caller's own credentials for the service.
    pub(crate) fn is_authorized(&self) -> bool {
        self.parts.headers.contains_key(header::AUTHORIZATION)
    }

    /// Returns whether a proof would replace the caller's own credentials.
    pub(crate) fn has_in_the_way(&self, proof: &CarriedProof) -> bool {
        matches!(proof, CarriedProof::Header(name, ..) if *name == header::AUTHORIZATION) && self.is_authorized()
    }

    pub(crate) fn is_head(&self) -> bool {
        self.parts.method == Method::HEAD
    }

    /// Returns whether the answer could be changed on the path. A request that names no scheme counts as plain HTTP.
    pub(crate) fn is_plain_http(&self) -> bool {
        let uri = &self.parts.uri;
        let is_here = || uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some_and(is_loopback);
        uri.scheme() != Some(&Scheme::HTTPS) && !is_here()
    }

    pub(crate) const fn method(&self) -> &Method {
        &self.parts.method
    }

    pub(crate) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// Returns the address without the query, which may hold secrets, and the method.
    pub(crate) fn place(&self) -> (String, String) {
        let Parts { uri, method, .. } = &self.parts;
        let scheme = uri.scheme_str().unwrap_or("https");
        (format!("{scheme}://{}{}", self.identity.host, uri.path()), method.to_string())
    }

    /// Returns a copy of the caller's request; `None` if the body cannot be replayed.
    pub(crate) fn plain(&self) -> Option<Request<B>> {
        Some(Request::from_parts(self.parts.clone(), self.body.as_ref()?.replay()?))
    }

    /// Returns the caller's request, and gives up the body.
    pub(crate) fn take_plain(&mut self) -> Option<Request<B>> {
        Some(Request::from_parts(self.parts.clone(), self.body.take()?))
    }

    /// Returns whether a proof can travel in the body.
    pub(crate) fn takes_proof_in_body(&self) -> bool {
        self.with_members("").is_some()
    }

    /// Returns the request with a proof; `None` if the body cannot be sent again, or cannot hold a proof.
    pub(crate) fn proven(&self, proof: &CarriedProof) -> Option<Request<B>> {
        match proof {
            CarriedProof::Header(name, value, purchase) => {
                let mut request = self.plain()?;
                request.headers_mut().insert(name, value.clone());
                if let Some(purchase) = purchase {
                    // A name set by the caller serves equally well.
                    request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert_with(|| purchase.clone());
                }
                Some(request)
            }
            CarriedProof::Members(members) => {
                let mut parts = self.parts.clone();
                parts.headers.remove(header::CONTENT_LENGTH);
                Some(Request::from_parts(parts, self.with_members(members)?))
            }
        }
    }

    /// Returns the JSON object with these members in front; every other byte is unchanged.
    fn with_members(&self, proof: &str) -> Option<B> {
        let (text, members) = members(&self.parts.headers, self.bytes.as_ref()?)?;
        if members.keys().any(|name| is_proof_member(name)) {
            return None;
        }
        let rest = text.trim_start().strip_prefix('{')?;
        let comma = if members.is_empty() { "" } else { "," };
        B::from_bytes(Bytes::from(format!("{{{proof}{comma}{rest}")))
    }
}

/// Returns whether a request has extensions that direct the payment.
pub(crate) fn has_directives(extensions: &Extensions) -> bool {
    extensions.get::<ResumeOnly>().is_some()
        || extensions.get::<AlreadyPaid>().is_some()
        || extensions.get::<AskAgain>().is_some()
        || extensions.get::<MaxPrice>().is_some()
        || extensions.get::<QuoteOnly>().is_some()
        || extensions.get::<Deadline>().is_some()
        || extensions.get::<PassOrder>().is_some()
}

/// Returns whether the caller sent its own proof in a header.
pub(crate) fn has_proof(headers: &HeaderMap) -> bool {
    let shows_credential = |value: &HeaderValue| mpp::token(value.as_bytes()).is_some();
    // Iterate over the existing names: a lookup would hash each name searched for.
    headers.iter().any(|(name, value)| {
        [X402_PAYMENT, PAYMENT_SIGNATURE, X_PAYMENT, PAYMENT_AUTHORIZATION].contains(name)
            || (name == header::AUTHORIZATION && shows_credential(value))
    })
}

/// Returns whether the body has members that are or look like a proof.
pub(crate) fn has_proof_members(headers: &HeaderMap, body: &[u8]) -> bool {
    members(headers, body).is_some_and(|(_, members)| members.keys().any(|name| is_proof_member(name)))
}

/// Returns the members of a JSON object body, with its text.
fn members<'a>(headers: &HeaderMap, body: &'a [u8]) -> Option<(&'a str, HashMap<String, &'a RawValue>)> {
    if Media::of(headers) != Media::Json || headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    let text = std::str::from_utf8(body).ok()?;
    Some((text, serde_json::from_str(text).ok()?))
}

/// Returns the host of the address, or of the only `Host` header.
fn host_of(parts: &Parts) -> Option<String> {
    if let Some(authority) = parts.uri.authority() {
        let usual = match parts.uri.scheme().map(Scheme::as_str) {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        };
        return host::with_port(authority, usual);
    }
    let mut named = parts.headers.get_all(header::HOST).iter();
    let (Some(only), None) = (named.next(), named.next()) else { return None };
    let authority: Authority = only.to_str().ok()?.parse().ok()?;
    host::with_port(&authority, None)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Body;

    fn print(method: &str, uri: &str, body: Body) -> String {
        let request = Request::builder().method(method).uri(uri).body(body).unwrap();
        ReplayRequest::new(request).identity.fingerprint.unwrap()
    }

    fn named(name: &str) -> Body {
        Body::from_factory(name, Body::empty)
    }

    /// Two requests mistaken for one would be paid once, and one of them never answered.
    #[test]
    fn requests_that_differ_anywhere_are_different() {
        let print_of = |method, uri, body: &'static str| print(method, uri, Body::from(body));
        let all = [
            print_of("POST", "https://a.example/x", "body"),
            print_of("PUT", "https://a.example/x", "body"),
            print_of("POST", "http://a.example/x", "body"),
            print_of("POST", "https://b.example/x", "body"),
            print_of("POST", "https://a.example:8443/x", "body"),
            print_of("POST", "https://a.example/y", "body"),
            print_of("POST", "https://a.example/x?", "body"),
            print_of("POST", "https://a.example/x?q", "body"),
            print_of("POST", "https://a.example/x", "other"),
            print_of("POST", "https://a.example/x", ""),
            // The same concatenated bytes, split at other places.
            print_of("POST", "https://a.example/xbytes", ""),
            print_of("POST", "https://a.example/", "xbytesbody"),
            print_of("POST", "https://a.example/xbytesbytesbody", ""),
            print_of("POST", "https://a.example/xbytes", "bytesbody"),
            print_of("POST", "https://a.example/x", "bytesbytesbody"),
            // A name differs from equal content.
            print("POST", "https://a.example/x", named("body")),
            print("POST", "https://a.example/x", named("")),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
        let spelled = print_of("POST", "https://me:pass@A.Example.:443/x", "body");
        assert_eq!(all[0], spelled, "one host has one spelling");
        // Open purchases in a journal are found by the fingerprint, so an update must not change it.
        assert_eq!(all[0], "428a425d080e4037104eb02bbc0e03e7");
    }
}
