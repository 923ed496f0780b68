//! The routes: where a request goes, by its method and path.

mod fold;
pub(crate) mod path;
pub(crate) mod pattern;

use std::ptr;

use http::{HeaderMap, Method, header};
use tower_x402::{X402, mcp::Mcp, protocol::Amount};

use self::{
    path::{CleanPath, Reading},
    pattern::Pattern,
};
use super::proxy::Proxy;

/// All routes, in the order of the file, and the target of unmatched requests.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) routes: Vec<Route>,
    pub(crate) default: Target,
    /// The MCP endpoint, which takes precedence over the routes.
    pub(crate) mcp: Option<Route>,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) pattern: Pattern,
    pub(crate) target: Target,
}

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// To the upstream, without payment.
    Free,
    /// Refused.
    Deny,
    /// Through the paywall to the upstream.
    Sell(Sold),
    /// To the upstream's MCP endpoint, which sells its tools.
    Tools(Mcp<Proxy>),
}

/// A priced target.
#[derive(Clone, Debug)]
pub(crate) struct Sold {
    pub(crate) service: X402<Proxy>,
    /// The maximum price.
    pub(crate) most: Amount,
    /// Whether browsers get a page, whose form arrives by POST and is passed on as a GET.
    pub(crate) page: bool,
}

/// The target that was found for a request.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    /// The only method to pass the request on with: another method would get something else than what was priced.
    pub(crate) only: Option<Method>,
    /// Whether a GET of the path goes to the same target.
    pub(crate) get_has_same_target: bool,
}

impl Routes {
    /// Returns the target of the first route that matches, or the default.
    pub(crate) fn find(&self, method: &Method, path: &CleanPath, headers: &HeaderMap) -> Found {
        let named = self.target_of(method, path);
        if matches!(*method, Method::GET | Method::HEAD) {
            let target = named.unwrap_or(&self.default).clone();
            return Found { target, only: None, get_has_same_target: *method == Method::GET };
        }
        let get = self.target_of(&Method::GET, path);
        let found = |target: &Target, only| {
            let get_has_same_target = ptr::eq(target, get.unwrap_or(&self.default));
            Found { target: target.clone(), only, get_has_same_target }
        };
        if method == Method::POST {
            // The form of a page becomes a GET of its path, so it must be sold by the route of that GET.
            let page = get.filter(|target| target.has_page());
            return match (named, page) {
                (None, Some(page)) if is_form(headers) => found(page, Some(Method::GET)),
                (Some(named), Some(page)) if ptr::eq(named, page) => found(named, None),
                (named, _) => found(named.unwrap_or(&self.default), Some(Method::POST)),
            };
        }
        found(named.unwrap_or(&self.default), None)
    }

    /// Returns the target of the routes that match a reading of the path: the most expensive one. `None` if no
    /// reading matches.
    fn target_of(&self, method: &Method, path: &CleanPath) -> Option<&Target> {
        let or_default = |named: Option<_>| named.unwrap_or(&self.default);
        let has_end = path.as_str().ends_with('/');
        let targets = path.readings().map(|reading| self.target_of_reading(method, reading, has_end));
        targets.reduce(|dearest, other| match (dearest, other) {
            (None, None) => None,
            _ => Some(or_default(dearest).or_dearer(or_default(other))),
        })?
    }

    /// Finds the target for one reading of a path, which may end in a slash.
    ///
    /// A server mounted at the MCP endpoint may serve its tools at every path below it, except where its own routes
    /// take precedence.
    fn target_of_reading<'a>(&'a self, method: &Method, path: &Reading, has_end: bool) -> Option<&'a Target> {
        let exact = self.all().find(|route| route.pattern.matches_exactly(method, path));
        let read = self.target_without_mcp(method, path, exact);
        let Some(mcp) = self.mcp.as_ref().filter(|mcp| mcp.pattern.is_above(path)) else { return read };
        match exact.is_some_and(|route| route.pattern.names_below(&mcp.pattern)) && !has_end {
            true => read,
            false => Some(read.unwrap_or(&self.default).or_dearer(&mcp.target)),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Route> {
        self.mcp.iter().chain(&self.routes)
    }

    /// Finds the target of a reading regardless of the MCP endpoint. `exact` is the route that matches it exactly.
    fn target_without_mcp<'a>(
        &'a self,
        method: &Method,
        path: &Reading,
        exact: Option<&'a Route>,
    ) -> Option<&'a Target> {
        let first = self.all().find(|route| route.pattern.matches(method, path));
        let target = |route: Option<&'a Route>| route.map_or(&self.default, |route| &route.target);
        let read = first.map(|first| first.target.or_dearer(target(exact)));
        // A route that spells out the extension sets the price of such a path.
        if exact.is_some_and(|route| route.pattern.ends_in_text()) {
            return read;
        }
        let bare = self.all().find(|route| route.pattern.matches_with_extension(method, path));
        match bare {
            Some(bare) => Some(read.unwrap_or(&self.default).or_dearer(&bare.target)),
            None => read,
        }
    }
}

impl Target {
    const fn has_page(&self) -> bool {
        matches!(self, Self::Sell(sold) if sold.page)
    }

    /// Returns the more expensive target: the upstream may read the path either way.
    fn or_dearer<'a>(&'a self, other: &'a Self) -> &'a Self {
        match (self, other) {
            (Self::Free, _) | (_, Self::Deny) => other,
            (_, Self::Free) | (Self::Deny, _) | (Self::Tools(_), Self::Tools(_)) => self,
            (Self::Sell(mine), Self::Sell(theirs)) => {
                if mine.most > theirs.most {
                    self
                } else {
                    other
                }
            }
            // Neither is more expensive in every case.
            (Self::Sell(..), Self::Tools(_)) | (Self::Tools(_), Self::Sell(..)) => &Self::Deny,
        }
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
