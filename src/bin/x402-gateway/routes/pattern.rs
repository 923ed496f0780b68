//! `Pattern`: which requests a route matches.

use std::{fmt, str::FromStr as _};

use http::Method;

use super::path::{CleanPath, Reading};

/// A method and a path, such as `GET /reports/{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// `None` matches all methods.
    method: Option<Method>,
    segments: Vec<Segment>,
    /// Whether one or more segments may follow.
    rest: bool,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    Is { text: String, key: String },
}

impl Segment {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Is { key, .. }, Self::Is { key: theirs, .. }) => key == theirs,
            (Self::Is { .. }, Self::Any) => false,
        }
    }
}

fn takes_each(mine: &[Segment], theirs: &[String]) -> bool {
    mine.iter().zip(theirs).all(|(mine, theirs)| match mine {
        Segment::Any => true,
        Segment::Is { key, .. } => key == theirs,
    })
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The error says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (method, path) = match text.trim().split_once(char::is_whitespace) {
            Some((method, path)) => (Some(self::method(method)?), path.trim()),
            None => (None, text.trim()),
        };
        let Some(inside) = path.strip_prefix('/') else {
            return Err("write a method and a path, such as \"GET /reports/{id}\"".to_owned());
        };
        if let Some(wrong) = path.chars().find(|c| matches!(c, '?' | '#' | ';' | '\\') || c.is_whitespace()) {
            return Err(format!("a path cannot have {wrong:?}; routes are matched by their path alone"));
        }
        let mut written: Vec<&str> = inside.split('/').collect();
        if written.last() == Some(&"") {
            written.pop();
        }
        let rest = written.last().is_some_and(|last| is_rest(last));
        if rest {
            written.pop();
        }
        let segments = written.into_iter().map(segment).collect::<Result<_, _>>()?;
        let text = method.as_ref().map_or_else(|| path.to_owned(), |method| format!("{method} {path}"));
        Ok(Self { method, segments, rest, text })
    }

    /// Returns whether the pattern matches a request. A HEAD matches the pattern of a GET.
    pub(crate) fn matches(&self, method: &Method, path: &Reading) -> bool {
        self.takes(method) && self.takes_path(path)
    }

    /// Returns whether it matches a path that is spelled as in the pattern.
    pub(crate) fn matches_exactly(&self, method: &Method, path: &Reading) -> bool {
        let is_spelled = |(mine, theirs): (&Segment, &String)| match mine {
            Segment::Any => true,
            Segment::Is { text, .. } => text == theirs,
        };
        self.matches(method, path) && self.segments.iter().zip(path.decoded()).all(is_spelled)
    }

    /// Returns whether it matches in a service that also accepts any extension, such as `.json`, after the last
    /// segment.
    pub(crate) fn matches_with_extension(&self, method: &Method, path: &Reading) -> bool {
        let (Some((Segment::Is { key, .. }, mine)), Some((end, theirs))) =
            (self.segments.split_last(), path.segments().split_last())
        else {
            return false;
        };
        let is_extended = || end.strip_prefix(&**key).is_some_and(|rest| rest.starts_with('.'));
        !self.rest && self.takes(method) && mine.len() == theirs.len() && is_extended() && takes_each(mine, theirs)
    }

    /// Returns whether the pattern ends in a literal segment.
    pub(crate) fn ends_in_text(&self) -> bool {
        !self.rest && matches!(self.segments.last(), Some(Segment::Is { .. }))
    }

    /// Returns whether it matches the path, in at least one method.
    fn takes_path(&self, path: &Reading) -> bool {
        let (mine, theirs) = (&self.segments, path.segments());
        let long_enough = if self.rest { theirs.len() > mine.len() } else { theirs.len() == mine.len() };
        long_enough && takes_each(mine, theirs)
    }

    /// Returns whether a path lies below the pattern's path.
    pub(crate) fn is_above(&self, path: &Reading) -> bool {
        let (mine, theirs) = (&self.segments, path.segments());
        theirs.len() > mine.len() && takes_each(mine, theirs)
    }

    /// Returns whether the pattern has a literal segment below the other's path, instead of a wildcard.
    pub(crate) fn names_below(&self, other: &Self) -> bool {
        matches!(self.segments.get(other.segments.len()), Some(Segment::Is { .. }))
    }

    /// Returns whether it is the path of the whole service.
    pub(crate) const fn is_root(&self) -> bool {
        self.segments.is_empty() && !self.rest
    }

    /// Returns its method if that is never sold: its answers have no content, or the gateway refuses it.
    pub(crate) fn never_sold(&self) -> Option<&Method> {
        self.method.as_ref().filter(|method| matches!(**method, Method::HEAD | Method::CONNECT | Method::TRACE))
    }

    /// Returns whether it matches this method.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        match &self.method {
            None => true,
            Some(mine) => mine == method || mine == Method::GET && method == Method::HEAD,
        }
    }

    /// Returns whether it matches every request that the other pattern matches.
    pub(crate) fn shadows(&self, other: &Self) -> bool {
        let methods = match (&self.method, &other.method) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(theirs)) => self.takes(theirs),
        };
        let (mine, theirs) = (&self.segments, &other.segments);
        let lengths = match (self.rest, other.rest) {
            (true, true) => theirs.len() >= mine.len(),
            (true, false) => theirs.len() > mine.len(),
            (false, true) => false,
            (false, false) => theirs.len() == mine.len(),
        };
        methods && lengths && mine.iter().zip(theirs).all(|(mine, theirs)| mine.covers(theirs))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn method(text: &str) -> Result<Method, String> {
    let is_upper = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let method = Method::from_str(text).ok().filter(|_| is_upper);
    method.ok_or_else(|| format!("{text:?} is no method; write one in capitals, such as \"GET /reports/{{id}}\""))
}

fn is_rest(text: &str) -> bool {
    text.strip_prefix("{*").and_then(|name| name.strip_suffix('}')).is_some_and(is_name)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn segment(text: &str) -> Result<Segment, String> {
    if text.strip_prefix('{').and_then(|name| name.strip_suffix('}')).is_some_and(is_name) {
        return Ok(Segment::Any);
    }
    if is_rest(text) {
        return Err(format!("{text} must be the last segment"));
    }
    let bare = text.replace("{{", "").replace("}}", "");
    if bare.contains(['{', '}']) {
        return Err(format!("{text:?} is neither a text nor a whole segment such as {{id}} or {{*rest}}"));
    }
    if text.starts_with([':', '*']) {
        return Err(format!(
            "{text:?} is the old syntax; write {{id}} for a segment and {{*rest}} for all that follow"
        ));
    }
    let literal = text.replace("{{", "{").replace("}}", "}");
    let wrong = || format!("{text:?} is no segment of a path");
    let clean = CleanPath::read(&format!("/{literal}")).map_err(|_| wrong())?;
    match (clean.decoded(), clean.segments()) {
        ([text], [key]) => Ok(Segment::Is { text: text.clone(), key: key.clone() }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, method: &str, path: &str) -> bool {
        let (method, path) = (method.parse().unwrap(), CleanPath::read(path).unwrap());
        Pattern::parse(pattern).unwrap().matches(&method, path.readings().next().unwrap())
    }

    #[test]
    fn a_route_takes_what_it_says_in_every_spelling() {
        for (pattern, method, path, does) in [
            ("GET /reports/{id}", "GET", "/reports/1", true),
            ("GET /reports/{id}", "HEAD", "/reports/1", true),
            ("GET /reports/{id}", "POST", "/reports/1", false),
            ("GET /reports/{id}", "GET", "/reports", false),
            ("GET /reports/{id}", "GET", "/reports/", false),
            ("GET /reports/{id}", "GET", "/reports/1/", true),
            ("GET /reports/{id}", "GET", "/reports/1/2", false),
            ("GET /reports/{id}", "GET", "/Reports/1", true),
            ("GET /reports/{id}", "GET", "/REPORTS;v=1/1", true),
            ("GET /reports/{id}", "GET", "/reports./1", true),
            ("GET /reports/{id}", "GET", "/reports%20/1", true),
            ("GET /reports", "GET", "/reports/", true),
            ("GET /reports/", "GET", "/reports", true),
            ("POST /v1/complete", "POST", "/v1/complete", true),
            ("POST /v1/complete", "POST", "/v1/complete;jsessionid=1", true),
            ("/any", "DELETE", "/any", true),
            ("GET /files/{*rest}", "GET", "/files/a/b/c", true),
            ("GET /files/{*rest}", "GET", "/files", false),
            ("GET /{*rest}", "GET", "/x", true),
            ("GET /{*rest}", "GET", "/", false),
            ("GET /", "GET", "/", true),
            ("GET /", "GET", "/x/..", true),
            ("GET /a%20b/é", "GET", "/a%20b/%C3%89", true),
            ("GET /{{x}}", "GET", "/%7bx%7D", true),
            ("GET /insights", "GET", "/%C4%B0n%C5%BF%C4%B1ghts", true),
            ("GET /insights", "GET", "/i%CC%81ns%C3%AFghts", true),
            ("GET /insights", "GET", "/insights%3Fx", true),
            ("GET /insights", "GET", "/insights%23x", true),
            ("GET /insights", "GET", "/insights%C2%A0", true),
            ("GET /insights", "GET", "/insights.%E2%80%8B", true),
            ("GET /insights", "GET", "/insights%EF%BC%9Bx", true),
            ("GET /insights", "GET", "/insights.json", false),
            ("GET /wiki/{page}", "GET", "/wiki/why%3F", true),
        ] {
            assert_eq!(matches(pattern, method, path), does, "{pattern}: {method} {path}");
        }
    }

    #[test]
    fn a_text_at_the_end_is_taken_with_any_extension() {
        for (pattern, path, does) in [
            ("GET /reports/annual", "/reports/annual.json", true),
            ("GET /reports/annual", "/Reports/ANNUAL.tar.gz", true),
            ("GET /reports/annual", "/reports/annual.json;v=1", true),
            ("GET /{folder}/annual", "/reports/annual.x/", true),
            ("/reports/v1.2", "/reports/v1.2.json", true),
            ("GET /reports/annual", "/reports/annual", false),
            ("GET /reports/annual", "/reports/annuals.json", false),
            ("GET /reports/annual", "/reports/annual.", false),
            ("GET /reports/annual", "/reports.json/annual", false),
            ("GET /reports/annual", "/reports/annual.json/x", false),
            ("POST /reports/annual", "/reports/annual.json", false),
            ("GET /reports/{id}", "/reports/annual.json", false),
            ("GET /reports/{*rest}", "/reports/annual.json", false),
            ("GET /", "/.json", false),
        ] {
            let path = CleanPath::read(path).unwrap();
            let takes =
                Pattern::parse(pattern).unwrap().matches_with_extension(&Method::GET, path.readings().next().unwrap());
            assert_eq!(takes, does, "{pattern}: {path:?}");
        }
    }

    #[test]
    fn a_pattern_that_says_nothing_clear_is_refused() {
        for text in [
            "",
            "reports",
            "GET reports",
            "get /reports",
            "G@T /reports",
            "GET /reports/:id",
            "GET /reports/*rest",
            "GET /reports/{id",
            "GET /reports/x{id}",
            "GET /reports/{}",
            "GET /{*rest}/x",
            "GET /reports?x=1",
            "GET /reports;v",
            "GET /a b",
            "GET /a//b",
            "GET /a/../b",
            "GET /a%2fb",
            "GET /%zz",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_route_behind_one_that_takes_all_of_its_requests_is_never_reached() {
        for (first, second, shadows) in [
            ("GET /a", "GET /a", true),
            ("GET /a", "GET /A/", true),
            ("GET /{x}", "GET /a", true),
            ("GET /a", "GET /{x}", false),
            ("GET /{x}", "POST /a", false),
            ("/{x}", "POST /a", true),
            ("GET /a", "/a", false),
            ("GET /a", "HEAD /a", true),
            ("HEAD /a", "GET /a", false),
            ("GET /{*rest}", "GET /a/b", true),
            ("GET /{*rest}", "GET /", false),
            ("GET /a/{*rest}", "GET /a/{id}", true),
            ("GET /a/{*rest}", "GET /{*rest}", false),
            ("GET /a/{id}", "GET /a/{*rest}", false),
        ] {
            let [first_route, second_route] = [first, second].map(|text| Pattern::parse(text).unwrap());
            assert_eq!(first_route.shadows(&second_route), shadows, "{first} before {second}");
        }
    }
}
