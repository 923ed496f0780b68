//! The format in which a ledger keeps an answer.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::{
    ledger::{KeptAnswer, Sale},
    paywall::{refusal::Rejection, seller::redelivery::Redelivery},
    protocol::{Payment, PaymentId, ProblemCode, TxHash},
};

/// Marks an answer that was delivered before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The version of the format. Other versions are not read.
const VERSION: u8 = 1;

/// The first line of a kept answer, as JSON; the body follows behind the line break.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u8,
    transaction: Option<TxHash>,
    /// The authorization that was settled, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<String>,
    status: u16,
    /// Each byte of a value is written as the character with that number: values need not be UTF-8.
    headers: Vec<(String, String)>,
}

/// Returns the answer to this payment, in the format that is kept.
pub(crate) fn keep(
    redelivery: &Redelivery,
    paid: &Payment,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> KeptAnswer {
    KeptAnswer::new(write(paid, status, headers, body), redelivery.keep_for())
}

/// Returns the rejection for an intent that has bought its answer. That is the same answer again, if the route still redelivers, and the
/// answer is kept and was sold for this payment.
pub(crate) fn sold_before(sale: Sale, shown: Shown, redelivers: bool) -> Rejection {
    match sale.answer.filter(|_| redelivers).and_then(|kept| read(kept, shown)) {
        Some(answer) => Rejection::Replay(Box::new(answer)),
        None => ProblemCode::AlreadyConsumed.into(),
    }
}

fn write(paid: &Payment, status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Vec<u8> {
    let kept = headers.iter().filter(|(name, _)| !is_of_the_connection(name));
    let headers =
        kept.map(|(name, value)| (name.to_string(), value.as_bytes().iter().map(|byte| char::from(*byte)).collect()));
    let authorization = paid.nonce().map(|_| paid.id().to_string());
    let (transaction, status) = (paid.transaction(), status.as_u16());
    let head = Head { version: VERSION, transaction, authorization, status, headers: headers.collect() };
    // A struct of numbers and strings always serialises.
    let mut kept = serde_json::to_vec(&head).unwrap_or_default();
    kept.push(b'\n');
    kept.extend_from_slice(body);
    kept
}

/// A client's proof of the payment when it asks for an answer again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Transaction(TxHash),
    /// The authorization with this id, settled in any transaction.
    Authorization(PaymentId),
    /// An authorization without a quote. Once it is settled, everything in it is public on the chain.
    Public,
}

impl Shown {
    fn is_of(&self, head: &Head) -> bool {
        match self {
            Self::Transaction(transaction) => Some(*transaction) == head.transaction,
            Self::Authorization(payment) => head.authorization.as_deref() == Some(&*payment.to_string()),
            Self::Public => false,
        }
    }
}

/// Reads an answer that was kept for this payment; `None` for another payment, and for unreadable bytes.
pub(crate) fn read(mut kept: Bytes, shown: Shown) -> Option<Response<Bytes>> {
    // JSON has line breaks between tokens only, and `write` puts none there.
    let end = memchr::memchr(b'\n', &kept)?;
    let head: Head = serde_json::from_slice(&kept.split_to(end)).ok()?;
    if head.version != VERSION || !shown.is_of(&head) {
        return None;
    }
    let mut response = Response::new(kept.split_off(1));
    *response.status_mut() = StatusCode::from_u16(head.status).ok()?;
    let headers = response.headers_mut();
    for (name, value) in head.headers {
        let value: Option<Vec<u8>> = value.chars().map(|char| u8::try_from(u32::from(char)).ok()).collect();
        headers.append(HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(&value?).ok()?);
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}

/// Returns whether a header is about one connection (RFC 9110, section 7.6.1), or set anew by each hop.
fn is_of_the_connection(name: &HeaderName) -> bool {
    matches!(*name, header::CONNECTION | header::TE | header::TRAILER | header::TRANSFER_ENCODING | header::UPGRADE)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::{Address, Binding, Network, SignedTransfer, Transfer};

    const TX: Shown = Shown::Transaction(TxHash::new([0xab; 32]));

    fn paid() -> Payment {
        let nonce = Binding::none().with_nonce([7; 32]);
        Transfer::new(Network::BASE, TxHash::new([0xab; 32]), 3).with_binding(nonce).into()
    }

    fn kept(headers: &HeaderMap, body: &'static [u8]) -> Bytes {
        Bytes::from(write(&paid(), StatusCode::CREATED, headers, &Bytes::from_static(body)))
    }

    #[test]
    fn what_is_kept_is_the_response_and_not_its_connection() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", &b"text/plain; charset=utf-8"[..]),
            ("set-cookie", b"a=1"),
            ("set-cookie", b"b=2"),
            ("x-latin", b"caf\xe9\t\xff"),
            ("payment-response", b"e30="),
            ("connection", b"close"),
            ("keep-alive", b"timeout=5"),
            ("transfer-encoding", b"chunked"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        let body = b"two\nlines \x00\xff";
        let replayed = read(kept(&headers, body), TX).unwrap();
        assert_eq!((replayed.status(), &replayed.body()[..]), (StatusCode::CREATED, &body[..]));
        for name in ["connection", "keep-alive", "transfer-encoding"] {
            headers.remove(name);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        assert_eq!(replayed.headers(), &headers);
        assert_eq!(replayed.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
    }

    #[test]
    fn the_time_is_one_that_every_ledger_can_keep() {
        for (asked, kept) in [(Duration::from_nanos(1), 1), (Duration::from_secs(900), 900), (Duration::MAX, 2_592_000)]
        {
            let redelivery = Redelivery::lasting(asked);
            let answer = keep(&redelivery, &paid(), StatusCode::OK, &HeaderMap::new(), &Bytes::new());
            assert!(redelivery.is_on());
            assert_eq!(answer.keep_for().as_secs(), kept);
        }
        assert!(!Redelivery::lasting(Duration::ZERO).is_on());
    }

    #[test]
    fn an_empty_answer_is_kept_too() {
        assert_eq!(read(kept(&HeaderMap::new(), b""), TX).unwrap().body().len(), 0);
    }

    #[test]
    fn another_transactions_answer_and_damage_are_not_read() {
        let good = kept(&HeaderMap::new(), b"body");
        assert!(read(good.clone(), Shown::Transaction(TxHash::new([0xac; 32]))).is_none());
        assert!(read(good.clone(), Shown::Authorization(paid().id())).is_some());
        let another = SignedTransfer::new(Network::BASE, Address::ZERO, Address::new([1; 20]), [7; 32]).payment_id();
        assert!(read(good.clone(), Shown::Authorization(another)).is_none());
        let head = memchr::memchr(b'\n', &good).unwrap();
        for cut in 0..head {
            assert!(read(good.slice(..cut), TX).is_none(), "{cut}");
        }
        let text = std::str::from_utf8(&good).unwrap();
        for bad in [text.replace("\"version\":1", "\"version\":2"), text.replace("201", "99"), format!("x{text}")] {
            assert!(read(Bytes::from(bad), TX).is_none());
        }
    }
}
