//! `TransferProof`: the proof of a transfer, as the members of a JSON object.

use std::fmt::Write as _;

use crate::{
    client::{JournalEntry, ProofIn, http::CarriedProof},
    protocol::{Network, PaymentSecret, PaymentSignature, TxHash, ascii_json, headers::X402_PAYMENT},
};

/// One presentation of a payment.
pub(crate) struct TransferProof<'a> {
    intent: Option<&'a str>,
    transaction: TxHash,
    /// The network, if the seller's `Pay` may name another one.
    network: Option<Network>,
    secret: Option<PaymentSecret>,
    signature: Option<&'a PaymentSignature>,
}

impl<'a> TransferProof<'a> {
    /// Returns the proof of this entry's payment.
    ///
    /// It contains the secret only if that differs from the intent, so that sellers without bound payments get no extra
    /// member.
    pub(crate) fn of(entry: &'a JournalEntry, transaction: TxHash, signature: Option<&'a PaymentSignature>) -> Self {
        let other = entry.secret.as_deref().filter(|secret| *secret != entry.intent);
        // An intent that is not a valid secret would be refused as one; then only a signature helps.
        let secret = other.and_then(|secret| secret.parse().ok());
        let is_named = entry.authorization().is_some() || entry.is_elsewhere;
        let network = is_named.then_some(entry.network);
        Self { intent: Some(&entry.intent), transaction, network, secret, signature }
    }

    /// Returns the proof under the payment's original intent.
    #[cfg(test)]
    pub(crate) const fn plain(intent: &'a str, transaction: TxHash) -> Self {
        Self { intent: Some(intent), transaction, network: None, secret: None, signature: None }
    }

    /// Returns a proof with the transaction alone. The seller answers it with a fresh intent.
    pub(crate) fn without_intent(self) -> Self {
        Self { intent: None, secret: None, signature: None, ..self }
    }

    /// Returns the proof in the form for that place.
    pub(crate) fn placed(&self, place: ProofIn) -> CarriedProof {
        match place {
            ProofIn::Body if self.network.is_none() => CarriedProof::Members(self.members()),
            // In a body, `chainId` may be the service's own member, so the proof goes into the header.
            ProofIn::Body | ProofIn::Header => CarriedProof::in_header(X402_PAYMENT, format!("{{{}}}", self.members())),
        }
    }

    /// Returns the members without braces, as ASCII.
    fn members(&self) -> String {
        let mut members =
            self.intent.map_or_else(String::new, |intent| format!(r#""intentId":{},"#, ascii_json(intent)));
        let _ = write!(members, r#""txHash":"{}""#, self.transaction);
        if let Some(secret) = &self.secret {
            let _ = write!(members, r#","paymentSecret":"{}""#, secret.as_str());
        }
        if let Some(signature) = self.signature {
            let _ = write!(members, r#","paymentSignature":"{signature}""#);
        }
        if let Some(network) = self.network {
            let _ = write!(members, r#","chainId":{}"#, network.chain_id());
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"{"version":1,"entry":{"id":"01010101010101010101010101010101","at":1700000000,"state":"redeeming","host":"api.example","request":"POST /v1","fingerprint":"00ff","intent":"the-present-intent","secret":null,"expiry":1700000060,"recipient":"0x0202020202020202020202020202020202020202","network":"eip155:8453","isElsewhere":false,"amount":"490000","decimals":6,"payment":"none","transaction":null,"settled":null,"delivered":false,"billed":0}}"#;

    fn members(secret: Option<&str>, signature: Option<&PaymentSignature>) -> serde_json::Value {
        let mut entry = JournalEntry::from_record(ENTRY).unwrap();
        entry.secret = secret.map(str::to_owned);
        let members = TransferProof::of(&entry, TxHash::new([7; 32]), signature).members();
        serde_json::from_str(&format!("{{{members}}}")).unwrap()
    }

    #[test]
    fn the_secret_is_shown_where_the_seller_cannot_know_it() {
        let plain = serde_json::json!({"intentId": "the-present-intent", "txHash": TxHash::new([7; 32]).to_string()});
        // The last two are no valid secrets (too short; invalid characters): a seller would refuse the whole proof.
        for secret in [None, Some("the-present-intent"), Some("intent-1"), Some("not plain, but long")] {
            assert_eq!(members(secret, None), plain, "{secret:?}");
        }
        let shown = members(Some("the-intent-of-before"), None);
        assert_eq!(shown["paymentSecret"], "the-intent-of-before");
        assert_eq!(shown.as_object().unwrap().len(), 3);
    }

    #[test]
    fn so_is_a_signature() {
        let signature = "0xabcd".parse().unwrap();
        assert_eq!(members(None, Some(&signature))["paymentSignature"], "0xabcd");
        let both = members(Some("the-intent-of-before"), Some(&signature));
        assert_eq!((both.as_object().unwrap().len(), &both["paymentSignature"]), (4, &"0xabcd".into()));
    }
}
