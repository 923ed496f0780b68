//! `PayerSignature`: the payer's proof that it made the payment, for sellers that demand it.

use crate::{
    client::{JournalEntry, PayerError, payer::ErasedPayer},
    protocol::{Address, IntentId, PaymentSignature, TxHash, redemption_message},
};

/// Signs a redemption, once for each intent.
pub(super) struct PayerSignature<'a> {
    payer: &'a dyn ErasedPayer,
    signed: Option<Signed>,
}

struct Signed {
    intent: String,
    transaction: TxHash,
    signature: PaymentSignature,
}

impl<'a> PayerSignature<'a> {
    pub(super) const fn of(payer: &'a dyn ErasedPayer) -> Self {
        Self { payer, signed: None }
    }

    /// Returns the signature for this transaction under the entry's intent, if there is one.
    pub(super) fn get(&self, entry: &JournalEntry, transaction: TxHash) -> Option<&PaymentSignature> {
        let signed = self.signed.as_ref()?;
        (signed.transaction == transaction && signed.intent == entry.intent).then_some(&signed.signature)
    }

    /// Signs for this transaction under the entry's intent; returns `false` if the payer cannot.
    ///
    /// The text is built from known values: a text from the seller might be for another payment.
    pub(super) async fn sign(&mut self, entry: &JournalEntry, transaction: TxHash) -> Result<bool, PayerError> {
        let (Some(paid), Some(intent)) = (paid_by(entry, transaction), plain(&entry.intent)) else { return Ok(false) };
        let message = redemption_message(entry.network, transaction, &intent);
        let Some(signature) = self.payer.sign(&message, paid).await? else { return Ok(false) };
        self.signed = Some(Signed { intent: entry.intent.clone(), transaction, signature });
        Ok(true)
    }
}

/// Returns the account that paid by this transaction.
fn paid_by(entry: &JournalEntry, transaction: TxHash) -> Option<Address> {
    match entry.authorization() {
        Some(signed) => Some(signed.authorization.from),
        None => entry.transfer_of(Some(transaction)).map(|transfer| transfer.payer),
    }
}

/// Returns an intent in the contract's form. Any other form could mislead a reader of the signed text.
fn plain(intent: &str) -> Option<IntentId> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    IntentId::new(intent).ok().filter(|_| intent.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::{JournalPayment, PreparedTransfer, PurchaseId, PurchaseState, payer::NoPayer},
        protocol::{Amount, ChainTime, Network},
    };

    const FIRST: TxHash = TxHash::new([1; 32]);
    const SECOND: TxHash = TxHash::new([2; 32]);

    /// A payment that one account sent, and then another account sent again.
    fn entry() -> JournalEntry {
        let sent = |by, hash| {
            PreparedTransfer::signed(Address::new([by; 20]), Network::BASE, Address::new([9; 20]), 5, hash, "signed")
        };
        JournalEntry {
            id: PurchaseId::new([0; 16]),
            at: ChainTime::from_unix(1),
            state: PurchaseState::Redeeming,
            host: "seller.example".to_owned(),
            request: "POST /answer".to_owned(),
            fingerprint: String::new(),
            intent: "an-intent-of-the-seller".to_owned(),
            secret: None,
            expiry: ChainTime::from_unix(2),
            recipient: Address::new([7; 20]),
            network: Network::BASE,
            is_elsewhere: false,
            amount: Amount::from_base_units(490_000),
            decimals: 6,
            payment: JournalPayment::Transfer(vec![sent(1, FIRST), sent(2, SECOND)]),
            transaction: Some(FIRST),
            settled: None,
            delivered: false,
            billed: 0,
            charged: None,
            is_pass: false,
        }
    }

    #[test]
    fn a_signature_is_shown_for_what_it_was_made_for_and_nothing_else() {
        let mut entry = entry();
        let signature = PaymentSignature::new([3; 65]).unwrap();
        let signed = Signed { intent: entry.intent.clone(), transaction: FIRST, signature: signature.clone() };
        let shown = PayerSignature { payer: &NoPayer, signed: Some(signed) };
        assert_eq!(shown.get(&entry, FIRST), Some(&signature));
        // A reorganisation replaced the transaction.
        assert_eq!(shown.get(&entry, SECOND), None);
        entry.intent.push('2');
        assert_eq!(shown.get(&entry, FIRST), None);
    }

    #[test]
    fn who_signs_is_the_account_whose_transaction_was_mined() {
        let entry = entry();
        let payer = |transaction| paid_by(&entry, transaction);
        assert_eq!(payer(FIRST), Some(Address::new([1; 20])));
        assert_eq!(payer(SECOND), Some(Address::new([2; 20])));
        assert_eq!(payer(TxHash::new([4; 32])), Some(Address::new([2; 20])), "the latest");
    }
}
