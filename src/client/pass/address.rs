//! `Address`: the address where a pass is bought.

use http::Uri;

use super::held::PassError;
use crate::{client::http::host::with_port, protocol::is_loopback};

/// Returns scheme, host and port in canonical form.
pub(super) fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri.scheme_str()?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    Some(format!("{scheme}://{}", with_port(uri.authority()?, Some(usual))?))
}

/// The address where a pass is bought, and the seller's name for the pass, if a quote gave one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: Uri,
    pub(super) name: Option<String>,
}

impl Address {
    /// Accepts an absolute `https` URL, or an `http` URL of this machine.
    pub(super) fn new(url: &str, name: Option<String>) -> Result<Self, PassError> {
        let url: Uri = url.parse().map_err(|_| PassError::Url)?;
        let is_private = url.scheme_str() == Some("https") || url.host().is_some_and(is_loopback);
        (is_private && origin(&url).is_some()).then_some(Self { url, name }).ok_or(PassError::Url)
    }

    /// Accepts the address that a quote of this origin names, as a path or as a URL of that origin; returns `None` for
    /// anything else. The result is canonical and without a URL's credentials, because it is stored and shown.
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
