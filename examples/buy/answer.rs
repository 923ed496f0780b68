//! Reads an answer, up to a limit.

use std::{io, pin::pin};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum End<E> {
    /// The answer is complete.
    Whole,
    /// The answer has more bytes than the limit.
    TooLong,
    /// The connection broke.
    BrokeOff(E),
    /// The answer could not be written.
    Unwritten,
}

/// Reads at most `limit` bytes, and passes each piece on as it arrives.
pub(crate) async fn read<B: Body<Data = Bytes>>(
    body: B,
    limit: usize,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> (Vec<u8>, End<B::Error>) {
    let (mut body, mut answer) = (pin!(body), Vec::new());
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return (answer, End::BrokeOff(error)),
        };
        let room = limit - answer.len();
        let piece = &data[..data.len().min(room)];
        answer.extend_from_slice(piece);
        if write(piece).is_err() {
            return (answer, End::Unwritten);
        }
        if data.len() > room {
            return (answer, End::TooLong);
        }
    }
    (answer, End::Whole)
}

/// Parses `1000`, `64K` or `16M` to bytes.
pub(crate) fn size(text: &str) -> Result<usize, &'static str> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(unit));
    bytes.ok_or("a size is a number of bytes, such as 1000, 64K or 16M")
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn the_limit_is_the_last_byte_that_is_read() {
        for (limit, whole) in [(0, false), (4, false), (5, true), (6, true)] {
            let mut written = Vec::new();
            let body = Full::new(Bytes::from_static(b"abcde"));
            let (answer, end) = read(body, limit, |piece| io::Write::write_all(&mut written, piece)).await;
            assert_eq!(answer, b"abcde"[..limit.min(5)]);
            assert_eq!(answer, written);
            assert_eq!(matches!(end, End::Whole), whole, "{limit}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!([size("7"), size("64K"), size("16m")], [Ok(7), Ok(65_536), Ok(16_777_216)]);
        for wrong in ["", "K", "1G", "-1", "1.5M", "99999999999999999999", "99999999999999999M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
