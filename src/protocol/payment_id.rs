//! `PaymentId`: the id of a payment, the same everywhere and for ever.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use super::{Address, Network, ParseError, TxHash, permit2::PERMIT2};

/// The id of one payment, usable as an idempotency key.
///
/// | Payment | Named by | Text |
/// |---|---|---|
/// | ordinary transfer | chain, transaction, position of its log *inside that transaction's receipt* | `eip155:8453/0x…/3` |
/// | transfer made from an EIP-3009 authorization | chain, token, payer, nonce | `eip155:8453/0x…/0x…/0x…` |
/// | transfer made from a [permit](super::permit2::Permit) | chain, Permit2, payer, nonce | `eip155:8453/0x000000000022d4…/0x…/0x…` |
/// | what a [voucher](super::channel::VoucherPayment) pays | chain, contract of the channels, payer, hash of channel, total and intent | `eip155:8453/0x4020074e9df2ce…/0x…/0x…` |
///
/// The position is not the block-wide log index: a reorganisation can move that one, and the same transfer would be
/// spendable twice. An authorization can be used once, in any transaction, so it identifies its transfer in advance.
/// So does a permit: Permit2 counts its nonces across all tokens, so its contract takes the place of the token.
///
/// Each id has exactly one text, in lower case. Parsing accepts no other spelling.
///
/// ```
/// use tower_x402::protocol::{Address, Asset, Network, PaymentId, TxHash};
/// let id: PaymentId = format!("eip155:8453/0x{}/3", "ab".repeat(32)).parse()?;
/// assert_eq!(id, PaymentId::of_transfer(Network::BASE, TxHash::new([0xab; 32]), 3));
/// assert!(format!("{id}0x").parse::<PaymentId>().is_err());
///
/// let payer = Address::new([0x11; 20]);
/// let id = PaymentId::of_authorization(Network::BASE, Asset::USDC_BASE.contract(), payer, [0xcd; 32]);
/// assert_eq!(id.to_string().parse(), Ok(id));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentId(Kind);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Transfer { network: Network, transaction: TxHash, position: u32 },
    Authorization { network: Network, token: Address, payer: Address, nonce: [u8; 32] },
}

const INVALID: ParseError = ParseError::new(
    "invalid payment id: write it in lower case as eip155:8453/0x…/3, with chain, transaction hash and position in the receipt, or as eip155:8453/0x…/0x…/0x…, with chain, token or Permit2, payer and nonce",
);

impl PaymentId {
    /// Returns the id of the transfer at `position` (from 0) among the logs of the transaction's receipt.
    #[must_use]
    pub const fn of_transfer(network: Network, transaction: TxHash, position: u32) -> Self {
        Self(Kind::Transfer { network, transaction, position })
    }

    /// Returns the id of the transfer made from the payer's authorization with this nonce.
    #[must_use]
    pub const fn of_authorization(network: Network, token: Address, payer: Address, nonce: [u8; 32]) -> Self {
        Self(Kind::Authorization { network, token, payer, nonce })
    }

    /// Returns the id of the transfer made from the payer's Permit2 permit with this nonce, for any token.
    #[must_use]
    pub const fn of_permit(network: Network, payer: Address, nonce: [u8; 32]) -> Self {
        Self::of_authorization(network, PERMIT2, payer, nonce)
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        match self.0 {
            Kind::Transfer { network, .. } | Kind::Authorization { network, .. } => network,
        }
    }

    /// Returns the id in 32 bytes and a number, for tables of millions. No transfer has the number of authorizations,
    /// and an attacker cannot choose hashed bytes to collide with another's.
    pub(crate) fn compact(&self) -> CompactPaymentId {
        let (name, position) = match self.0 {
            Kind::Transfer { transaction, position, .. } => (*transaction.as_bytes(), position),
            Kind::Authorization { token, payer, nonce, .. } => {
                let mut parts = [0; 72];
                parts[..20].copy_from_slice(token.as_bytes());
                parts[20..40].copy_from_slice(payer.as_bytes());
                parts[40..].copy_from_slice(&nonce);
                (*blake3::hash(&parts).as_bytes(), AUTHORIZATION)
            }
        };
        CompactPaymentId { network: self.network(), name, position }
    }
}

/// The position that marks authorizations. No transfer has it: a receipt of so many logs would be hundreds of
/// gigabytes long.
const AUTHORIZATION: u32 = u32::MAX;

/// A payment's id in little space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompactPaymentId {
    network: Network,
    name: [u8; 32],
    position: u32,
}

impl CompactPaymentId {
    /// Returns the chain.
    pub(crate) const fn network(&self) -> Network {
        self.network
    }
}

/// Hashes three numbers, of name and position: a ledger hashes each id many times, and chains hardly ever share
/// transactions.
impl Hash for CompactPaymentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for half in self.name.as_chunks().0 {
            state.write_u128(u128::from_ne_bytes(*half));
        }
        state.write_u32(self.position);
    }
}

impl Hash for PaymentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Kind::Transfer { transaction, position, .. } => {
                state.write(transaction.as_bytes());
                state.write_u32(position);
            }
            Kind::Authorization { payer, nonce, .. } => {
                state.write(&nonce);
                state.write(payer.as_bytes());
            }
        }
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Transfer { network, transaction, position } => write!(f, "{network}/{transaction}/{position}"),
            Kind::Authorization { network, token, payer, nonce } => {
                write!(f, "{network}/{token:x}/{payer:x}/{}", TxHash::new(nonce))
            }
        }
    }
}

impl fmt::Debug for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PaymentId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Each id has one text: no upper case, no leading zeros or signs.
        parse(text).filter(|id| id.to_string() == text).ok_or(INVALID)
    }
}

fn parse(text: &str) -> Option<PaymentId> {
    let mut parts = text.split('/');
    let network = parts.next()?.parse().ok()?;
    match [(); 4].map(|()| parts.next()) {
        [Some(transaction), Some(position), None, _] => {
            Some(PaymentId::of_transfer(network, transaction.parse().ok()?, position.parse().ok()?))
        }
        [Some(token), Some(payer), Some(nonce), None] => {
            let nonce: TxHash = nonce.parse().ok()?;
            Some(PaymentId::of_authorization(network, token.parse().ok()?, payer.parse().ok()?, *nonce.as_bytes()))
        }
        _ => None,
    }
}

super::text::serde_as_text!(PaymentId);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(position: u32) -> PaymentId {
        PaymentId::of_transfer(Network::BASE, TxHash::new([0xab; 32]), position)
    }

    fn authorized(token: u8, payer: u8, nonce: u8) -> PaymentId {
        let (token, payer) = (Address::new([token; 20]), Address::new([payer; 20]));
        PaymentId::of_authorization(Network::BASE, token, payer, [nonce; 32])
    }

    #[test]
    fn a_text_and_its_id_name_each_other() {
        for id in [id(0), id(3), id(u32::MAX), authorized(0xab, 0, 0xff), authorized(1, 0xd1, 0)] {
            let text = id.to_string();
            assert_eq!(text.parse(), Ok(id));
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<PaymentId>(&json).unwrap(), id);
        }
    }

    #[test]
    fn no_other_spelling_is_taken() {
        let good = id(3).to_string();
        let authorized = authorized(0xab, 0xcd, 0xef).to_string();
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
            format!("{good}/0x{hash}"),
            format!(" {good}"),
            format!("8453/0x{hash}/3"),
            format!("eip155:08453/0x{hash}/3"),
            format!("eip155:8453/{hash}/3"),
            authorized.replacen("ab", "AB", 1),
            authorized.replacen("ef", "EF", 1),
            authorized.replacen("0x", "", 1),
            authorized.replacen("ef", "", 1),
            format!("{authorized}/"),
            format!("{authorized}/3"),
        ] {
            assert!(bad.parse::<PaymentId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn payments_that_differ_anywhere_are_different_in_little_space_too() {
        let elsewhere = PaymentId::of_transfer(Network::BASE_SEPOLIA, TxHash::new([0xab; 32]), 3);
        let ids = [
            id(3),
            id(4),
            id(u32::MAX),
            elsewhere,
            PaymentId::of_transfer(Network::BASE, TxHash::new([0xac; 32]), 3),
            authorized(1, 2, 3),
            authorized(2, 1, 3),
            authorized(2, 2, 3),
            authorized(1, 3, 3),
            authorized(1, 2, 4),
            PaymentId::of_authorization(Network::BASE_SEPOLIA, Address::new([1; 20]), Address::new([2; 20]), [3; 32]),
            // A transaction hash with the bytes of the nonce.
            PaymentId::of_transfer(Network::BASE, TxHash::new([3; 32]), u32::MAX),
        ];
        for (at, one) in ids.iter().enumerate() {
            assert!(ids[..at].iter().all(|other| other != one && other.compact() != one.compact()), "{one}");
        }
        assert!(size_of::<CompactPaymentId>() <= 48);
    }
}
