//! The payment that bought a pass, as the pass's account notes it.

use serde::{Deserialize, Serialize};

use crate::{
    ledger::AccountMemo,
    protocol::{Address, Amount, Binding, ChainTime, Network, Payment, SignedTransfer, Transfer, TxHash},
};

#[derive(Serialize, Deserialize)]
struct Memo {
    chain: u64,
    token: Address,
    payer: Address,
    recipient: Address,
    amount: Amount,
    time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transaction: Option<TxHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    /// The nonce is one of Permit2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    permit: bool,
}

/// Notes a payment. It fits into a memo: all of it is bounded.
pub(crate) fn write(payment: &Payment) -> AccountMemo {
    let memo = Memo {
        chain: payment.network().chain_id(),
        token: payment.token(),
        payer: payment.payer(),
        recipient: payment.recipient(),
        amount: payment.amount(),
        time: payment.time().unix(),
        transaction: payment.transaction(),
        position: payment.position(),
        block: payment.block_number(),
        nonce: payment.nonce().map(const_hex::encode),
        permit: matches!(payment, Payment::Permit(_)),
    };
    serde_json::to_vec(&memo).ok().and_then(AccountMemo::new).unwrap_or_default()
}

/// Reads the payment; `None` for anything else.
pub(crate) fn read(memo: &AccountMemo) -> Option<Payment> {
    let memo: Memo = serde_json::from_slice(memo.as_bytes()).ok()?;
    let (network, time) = (Network::eip155(memo.chain), ChainTime::from_unix(memo.time));
    let nonce = match &memo.nonce {
        Some(text) => Some(<[u8; 32]>::try_from(const_hex::decode(text).ok()?).ok()?),
        None => None,
    };
    match (memo.position.zip(memo.transaction), nonce) {
        (Some((position, transaction)), nonce) => {
            let binding = nonce.map_or(Binding::none(), |nonce| Binding::none().with_nonce(nonce));
            let transfer = Transfer::new(network, transaction, position)
                .with_token(memo.token)
                .with_payer(memo.payer)
                .with_recipient(memo.recipient)
                .with_amount(memo.amount)
                .with_block(memo.block.unwrap_or_default(), time)
                .with_binding(binding);
            Some(transfer.into())
        }
        (None, Some(nonce)) => {
            let signed = SignedTransfer::new(network, memo.token, memo.payer, nonce)
                .with_recipient(memo.recipient)
                .with_amount(memo.amount)
                .with_shown(time);
            let signed = memo.transaction.map_or(signed.clone(), |transaction| signed.with_transaction(transaction));
            Some(if memo.permit { Payment::Permit(signed) } else { Payment::Authorization(signed) })
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payment_is_read_as_it_was_noted() {
        let hash = TxHash::new([0xab; 32]);
        let mined = Transfer::new(Network::BASE, hash, 3)
            .with_token(Address::new([1; 20]))
            .with_payer(Address::new([2; 20]))
            .with_recipient(Address::new([3; 20]))
            .with_amount(Amount::MAX)
            .with_block(7, ChainTime::from_unix(9));
        let signed = SignedTransfer::new(Network::BASE, Address::new([1; 20]), Address::new([2; 20]), [5; 32])
            .with_amount(Amount::from_base_units(1))
            .with_shown(ChainTime::from_unix(8));
        for payment in [
            Payment::from(mined.clone()),
            mined.with_binding(Binding::none().with_nonce([5; 32])).into(),
            signed.clone().into(),
            signed.clone().with_transaction(hash).into(),
            Payment::Permit(signed.clone()),
            Payment::Permit(signed.with_transaction(hash)),
        ] {
            let read = read(&write(&payment)).unwrap();
            assert_eq!((read.id(), &read), (payment.id(), &payment));
        }
        assert!(super::read(&AccountMemo::new(*b"{}").unwrap()).is_none());
    }
}
