//! The routes: what becomes of a request, by its method and path.

pub(crate) mod path;
pub(crate) mod pattern;

use http::{HeaderMap, Method, header};
use tower_x402::{X402, mcp::Mcp, protocol::Amount};

use self::{path::CleanPath, pattern::Pattern};
use super::proxy::Proxy;

/// All routes, in the order of the file, and what becomes of the rest.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) routes: Vec<Route>,
    pub(crate) default: Target,
    /// The MCP endpoint, which goes before them.
    pub(crate) mcp: Option<Route>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) pattern: Pattern,
    pub(crate) target: Target,
    /// Whether browsers get a page, whose form arrives by POST.
    pub(crate) page: bool,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// To the upstream.
    Free,
    /// Nowhere.
    Deny,
    /// Through the paywall to the upstream, for this amount at most.
    Sell(X402<Proxy>, Amount),
    /// To the upstream's MCP endpoint, whose tools are sold.
    Tools(Mcp<Proxy>),
}

/// What was found for a request.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    /// It is a form, which can only be that of the page: the upstream must not see it as the POST that it is.
    pub(crate) form_of_page: bool,
}

impl Routes {
    /// The first route that matches, or the default.
    pub(crate) fn find(&self, method: &Method, path: &CleanPath, headers: &HeaderMap) -> Found {
        let found = |target: &Target, form_of_page| Found { target: target.clone(), form_of_page };
        let all = || self.mcp.iter().chain(&self.routes);
        if let Some(route) = all().find(|route| route.pattern.matches(method, path)) {
            let exact = all().find(|route| route.pattern.matches_exactly(method, path));
            return found(route.target.or_dearer(exact.map_or(&self.default, |route| &route.target)), false);
        }
        if method == Method::POST && is_form(headers) {
            let paged = |route: &&Route| route.page && route.pattern.matches(&Method::GET, path);
            if let Some(route) = self.routes.iter().find(paged) {
                return found(&route.target, true);
            }
        }
        found(&self.default, false)
    }
}

impl Target {
    /// The one of both by which a request costs more: the upstream may read its path in either way.
    fn or_dearer<'a>(&'a self, other: &'a Self) -> &'a Self {
        match (self, other) {
            (Self::Free, _) | (_, Self::Deny) => other,
            (_, Self::Free) | (Self::Deny, _) | (Self::Tools(_), Self::Tools(_)) => self,
            (Self::Sell(_, mine), Self::Sell(_, theirs)) => {
                if mine > theirs {
                    self
                } else {
                    other
                }
            }
            // Neither costs more in all cases.
            (Self::Sell(..), Self::Tools(_)) | (Self::Tools(_), Self::Sell(..)) => &Self::Deny,
        }
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
