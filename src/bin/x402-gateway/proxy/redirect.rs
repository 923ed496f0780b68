//! Classifies redirects: to the service itself, or back to the requested resource.

use http::{Method, StatusCode, Uri};
use url::{Position, Url};

use super::super::routes::path::CleanPath;

/// The addresses of a service.
#[derive(Debug)]
pub(super) struct Site<'a> {
    /// The upstream's URL.
    pub(super) upstream: &'a Uri,
    /// The service's public URL, if configured.
    pub(super) public: Option<&'a Uri>,
    /// The host that the upstream was told: the public one, or else the one that this client named.
    pub(super) told: Option<&'a str>,
}

/// The request that the upstream got.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) uri: &'a Uri,
    pub(super) method: &'a Method,
    /// Whether the same route sells a GET of this path.
    pub(super) get_has_same_target: bool,
}

impl Asked<'_> {
    /// Returns whether a redirect of this status to the same path is no answer, because the same route sells the
    /// request that follows. Clients continue with a GET after a 303, and after a 302 to a POST. They do so after a
    /// 301 too, but a resource that moved permanently did not answer here.
    pub(super) fn is_not_answered_by(&self, status: StatusCode) -> bool {
        let goes_on_by_get = match status {
            StatusCode::MOVED_PERMANENTLY | StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
            StatusCode::FOUND => *self.method == Method::POST,
            _ => !matches!(*self.method, Method::GET | Method::HEAD),
        };
        self.get_has_same_target || !goes_on_by_get
    }
}

impl Site<'_> {
    /// Rewrites a location on the upstream itself to the path by which clients reach it.
    pub(super) fn relative(&self, place: &str) -> Option<String> {
        let path = match Url::parse(place) {
            Ok(url) if is_at(&url, authority(self.upstream)?) => url[Position::BeforePath..].to_owned(),
            Err(_) if place.starts_with('/') => place.to_owned(),
            _ => return None,
        };
        let path = path.strip_prefix(self.upstream.path().trim_end_matches('/'))?;
        match path.as_bytes().first() {
            // A second slash would name another host.
            Some(b'/') if !path.starts_with("//") && !path.starts_with("/\\") => Some(path.to_owned()),
            None | Some(b'?' | b'#') => Some(format!("/{path}")),
            _ => None,
        }
    }

    /// Returns whether a redirect leads to the requested resource in another spelling, such as with a trailing slash.
    pub(super) fn leads_back(&self, place: &str, asked: &Uri) -> bool {
        let Some((asked, there)) = self.resolved(place, asked) else { return false };
        let is_ours = |of: Option<&Uri>| of.and_then(authority).is_some_and(|authority| is_at(&there, authority));
        let is_told = self.public.is_none() && self.told.is_some_and(|told| is_at(&there, told));
        let user = &there[Position::BeforeUsername..Position::BeforeHost];
        let adds = !user.is_empty() || there[Position::AfterPath..] != asked[Position::AfterPath..];
        let segments: fn(&CleanPath) -> &[String] = if is_ours(Some(self.upstream)) || is_ours(self.public) {
            CleanPath::segments
        } else if is_told && !adds {
            // A client may name somebody else's host, so such a redirect may tell the client only what it sent
            // itself.
            CleanPath::decoded
        } else {
            return false;
        };
        let (Ok(there), Ok(asked)) = (CleanPath::read(there.path()), CleanPath::read(asked.path())) else {
            return false;
        };
        let bases = [Some("/"), Some(self.upstream.path()), self.public.map(Uri::path)];
        let mut bases = bases.into_iter().flatten().filter_map(|base| CleanPath::read(base).ok());
        bases.any(|base| segments(&there).strip_prefix(segments(&base)) == Some(segments(&asked)))
    }

    /// Resolves the request and the location to URLs. A location without a host is at the upstream.
    fn resolved(&self, place: &str, asked: &Uri) -> Option<(Url, Url)> {
        let asked = format!("http://{}{}", authority(self.upstream)?, asked.path_and_query()?);
        let asked = Url::parse(&asked).ok()?;
        let there = asked.join(place).ok()?;
        Some((asked, there))
    }
}

fn authority(url: &Uri) -> Option<&str> {
    url.authority().map(|authority| authority.as_str())
}

/// Returns whether a URL is at this host. The ports of http and https count as one: behind a proxy, few services know
/// theirs.
fn is_at(place: &Url, authority: &str) -> bool {
    let port = |url: &Url| url.port().filter(|port| !matches!(port, 80 | 443));
    let is_host = |host: Url| host.host_str() == place.host_str() && port(&host) == port(place);
    matches!(place.scheme(), "http" | "https") && Url::parse(&format!("http://{authority}")).is_ok_and(is_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = "http://10.0.0.1:9000";

    fn leads_back(upstream: &str, public: Option<&str>, asked: &str, place: &str) -> bool {
        let (upstream, public) = (upstream.parse().unwrap(), public.map(|public| public.parse::<Uri>().unwrap()));
        let told = public.as_ref().map_or(Some("shop.example"), authority);
        let site = Site { upstream: &upstream, public: public.as_ref(), told };
        site.leads_back(place, &asked.parse().unwrap())
    }

    #[test]
    fn redirects_lead_back_in_every_form() {
        for (asked, place, back) in [
            ("/reports/1", "/reports/1/", true),
            ("/reports/1", "/Reports/%31;v=1", true),
            ("/reports/1", "1/", true),
            ("/reports/1", "./1/", true),
            ("/reports/1/", "../1", true),
            ("/reports/1/", "./", true),
            ("/reports/1/", "", true),
            ("/reports/1", "?x=1", true),
            ("/reports/1?x=1", "#end", true),
            ("/reports/1", "//10.0.0.1:9000/reports/1/", true),
            ("/reports/1", "http://10.0.0.1:9000/reports/1/", true),
            ("/reports/1", "https://10.0.0.1:9000/reports/1?x=1", true),
            ("/reports/1", "http://shop.example/reports/1/", true),
            ("/reports/1", "https://SHOP.example:443/reports/1/", true),
            ("/reports/1?x=1", "https://shop.example/reports/1/?x=1", true),
            ("/r%C3%A9ports/1", "/réports/1/", true),
            ("/reports/1", "/reports/2", false),
            ("/reports/1", "2", false),
            ("/reports/1", "./", false),
            ("/reports/1", "/reports/1/2", false),
            ("/reports/1", "/x/reports/1", false),
            ("/reports/1", "//other.example/reports/1/", false),
            ("/reports/1", "http://other.example/reports/1/", false),
            ("/reports/1", "http://10.0.0.1:9001/reports/1/", false),
            ("/reports/1", "ftp://10.0.0.1:9000/reports/1/", false),
            ("/reports/1", "data:,/reports/1", false),
            ("/reports/1", "http://[/reports/1", false),
        ] {
            assert_eq!(leads_back(UPSTREAM, None, asked, place), back, "{asked} to {place}");
        }
    }

    #[test]
    fn a_redirect_is_no_answer_if_what_follows_is_sold_alike() {
        let uri = Uri::from_static("/jobs");
        for (method, status, get_has_same_target, is_no_answer) in [
            (Method::GET, 301, true, true),
            (Method::GET, 303, true, true),
            (Method::HEAD, 302, false, true),
            (Method::HEAD, 303, false, true),
            (Method::POST, 300, false, false),
            (Method::POST, 301, false, true),
            (Method::POST, 302, false, false),
            (Method::POST, 303, false, false),
            (Method::POST, 307, false, true),
            (Method::POST, 308, false, true),
            (Method::POST, 301, true, true),
            (Method::POST, 303, true, true),
            (Method::PUT, 302, false, true),
            (Method::PATCH, 301, false, true),
            (Method::DELETE, 302, false, true),
            (Method::PUT, 303, false, false),
            (Method::PUT, 308, false, true),
            (Method::DELETE, 303, true, true),
        ] {
            let asked = Asked { uri: &uri, method: &method, get_has_same_target };
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                asked.is_not_answered_by(status),
                is_no_answer,
                "{method} {status}, GET alike: {get_has_same_target}"
            );
        }
    }

    #[test]
    fn paths_below_a_base_lead_back() {
        let (upstream, public) = ("https://api.example/v1/", Some("https://public.example/shop"));
        for (place, back) in [
            ("/v1/reports/1/", true),
            ("http://api.example/v1/reports/1/", true),
            ("http://public.example/reports/1/", true),
            ("https://public.example/shop/reports/1/", true),
            ("reports/1/", false),
            ("/v1", false),
            ("/v1/v1/reports/1", false),
            ("/v10/reports/1", false),
            // With a public address, the host that clients name does not count.
            ("https://shop.example/reports/1/", false),
        ] {
            assert_eq!(leads_back(upstream, public, "/reports/1", place), back, "{place}");
        }
    }

    #[test]
    fn a_client_that_names_the_host_of_others_does_not_make_their_addresses_ours() {
        for place in [
            "shop.example/reports/1?signature=7",
            "shop.example/reports/1#signature=7",
            "shop.example/reports/1;signature=7",
            "shop.example/reports/1/7",
            "user@shop.example/reports/1",
            ":password@shop.example/reports/1",
        ] {
            assert!(!leads_back(UPSTREAM, None, "/reports/1", &format!("https://{place}")), "{place}");
        }
    }

    #[test]
    fn places_on_the_upstream_are_named_as_clients_reach_them() {
        for (upstream, place, shown) in [
            (UPSTREAM, "http://10.0.0.1:9000/x?y=1#z", Some("/x?y=1#z")),
            (UPSTREAM, "https://10.0.0.1:9000/x", Some("/x")),
            (UPSTREAM, "http://10.0.0.1:9000", Some("/")),
            (UPSTREAM, "http://10.0.0.1:9000//other.example/", None),
            (UPSTREAM, "http://10.0.0.1:9001/x", None),
            (UPSTREAM, "ftp://10.0.0.1:9000/x", None),
            (UPSTREAM, "https://other.example/x", None),
            (UPSTREAM, "x/", None),
            (UPSTREAM, "//other.example/x", None),
            ("https://api.example/v1", "https://api.example/v1/x", Some("/x")),
            ("https://api.example/v1", "https://api.example/v1?x", Some("/?x")),
            ("https://api.example/v1", "/v1/x", Some("/x")),
            ("https://api.example/v1", "/v1//other.example", None),
            ("https://api.example/v1", "/v10/x", None),
        ] {
            let url = upstream.parse().unwrap();
            let site = Site { upstream: &url, public: None, told: None };
            assert_eq!(site.relative(place).as_deref(), shown, "{place}");
        }
    }
}
