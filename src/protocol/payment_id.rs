//! `PaymentId`: the name of a payment, the same everywhere and for ever.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use super::{Network, TxHash};

/// The name of one payment, fit to be an idempotency key: chain, transaction, and position of the transfer's log *inside that
/// transaction's receipt*.
///
/// Not the block-wide log index: a reorganisation can move it, and the same transfer would be spendable twice.
///
/// Its text is `eip155:8453/0x…/3`. Parsing takes that one spelling and nothing else.
///
/// ```
/// use tower_x402::protocol::{Network, PaymentId, TxHash};
/// let id: PaymentId = format!("eip155:8453/0x{}/3", "ab".repeat(32)).parse()?;
/// assert_eq!(id, PaymentId::new(Network::BASE, TxHash::new([0xab; 32]), 3));
/// assert!(format!("{id}0x").parse::<PaymentId>().is_err());
/// # Ok::<(), tower_x402::protocol::ParsePaymentIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentId {
    network: Network,
    transaction: TxHash,
    position: u32,
}

/// Why a text is no [`PaymentId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid payment id: write it as eip155:8453/0x…/3, with chain, transaction hash and position in the receipt")]
#[non_exhaustive]
pub struct ParsePaymentIdError;

impl PaymentId {
    /// Names the transfer at `position` (from 0) among the logs of the transaction's receipt.
    #[must_use]
    pub const fn new(network: Network, transaction: TxHash, position: u32) -> Self {
        Self { network, transaction, position }
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Returns the transaction.
    #[must_use]
    pub const fn transaction(&self) -> TxHash {
        self.transaction
    }
}

/// By transaction and position: a ledger hashes each id many times, and chains hardly ever share transactions.
impl Hash for PaymentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.transaction.as_bytes());
        state.write_u32(self.position);
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.network, self.transaction, self.position)
    }
}

impl fmt::Debug for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PaymentId {
    type Err = ParsePaymentIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let [Some(network), Some(transaction), Some(position), None] = [(); 4].map(|()| parts.next()) else {
            return Err(ParsePaymentIdError);
        };
        let network = network.parse().map_err(|_| ParsePaymentIdError)?;
        let transaction = transaction.parse().map_err(|_| ParsePaymentIdError)?;
        let position = position.parse().map_err(|_| ParsePaymentIdError)?;
        let id = Self { network, transaction, position };
        // One id, one text: no upper case, no leading zeros or signs.
        if id.to_string() == text { Ok(id) } else { Err(ParsePaymentIdError) }
    }
}

super::text::serde_as_text!(PaymentId);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(position: u32) -> PaymentId {
        PaymentId::new(Network::BASE, TxHash::new([0xab; 32]), position)
    }

    #[test]
    fn a_text_and_its_id_name_each_other() {
        for position in [0, 3, u32::MAX] {
            let text = id(position).to_string();
            assert_eq!(text.parse(), Ok(id(position)));
            let json = serde_json::to_string(&id(position)).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<PaymentId>(&json).unwrap(), id(position));
        }
    }

    #[test]
    fn no_other_spelling_is_taken() {
        let good = id(3).to_string();
        let hash = "ab".repeat(32);
        for bad in [
            String::new(),
            good.to_uppercase(),
            good.replacen("ab", "AB", 1),
            good.replace("/3", "/03"),
            good.replace("/3", "/+3"),
            good.replace("/3", "/4294967296"),
            good.replace("/3", ""),
            format!("{good}/"),
            format!(" {good}"),
            format!("8453/0x{hash}/3"),
            format!("eip155:08453/0x{hash}/3"),
            format!("eip155:8453/{hash}/3"),
        ] {
            assert_eq!(bad.parse::<PaymentId>(), Err(ParsePaymentIdError), "{bad}");
        }
    }
}
