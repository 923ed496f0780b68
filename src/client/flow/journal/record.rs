//! How an entry is kept: a JSON object with a version. Private, so that the types can change while old records stay
//! readable.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{JournalEntry, PurchaseState};
use crate::{
    client::{JournalError, PreparedTransfer, PurchaseId},
    protocol::{
        Address, Amount, ChainTime, Network, TxHash,
        v2::{Authorization, SignedAuthorization},
    },
};

/// How purchases that are paid by transfers are written.
const VERSION: u32 = 1;
/// How those with an authorization are written: a version of the crate that cannot follow one refuses the journal.
const VERSION_AUTHORIZED: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    entry: T,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryRecord<'a> {
    id: PurchaseId,
    at: u64,
    state: StateRecord,
    host: Cow<'a, str>,
    request: Cow<'a, str>,
    fingerprint: Cow<'a, str>,
    intent: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    secret: Option<Cow<'a, str>>,
    expiry: u64,
    recipient: Address,
    network: Network,
    amount: Amount,
    decimals: u8,
    prepared: Vec<TransferRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    transaction: Option<TxHash>,
    /// Absent in records of version 0.1.0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    settled: Option<u64>,
    #[serde(skip_serializing_if = "is_default", default)]
    delivered: bool,
    #[serde(skip_serializing_if = "is_default", default)]
    billed: u32,
    /// Only in records of the second version.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    cancellations: Vec<TransferRecord<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransferRecord<'a> {
    payer: Address,
    token: Address,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    transaction: Option<TxHash>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    nonce: Option<u64>,
    payload: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    fee: Option<Amount>,
    /// Only in records of the second version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    authorization: Option<AuthorizationRecord<'a>>,
}

/// All of an authorization but its payer, who is the transfer's.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationRecord<'a> {
    to: Address,
    value: Amount,
    valid_after: u64,
    valid_before: u64,
    nonce: TxHash,
    signature: Cow<'a, str>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateRecord {
    Paying,
    Redeeming,
    Unspent,
    Answered,
    Refused,
    Void,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl JournalEntry {
    /// Returns the entry as one line of JSON with a version in it, for journals of your own. Its shape is no part of the
    /// interface: only [`from_record`](Self::from_record) reads it, in this version of the crate and in later ones.
    ///
    /// # Errors
    /// [`JournalError::Record`] if it cannot be written as JSON.
    pub fn to_record(&self) -> Result<String, JournalError> {
        let is_authorized = self.prepared.iter().any(|prepared| prepared.authorization.is_some());
        let version = if is_authorized { VERSION_AUTHORIZED } else { VERSION };
        let record = Versioned { version, entry: EntryRecord::from(self) };
        serde_json::to_string(&record).map_err(|_| JournalError::Record)
    }

    /// Reads what [`to_record`](Self::to_record) returned.
    ///
    /// # Errors
    /// [`JournalError::Record`] if the text is damaged, or was written by a later version of the crate.
    pub fn from_record(record: &str) -> Result<Self, JournalError> {
        Self::from_record_bytes(record.as_bytes())
    }

    pub(super) fn from_record_bytes(record: &[u8]) -> Result<Self, JournalError> {
        match serde_json::from_slice(record) {
            Ok(Versioned::<EntryRecord<'_>> { version: VERSION | VERSION_AUTHORIZED, entry }) => {
                entry.read().ok_or(JournalError::Record)
            }
            _ => Err(JournalError::Record),
        }
    }
}

impl<'a> From<&'a JournalEntry> for EntryRecord<'a> {
    fn from(entry: &'a JournalEntry) -> Self {
        Self {
            id: entry.id,
            at: entry.at.unix(),
            state: entry.state.into(),
            host: Cow::Borrowed(&entry.host),
            request: Cow::Borrowed(&entry.request),
            fingerprint: Cow::Borrowed(&entry.fingerprint),
            intent: Cow::Borrowed(&entry.intent),
            secret: entry.secret.as_deref().map(Cow::Borrowed),
            expiry: entry.expiry.unix(),
            recipient: entry.recipient,
            network: entry.network,
            amount: entry.amount,
            decimals: entry.decimals,
            prepared: entry.prepared.iter().map(TransferRecord::from).collect(),
            transaction: entry.transaction,
            settled: entry.settled.map(ChainTime::unix),
            delivered: entry.delivered,
            billed: entry.billed,
            cancellations: entry.cancellations.iter().map(TransferRecord::from).collect(),
        }
    }
}

impl EntryRecord<'_> {
    fn read(self) -> Option<JournalEntry> {
        let record = self;
        Some(JournalEntry {
            id: record.id,
            at: ChainTime::from_unix(record.at),
            state: record.state.into(),
            host: record.host.into_owned(),
            request: record.request.into_owned(),
            fingerprint: record.fingerprint.into_owned(),
            intent: record.intent.into_owned(),
            secret: record.secret.map(Cow::into_owned),
            expiry: ChainTime::from_unix(record.expiry),
            recipient: record.recipient,
            network: record.network,
            amount: record.amount,
            decimals: record.decimals,
            prepared: record.prepared.into_iter().map(TransferRecord::read).collect::<Option<_>>()?,
            transaction: record.transaction,
            settled: record.settled.map(ChainTime::from_unix),
            delivered: record.delivered,
            billed: record.billed,
            cancellations: record.cancellations.into_iter().map(TransferRecord::read).collect::<Option<_>>()?,
        })
    }
}

impl<'a> From<&'a PreparedTransfer> for TransferRecord<'a> {
    fn from(transfer: &'a PreparedTransfer) -> Self {
        let PreparedTransfer { payer, token, transaction, nonce, payload, authorization, fee } = transfer;
        let (payer, token, transaction, nonce) = (*payer, *token, *transaction, *nonce);
        let fee = Some(*fee).filter(|fee| !fee.is_zero());
        let authorization = authorization.as_ref().map(AuthorizationRecord::from);
        Self { payer, token, transaction, nonce, payload: Cow::Borrowed(payload), authorization, fee }
    }
}

impl TransferRecord<'_> {
    fn read(self) -> Option<PreparedTransfer> {
        let Self { payer, token, transaction, nonce, payload, authorization, fee } = self;
        let fee = fee.unwrap_or(Amount::ZERO);
        let authorization = match authorization {
            Some(record) => Some(record.read(payer)?),
            None => None,
        };
        Some(PreparedTransfer { payer, token, transaction, nonce, payload: payload.into_owned(), authorization, fee })
    }
}

impl From<&SignedAuthorization> for AuthorizationRecord<'_> {
    fn from(signed: &SignedAuthorization) -> Self {
        let Authorization { to, value, valid_after, valid_before, nonce, .. } = signed.authorization;
        let (valid_after, valid_before, nonce) = (valid_after.unix(), valid_before.unix(), TxHash::new(nonce));
        Self { to, value, valid_after, valid_before, nonce, signature: Cow::Owned(signed.signature.to_string()) }
    }
}

impl AuthorizationRecord<'_> {
    fn read(self, payer: Address) -> Option<SignedAuthorization> {
        let [after, before] = [self.valid_after, self.valid_before].map(ChainTime::from_unix);
        let authorization = Authorization::new(payer, *self.nonce.as_bytes());
        let authorization = authorization.paying(self.to, self.value).valid_between(after, before);
        Some(SignedAuthorization::new(authorization, self.signature.parse().ok()?))
    }
}

impl From<PurchaseState> for StateRecord {
    fn from(state: PurchaseState) -> Self {
        match state {
            PurchaseState::Paying => Self::Paying,
            PurchaseState::Redeeming => Self::Redeeming,
            PurchaseState::Unspent => Self::Unspent,
            PurchaseState::Answered => Self::Answered,
            PurchaseState::Refused => Self::Refused,
            PurchaseState::Void => Self::Void,
        }
    }
}

impl From<StateRecord> for PurchaseState {
    fn from(state: StateRecord) -> Self {
        match state {
            StateRecord::Paying => Self::Paying,
            StateRecord::Redeeming => Self::Redeeming,
            StateRecord::Unspent => Self::Unspent,
            StateRecord::Answered => Self::Answered,
            StateRecord::Refused => Self::Refused,
            StateRecord::Void => Self::Void,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: TxHash = TxHash::new([5; 32]);
    const OLD: &str = r#"{"version":1,"entry":{"id":"01010101010101010101010101010101","at":1700000000,"state":"unspent","host":"api.example","request":"POST /v1","fingerprint":"00ff","intent":"intent","expiry":1700000060,"recipient":"0x0202020202020202020202020202020202020202","network":"eip155:8453","amount":"490000","decimals":6,"prepared":[{"payer":"0x0101010101010101010101010101010101010101","token":"0x0303030303030303030303030303030303030303","nonce":7,"payload":"0x02f8"}]}}"#;

    #[test]
    fn a_record_of_the_first_version_is_read_and_says_the_same_again() {
        let entry = JournalEntry::from_record(OLD).unwrap();
        assert_eq!((entry.state, entry.at.unix(), entry.prepared.len()), (PurchaseState::Unspent, 1_700_000_000, 1));
        assert_eq!((entry.settled, entry.delivered, entry.billed), (None, false, 0));
        assert_eq!(entry.to_record().unwrap(), OLD);
    }

    /// An older version of the crate would take it for a transfer.
    #[test]
    fn an_authorization_is_kept_in_records_of_the_second_version() {
        let authorization = Authorization::new(Address::new([1; 20]), [0x42; 32])
            .paying(Address::new([2; 20]), Amount::from_base_units(490_000))
            .valid_between(ChainTime::from_unix(5), ChainTime::from_unix(1_700_000_060));
        let signed = SignedAuthorization::new(authorization, "0xabcdef".parse().unwrap());
        let prepared = vec![PreparedTransfer::authorized(Address::new([3; 20]), signed, "{}")];
        let cancellation = PreparedTransfer::signed(Address::new([1; 20]), Address::new([3; 20]), 7, HASH, "0x02f8");
        let cancellations = vec![cancellation.costing(Amount::from_base_units(9))];
        let entry = JournalEntry { prepared, cancellations, ..JournalEntry::from_record(OLD).unwrap() };
        let record = entry.to_record().unwrap();
        assert!(record.starts_with(r#"{"version":2,"#), "{record}");
        assert_eq!(JournalEntry::from_record(&record).unwrap(), entry);
        let damaged = record.replacen("0xabcdef", "0xabcde", 1);
        assert!(matches!(JournalEntry::from_record(&damaged), Err(JournalError::Record)));
    }

    #[test]
    fn every_state_is_kept() {
        use PurchaseState::{Answered, Paying, Redeeming, Refused, Unspent, Void};
        for state in [Paying, Redeeming, Unspent, Answered, Refused, Void] {
            let settled = Some(ChainTime::from_unix(7));
            let entry = JournalEntry { state, settled, billed: 2, ..JournalEntry::from_record(OLD).unwrap() };
            assert_eq!(JournalEntry::from_record(&entry.to_record().unwrap()).unwrap(), entry);
        }
    }

    #[test]
    fn what_a_later_version_wrote_and_what_is_damaged_is_refused() {
        let later = OLD.replacen("\"version\":1", "\"version\":3", 1);
        let unheard = OLD.replacen("unspent", "unheard", 1);
        for bad in [later.as_str(), unheard.as_str(), &OLD[1..], &OLD[..OLD.len() - 1], "", "{}"] {
            assert!(matches!(JournalEntry::from_record(bad), Err(JournalError::Record)), "{bad}");
        }
    }
}
