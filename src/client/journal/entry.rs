//! `Entry`: one purchase, as the journal keeps it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    client::Prepared,
    protocol::{Address, Amount, Network, Quote, TxHash},
};

/// What names a purchase: 128 random bits, as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurchaseId([u8; 16]);

impl PurchaseId {
    /// From the bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(in crate::client) fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for PurchaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<16, false>::new().format(&self.0))
    }
}

impl fmt::Debug for PurchaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PurchaseId {
    type Err = ParsePurchaseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 16];
        const_hex::decode_to_slice(text, &mut bytes).map_err(|_| ParsePurchaseIdError)?;
        Ok(Self(bytes))
    }
}

/// Why a text is no [`PurchaseId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purchase is named by 32 hexadecimal digits")]
#[non_exhaustive]
pub struct ParsePurchaseIdError;

crate::protocol::serde_as_text!(PurchaseId);

/// Where a purchase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// A transfer is recorded; it may have been sent.
    Paying,
    /// The transfer happened; the answer has not come yet.
    Redeeming,
    /// The transfer happened and is not known to be spent: the seller answered without confirming that it took it. It pays
    /// for the next request to the same seller at the same price.
    Unspent,
    /// The answer came.
    Answered,
    /// The seller refused the payment for good.
    Refused,
    /// Nothing was transferred, and nothing of it ever will be.
    Void,
}

impl State {
    /// Whether there is something left to do: an open purchase is finished before the same request is paid again.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Paying | Self::Redeeming | Self::Unspent)
    }
}

/// One purchase. Its JSON, with a version around it, is what [`FileJournal`](super::FileJournal) keeps, one line each.
///
/// It holds signed transactions, which anybody could send (they pay only whom they name), and never a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub id: PurchaseId,
    /// When it was begun, in Unix seconds.
    pub at: u64,
    /// Where it stands.
    pub state: State,
    /// Whom the request went to: host and port.
    pub host: String,
    /// What was asked: method and path. The query may hold secrets, and is left out.
    pub request: String,
    /// Tells the same request again from any other: 128 bits of a hash over method, address and body.
    pub fingerprint: String,
    /// The intent that the payment is redeemed with.
    pub intent: String,
    /// The intent that the transfer was made for, whose [tag](crate::protocol::PaymentTag) it carries: it stays what it was
    /// when `intent` is replaced by a fresh one. `None` where nothing was prepared here, and in journals that did not keep it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret: Option<String>,
    /// Until when a payment counts for that intent, in Unix seconds of chain time.
    pub expiry: u64,
    /// Who is paid.
    pub recipient: Address,
    /// On which chain.
    pub network: Network,
    /// How much, in base units.
    pub amount: Amount,
    /// The decimals of the amount.
    pub decimals: u8,
    /// Everything that was made ready to be sent for it, oldest first. At most one of them can be mined.
    pub prepared: Vec<Prepared>,
    /// The transaction that paid, once it is known to be in a block.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transaction: Option<TxHash>,
}

/// Without the intents: with the transaction beside it, they are the proof, and whoever shows it first gets the answer.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("id", &self.id)
            .field("at", &self.at)
            .field("state", &self.state)
            .field("host", &self.host)
            .field("request", &self.request)
            .field("recipient", &self.recipient)
            .field("network", &self.network)
            .field("amount", &self.amount)
            .field("prepared", &self.prepared)
            .field("transaction", &self.transaction)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// The transaction to look for: the one that paid, else the one that was prepared last.
    #[must_use]
    pub fn transaction(&self) -> Option<TxHash> {
        self.transaction.or_else(|| self.prepared.iter().rev().find_map(|prepared| prepared.transaction))
    }

    /// Whether a journal must still have it at `now`, in Unix seconds: while it is open, and for
    /// [`RETENTION`](super::RETENTION) after it was begun.
    #[must_use]
    pub const fn is_kept_at(&self, now: u64) -> bool {
        self.state.is_open() || now < self.at.saturating_add(super::RETENTION)
    }

    /// Whether its transfer is one that the quote asks for.
    pub(in crate::client) fn pays(&self, quote: &Quote) -> bool {
        (self.network, self.recipient, self.decimals) == (quote.network, quote.recipient, quote.decimals)
            && self.amount >= quote.amount
            && self.prepared.last().is_some_and(|prepared| quote.contracts.contains(&prepared.token))
    }

    pub(in crate::client) fn is_paid_by(&mut self, transaction: TxHash) {
        (self.state, self.transaction) = (State::Redeeming, Some(transaction));
    }

    pub(in crate::client) fn takes_terms_of(&mut self, quote: &Quote) {
        self.intent = quote.intent.as_str().to_owned();
        self.expiry = quote.expiry;
    }
}
