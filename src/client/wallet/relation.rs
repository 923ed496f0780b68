//! Decides whether a transaction makes the transfer of a purchase: by its tag, because two purchases can share
//! everything else.

use alloy::{
    consensus::{Transaction as _, TxEip1559},
    primitives::TxKind,
};

use crate::{
    evm::{erc20::TRANSFER_LEN, transaction::SignedTransaction},
    protocol::{Address, PaymentTag, TxHash},
};

/// A transaction with a verified signature, which no node could have invented.
pub(super) struct Proven {
    pub(super) hash: TxHash,
    to: TxKind,
    input: Vec<u8>,
}

impl Proven {
    /// Reads a node's JSON; returns only what that account signed for that chain and nonce.
    pub(super) fn read(json: &str, account: Address, chain_id: u64, nonce: u64) -> Option<Self> {
        Self::of(&SignedTransaction::read(json)?, account, chain_id, nonce)
    }

    fn of(signed: &SignedTransaction, account: Address, chain_id: u64, nonce: u64) -> Option<Self> {
        let SignedTransaction { hash, signer, envelope } = signed;
        let is_it = *signer == account && envelope.chain_id() == Some(chain_id) && envelope.nonce() == nonce;
        is_it.then(|| Self { hash: *hash, to: envelope.kind(), input: signed.input().to_vec() })
    }
}

/// The relation of another transaction with the same nonce to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The same transfer for the same purchase, with other fees: sped up by hand, or sent from a lost journal.
    Same,
    /// Another transfer, or none.
    Other,
    /// Undecidable, so it counts as neither.
    Unclear,
}

/// Returns how `other` relates to the payment that `ours` makes.
///
/// If ours has a tag, another transfer belongs to the same purchase only if it is equal and has the same tag; no wallet
/// puts the tag elsewhere. If ours has none, an equal untagged transfer may belong to any purchase.
pub(super) fn relation(ours: &TxEip1559, other: &Proven) -> Relation {
    let same_call = other.to == ours.to && other.input.get(..TRANSFER_LEN) == ours.input.get(..TRANSFER_LEN);
    let our_tag = ours.input.get(TRANSFER_LEN..).unwrap_or_default();
    if our_tag.is_empty() {
        let is_tagged = other.input.get(TRANSFER_LEN..).is_some_and(PaymentTag::any_in);
        return if same_call && !is_tagged { Relation::Unclear } else { Relation::Other };
    }
    match (same_call, memchr::memmem::find(&other.input, our_tag).is_some()) {
        (true, true) => Relation::Same,
        (false, true) => Relation::Unclear,
        (_, false) => Relation::Other,
    }
}

#[cfg(test)]
mod tests {
    use alloy::{
        consensus::{SignableTransaction as _, TxEnvelope, TxLegacy},
        network::TxSignerSync as _,
        signers::local::PrivateKeySigner,
    };

    use super::*;
    use crate::{
        client::{PurchaseId, TransferRequest, wallet::transaction::draft},
        protocol::{Amount, Asset, Network},
    };

    fn payment(recipient: u8, amount: u128) -> TransferRequest {
        let (purchase, recipient) = (PurchaseId::new([1; 16]), Address::new([recipient; 20]));
        TransferRequest::new(purchase, Network::BASE, recipient, Amount::from_base_units(amount), [Asset::USDC_BASE])
    }

    fn transfer(payment: &TransferRequest, token: &Asset, secret: Option<&str>) -> TxEip1559 {
        draft(payment, token.contract(), secret.map(PaymentTag::of))
    }

    fn signed(signer: &PrivateKeySigner, mut transaction: TxEip1559) -> TxEnvelope {
        let signature = signer.sign_transaction_sync(&mut transaction).unwrap();
        transaction.into_signed(signature).into()
    }

    fn alike(ours: &TxEip1559, other: TxEip1559) -> Relation {
        relation(ours, &Proven { hash: TxHash::new([0; 32]), to: other.to, input: other.input.to_vec() })
    }

    #[test]
    fn one_purchase_is_told_from_another_by_its_tag_alone() {
        let usual = payment(7, 490_000);
        let make = |secret| transfer(&usual, &Asset::USDC_BASE, secret);
        let with = |mut transaction: TxEip1559, input: &[&[u8]]| {
            transaction.input = input.concat().into();
            transaction
        };
        let ours = make(Some("mine"));
        assert_eq!(alike(&ours, TxEip1559 { max_fee_per_gas: 9, ..ours.clone() }), Relation::Same);
        assert_eq!(alike(&ours, with(ours.clone(), &[&ours.input, b"a suffix"])), Relation::Same);
        for other in [
            make(Some("another")),
            make(None),
            TxEip1559::default(),
            with(ours.clone(), &[&ours.input[..103]]),
            with(ours.clone(), &[&ours.input[..3]]),
        ] {
            assert_eq!(alike(&ours, other), Relation::Other);
        }
        for other in [
            transfer(&payment(8, 490_000), &Asset::USDC_BASE, Some("mine")),
            transfer(&payment(7, 490_001), &Asset::USDC_BASE, Some("mine")),
            transfer(&usual, &Asset::USDBC_BASE, Some("mine")),
            with(ours.clone(), &[b"batch", &ours.input]),
        ] {
            assert_eq!(alike(&ours, other), Relation::Unclear);
        }
        let bare = make(None);
        assert_eq!(alike(&bare, bare.clone()), Relation::Unclear, "two purchases that cannot be told apart");
        assert_eq!(alike(&bare, with(bare.clone(), &[&bare.input, b"a suffix"])), Relation::Unclear);
        assert_eq!(alike(&bare, make(Some("another"))), Relation::Other);
        assert_eq!(alike(&bare, transfer(&payment(7, 490_001), &Asset::USDC_BASE, None)), Relation::Other);
    }

    #[test]
    fn only_what_the_account_signed_for_this_chain_and_nonce_is_proven() {
        let (mine, stranger) = (PrivateKeySigner::random(), PrivateKeySigner::random());
        let account = Address::new(mine.address().into());
        let transaction = TxEip1559 { chain_id: 8453, nonce: 5, ..transfer(&payment(7, 1), &Asset::USDC_BASE, None) };
        let good = signed(&mine, transaction.clone());
        let read = |transaction: &TxEnvelope, chain_id, nonce| {
            Proven::of(&SignedTransaction::of(transaction.clone())?, account, chain_id, nonce)
        };
        assert_eq!(read(&good, 8453, 5).map(|proven| proven.hash.to_string()), Some(good.hash().to_string()));
        assert!(read(&good, 8453, 6).is_none() && read(&good, 1, 5).is_none());
        assert!(read(&signed(&stranger, transaction.clone()), 8453, 5).is_none());
        // The signature of other content recovers to another account.
        let TxEnvelope::Eip1559(signed) = &good else { unreachable!() };
        let changed = TxEip1559 { gas_limit: 1, ..transaction };
        assert!(read(&changed.into_signed(*signed.signature()).into(), 8453, 5).is_none());
        // Signed for every chain, so it proves nothing for this one.
        let mut legacy = TxLegacy { chain_id: None, nonce: 5, ..TxLegacy::default() };
        let signature = mine.sign_transaction_sync(&mut legacy).unwrap();
        assert!(read(&legacy.into_signed(signature).into(), 8453, 5).is_none());
    }
}
