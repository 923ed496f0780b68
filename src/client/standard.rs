//! `Standard`: the standard in which an authorization is shown to a seller.

use serde::{Deserialize, de::IgnoredAny};

/// A standard for payments by authorization. The payment is the same in each; the demand, the headers and the nonce
/// differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standard {
    /// x402 version 2: `PAYMENT-REQUIRED`, paid in `PAYMENT-SIGNATURE`.
    X402,
    /// x402 version 1: a JSON body, paid in `X-PAYMENT`.
    X402V1,
    /// MPP, method `evm`, intent `charge`: `WWW-Authenticate: Payment`, paid in `Authorization` or `Payment-Authorization`.
    Mpp,
}

impl Standard {
    /// All standards, in the default order of preference at equal prices.
    pub const ALL: [Self; 3] = [Self::X402, Self::X402V1, Self::Mpp];

    /// Returns a name for logs and tables: `x402`, `x402-v1` or `mpp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X402 => "x402",
            Self::X402V1 => "x402-v1",
            Self::Mpp => "mpp",
        }
    }

    /// Returns the standard of a paying message.
    pub(crate) fn of_message(json: &str) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Message {
            x402_version: Option<u64>,
            challenge: Option<IgnoredAny>,
        }
        match serde_json::from_str(json) {
            Ok(Message { x402_version: None, challenge: Some(_) }) => Self::Mpp,
            Ok(Message { x402_version: Some(1), .. }) => Self::X402V1,
            _ => Self::X402,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_of_which_standard_it_is() {
        for (message, standard) in [
            (r#"{"x402Version":2,"accepted":{},"payload":{}}"#, Standard::X402),
            (r#"{"x402Version":1,"scheme":"exact"}"#, Standard::X402V1),
            (r#"{"challenge":{"id":"1"},"payload":{}}"#, Standard::Mpp),
            (r#"{"x402Version":2,"challenge":{}}"#, Standard::X402),
            ("{}", Standard::X402),
        ] {
            assert_eq!(Standard::of_message(message), standard, "{message}");
        }
    }
}
