//! The questions that the agent asks.

use std::{fs, path::Path};

use http::{Request, header::CONTENT_TYPE};
use tower_x402::client::Body;

/// One request, in the form of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    method: String,
    url: String,
    body: String,
}

/// Returns the questions for a shop that runs the datasets service: three priced ones, a free one, and one without a
/// route.
pub(crate) fn usual(shop: &str) -> Vec<Task> {
    let lines = [
        "GET SHOP/developer/analytics-filters",
        r#"POST SHOP/demand-insights {"query":"What do visitors say about pricing?"}"#,
        r#"POST SHOP/ai-early-adopters-goals {"query":"Who wants to automate support?"}"#,
        r#"POST SHOP/analytics/agent-conversions {"filters":{"aggregate":"agent","country":"Germany"}}"#,
        r#"POST SHOP/nothing-here {"query":"Is anybody there?"}"#,
        r#"POST SHOP/demand-insights {"query":"What stops visitors from paying for a year?"}"#,
        r#"POST SHOP/demand-insights {"query":"Who asks for a refund?"}"#,
    ];
    lines.iter().filter_map(|line| Task::read(&line.replacen("SHOP", shop, 1))).collect()
}

/// Returns the questions in a file. Empty lines and lines that begin with `#` are ignored.
///
/// # Errors
/// Fails with a sentence that names the file or the line.
pub(crate) fn listed(file: &Path) -> Result<Vec<Task>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("cannot read {}: {}", file.display(), error.kind()))?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| Task::read(line).ok_or(format!("line {number} is no `METHOD URL [BODY]`"))).collect()
}

impl Task {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        Some(Self { method: words.next()?, url: words.next()?, body: words.next().unwrap_or_default() })
    }

    /// # Errors
    /// Fails if the method or the address is invalid.
    pub(crate) fn request(&self) -> http::Result<Request<Body>> {
        let request = Request::builder().method(self.method.as_str()).uri(&self.url);
        if self.body.is_empty() {
            return request.body(Body::empty());
        }
        request.header(CONTENT_TYPE, "application/json").body(Body::from(self.body.clone()))
    }

    /// Returns method and path; the query may hold secrets.
    pub(crate) fn name(&self) -> String {
        let url: Option<http::Uri> = self.url.parse().ok();
        format!("{} {}", self.method, url.as_ref().map_or("", http::Uri::path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_request_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "# mine\nGET https://a.example/b?c=d\n\n POST https://a.example {\"query\": \"e f\"}\n")
            .unwrap();
        let tasks = listed(file.path()).unwrap();
        assert_eq!(tasks.len(), 2);
        assert_eq!((tasks[0].name().as_str(), tasks[1].body.as_str()), ("GET /b", r#"{"query": "e f"}"#));
        fs::write(file.path(), "GET https://a.example\nGET").unwrap();
        assert!(listed(file.path()).is_err_and(|said| said.contains("line 2")));
    }
}
