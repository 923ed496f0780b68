//! Requests as they are written: no client changes their path, their method or their headers.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// What came back.
#[derive(Debug)]
pub struct Raw {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Raw {
    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(is, _)| is.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

pub async fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap()
}

/// Sends a request line with these header lines, and reads until the connection ends.
pub async fn ask(url: &str, line: &str, headers: &str) -> Raw {
    let mut stream = connect(url).await;
    let request = format!("{line} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Raw { status, head: head.to_owned(), body: body.to_owned() }
}
