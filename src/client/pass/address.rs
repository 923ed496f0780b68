//! `Address`: where a pass is bought.

use http::Uri;

use super::held::PassError;
use crate::{client::http::host::with_port, protocol::is_loopback};

/// Scheme, host and port in one spelling.
pub(super) fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    Some(format!("{scheme}://{}", with_port(uri.authority()?, Some(usual))?))
}

/// Where a pass is bought, and the seller's name of it, where a quote told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: Uri,
    pub(super) name: Option<String>,
}

impl Address {
    /// Takes an absolute `https` URL, or an `http` URL of this machine.
    pub(super) fn new(url: &str, name: Option<String>) -> Result<Self, PassError> {
        let url: Uri = url.parse().map_err(|_| PassError::Url)?;
        let is_private = url.scheme_str() == Some("https") || url.host().is_some_and(is_loopback);
        (is_private && origin(&url).is_some()).then_some(Self { url, name }).ok_or(PassError::Url)
    }

    /// Takes what a quote of this origin names, a path or a URL there; `None` if it is anything else. The address has one spelling, without
    /// the credentials that a URL may have: it is kept, and shown.
    pub(super) fn quoted(origin_of_quote: &str, named: &str, name: String) -> Option<Self> {
        let path = if named.starts_with('/') && !named.starts_with("//") {
            named.to_owned()
        } else {
            let url: Uri = named.parse().ok()?;
            (origin(&url)? == origin_of_quote).then(|| url.path_and_query().map(|path| path.as_str().to_owned()))??
        };
        Self::new(&format!("{origin_of_quote}{path}"), Some(name)).ok()
    }

    pub(super) fn origin(&self) -> Option<String> {
        origin(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_one_spelling() {
        let quoted = |named: &str| Some(Address::quoted("https://shop.example", named, "ten".into())?.url.to_string());
        for same in [
            "/pass?n=1",
            "https://shop.example/pass?n=1",
            "https://SHOP.example:443/pass?n=1",
            "https://me:secret@shop.example/pass?n=1",
        ] {
            assert_eq!(quoted(same).as_deref(), Some("https://shop.example/pass?n=1"), "{same}");
        }
        for other in ["", "pass", "//shop.example/pass", "http://shop.example/pass", "https://shop.example:8443/pass"] {
            assert_eq!(quoted(other), None, "{other}");
        }
    }
}
