//! `Word` and `Sold`: what a seller says about a pass, in an answer and at its sale.

use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, de::IgnoredAny};

use crate::protocol::{
    delivers,
    headers::{PAYMENT_RESPONSE, X402_ERROR, X402_PASS_REMAINING},
};

/// The longest accepted token.
const LONGEST: usize = 256;

/// What an answer says about the pass that its request showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// This much is left.
    Left {
        left: String,
        /// Whether the answer delivers something, and so is one of the calls that the pass bought.
        is_answer: bool,
    },
    /// The pass does not count for this request, or no longer at all.
    Invalid,
    /// The pass does not hold enough for this request.
    UsedUp,
    /// The pass has expired.
    Expired,
    /// The request costs money, and the answer does not mention the pass.
    Billed,
    /// A successful answer that does not mention it.
    Answered,
    /// A failure of the seller that does not mention it.
    Failed,
    /// The request had its own payment, which counts instead.
    Beside,
    Nothing,
}

impl Word {
    /// Reads an answer; `body` is the body of a 402.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, body: Option<&[u8]>) -> Self {
        #[derive(Deserialize)]
        struct Quoted {
            pass: Option<String>,
        }
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if let Some(left) = text(X402_PASS_REMAINING) {
            return Self::Left { left: left.to_owned(), is_answer: delivers(status, headers) };
        }
        if text(X402_ERROR) == Some("invalid_pass") {
            return Self::Invalid;
        }
        if status == StatusCode::PAYMENT_REQUIRED {
            let said = body.and_then(|body| serde_json::from_slice::<Quoted>(body).ok()?.pass);
            return match said.as_deref() {
                Some("used_up") => Self::UsedUp,
                Some("expired") => Self::Expired,
                _ => Self::Billed,
            };
        }
        match headers.contains_key(PAYMENT_RESPONSE) {
            true => Self::Billed,
            false if delivers(status, headers) => Self::Answered,
            false if status.is_server_error() => Self::Failed,
            false => Self::Nothing,
        }
    }
}

/// The answer to a payment for a pass.
#[derive(Deserialize)]
pub(super) struct Sold {
    pub(super) pass: String,
    calls: Option<IgnoredAny>,
    pub(super) expires: Option<u64>,
    pub(super) worth: Option<String>,
}

impl Sold {
    /// Reads the answer; returns `None` if it is no pass.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let sold: Self = serde_json::from_slice(body).ok()?;
        let is_token = !sold.pass.is_empty() && sold.pass.len() <= LONGEST && HeaderValue::from_str(&sold.pass).is_ok();
        is_token.then_some(sold)
    }

    /// Returns whether it counts nothing, and lasts for a time.
    pub(super) const fn is_timed(&self) -> bool {
        self.calls.is_none() && self.worth.is_none() && self.expires.is_some()
    }
}
