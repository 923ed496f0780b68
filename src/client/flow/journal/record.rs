//! The stored form of an entry: a JSON object with a version.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::JournalEntry;
use crate::client::JournalError;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Versioned<'a> {
    version: u32,
    entry: Cow<'a, JournalEntry>,
}

impl JournalEntry {
    /// Returns the entry as one line of JSON with a version, for journals of your own. Its structure is not part of the
    /// API: only [`from_record`](Self::from_record) reads it, in this and later versions of the crate.
    ///
    /// # Errors
    /// [`JournalError::Record`] if it cannot be written as JSON.
    pub fn to_record(&self) -> Result<String, JournalError> {
        let record = Versioned { version: VERSION, entry: Cow::Borrowed(self) };
        serde_json::to_string(&record).map_err(|_| JournalError::Record)
    }

    /// Reads a record of [`to_record`](Self::to_record).
    ///
    /// # Errors
    /// [`JournalError::Record`] if the text is damaged, or was written by a later version of the crate.
    pub fn from_record(record: &str) -> Result<Self, JournalError> {
        Self::from_record_bytes(record.as_bytes())
    }

    pub(super) fn from_record_bytes(record: &[u8]) -> Result<Self, JournalError> {
        match serde_json::from_slice(record) {
            Ok(Versioned { version: VERSION, entry }) => Ok(entry.into_owned()),
            _ => Err(JournalError::Record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::{JournalPayment, PreparedAuthorization, PreparedTransfer, PurchaseState},
        protocol::{
            Address, Amount, ChainTime, Network, TxHash,
            v2::{Authorization, SignedAuthorization},
        },
    };

    const HASH: TxHash = TxHash::new([5; 32]);
    const RECORD: &str = r#"{"version":1,"entry":{"id":"01010101010101010101010101010101","at":1700000000,"state":"unspent","host":"api.example","request":"POST /v1","fingerprint":"00ff","intent":"intent","secret":null,"expiry":1700000060,"recipient":"0x0202020202020202020202020202020202020202","network":"eip155:8453","isElsewhere":false,"amount":"490000","decimals":6,"payment":{"transfer":[{"payer":"0x0101010101010101010101010101010101010101","network":"eip155:8453","token":"0x0303030303030303030303030303030303030303","order":{"keyed":{"key":"order-1","transaction":null}},"fee":"0"}]},"transaction":null,"settled":null,"delivered":false,"billed":0}}"#;

    fn entry() -> JournalEntry {
        JournalEntry::from_record(RECORD).unwrap()
    }

    #[test]
    fn a_record_is_read_and_says_the_same_again() {
        let entry = entry();
        assert_eq!((entry.state, entry.at.unix(), entry.transfers().len()), (PurchaseState::Unspent, 1_700_000_000, 1));
        assert_eq!((entry.settled, entry.delivered, entry.billed), (None, false, 0));
        assert_eq!(entry.to_record().unwrap(), RECORD);
    }

    #[test]
    fn every_payment_is_kept() {
        let authorization = Authorization::new(Address::new([1; 20]), [0x42; 32])
            .paying(Address::new([2; 20]), Amount::from_base_units(490_000))
            .valid_between(ChainTime::from_unix(5), ChainTime::from_unix(1_700_000_060));
        let signed = SignedAuthorization::new(authorization, "0xabcdef".parse().unwrap());
        let transaction =
            PreparedTransfer::signed(Address::new([1; 20]), Network::BASE, Address::new([3; 20]), 7, HASH, "0x02f8");
        let transactions = vec![transaction.costing(Amount::from_base_units(9))];
        let authorized = PreparedAuthorization::new(Network::BASE, Address::new([3; 20]), signed, "{}");
        let paid = JournalPayment::Authorization { authorized, cancellations: transactions.clone() };
        for payment in [JournalPayment::None, JournalPayment::Transfer(transactions), paid] {
            let entry = JournalEntry { payment, ..entry() };
            let record = entry.to_record().unwrap();
            assert_eq!(JournalEntry::from_record(&record).unwrap(), entry);
            let damaged = record.replacen("0xabcdef", "0xabcde", 1);
            assert!(damaged == record || matches!(JournalEntry::from_record(&damaged), Err(JournalError::Record)));
        }
    }

    #[test]
    fn every_state_is_kept() {
        use PurchaseState::{Answered, Paying, Redeeming, Refused, Unspent, Void};
        for state in [Paying, Redeeming, Unspent, Answered, Refused, Void] {
            let settled = Some(ChainTime::from_unix(7));
            let entry = JournalEntry { state, settled, billed: 2, ..entry() };
            assert_eq!(JournalEntry::from_record(&entry.to_record().unwrap()).unwrap(), entry);
        }
    }

    #[test]
    fn what_a_later_version_wrote_and_what_is_damaged_is_refused() {
        let later = RECORD.replacen("\"version\":1", "\"version\":2", 1);
        let unheard = RECORD.replacen("unspent", "unheard", 1);
        for bad in [later.as_str(), unheard.as_str(), &RECORD[1..], &RECORD[..RECORD.len() - 1], "", "{}"] {
            assert!(matches!(JournalEntry::from_record(bad), Err(JournalError::Record)), "{bad}");
        }
    }
}
