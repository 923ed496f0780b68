//! The payment that bought a pass, as the pass's account notes it: fixed fields in bytes, since each call reads them.

use crate::{
    ledger::AccountMemo,
    paywall::seller::byte_fields::take,
    protocol::{
        Address, Amount, Binding, ChainTime, IntentKey, Network, Payment, SignedTransfer, Transfer, TxHash,
        channel::{ChannelId, VoucherPayment},
    },
};

/// The version of the format of these notes.
const FORM: u8 = 1;
/// Flags for what follows the fields that every payment has.
const TRANSACTION: u8 = 1;
const PLACE: u8 = 2;
const NONCE: u8 = 4;
/// Set if the nonce is one of Permit2.
const PERMIT: u8 = 8;
/// In place of a nonce: channel, total and intent of a voucher.
const VOUCHER: u8 = 16;

/// Writes a payment as a memo. It always fits, since all of its fields are bounded.
pub(crate) fn write(payment: &Payment) -> AccountMemo {
    let (transaction, nonce) = (payment.transaction(), payment.nonce());
    let place = payment.position().map(|position| (position, payment.block_number().unwrap_or_default()));
    let mut memo = vec![FORM, 0];
    memo.extend_from_slice(&payment.network().chain_id().to_be_bytes());
    for address in [payment.token(), payment.payer(), payment.recipient()] {
        memo.extend_from_slice(address.as_bytes());
    }
    memo.extend_from_slice(&payment.amount().to_be_bytes());
    memo.extend_from_slice(&payment.time().unix().to_be_bytes());
    let mut parts = 0;
    if let Some(transaction) = transaction {
        parts |= TRANSACTION;
        memo.extend_from_slice(transaction.as_bytes());
    }
    if let Some((position, block)) = place {
        parts |= PLACE;
        memo.extend_from_slice(&position.to_be_bytes());
        memo.extend_from_slice(&block.to_be_bytes());
    }
    match (payment, nonce) {
        (Payment::Voucher(voucher), _) => {
            parts |= VOUCHER;
            memo.extend_from_slice(voucher.channel().as_bytes());
            memo.extend_from_slice(&voucher.total().to_be_bytes());
            memo.extend_from_slice(voucher.intent().as_bytes());
        }
        (_, Some(nonce)) => {
            parts |= NONCE;
            memo.extend_from_slice(nonce);
        }
        (_, None) => {}
    }
    if matches!(payment, Payment::Permit(_)) {
        parts |= PERMIT;
    }
    memo[1] = parts;
    AccountMemo::new(memo).unwrap_or_default()
}

/// Parses the payment; `None` for anything else.
pub(crate) fn read(memo: &AccountMemo) -> Option<Payment> {
    let mut rest = memo.as_bytes();
    let [form, parts] = take(&mut rest)?;
    if form != FORM {
        return None;
    }
    let network = Network::eip155(u64::from_be_bytes(take(&mut rest)?));
    let [token, payer, recipient] = [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?].map(Address::new);
    let amount = Amount::from_be_bytes(take(&mut rest)?);
    let time = ChainTime::from_unix(u64::from_be_bytes(take(&mut rest)?));
    let has = |part: u8| parts & part != 0;
    let transaction = if has(TRANSACTION) { Some(TxHash::new(take(&mut rest)?)) } else { None };
    let place = match has(PLACE) {
        true => Some((u32::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?))),
        false => None,
    };
    let nonce = if has(NONCE) { Some(take::<32>(&mut rest)?) } else { None };
    if has(VOUCHER) {
        let channel = ChannelId::new(take(&mut rest)?);
        let (total, intent) = (u128::from_be_bytes(take(&mut rest)?), IntentKey::new(take(&mut rest)?));
        let voucher = VoucherPayment::restored(network, channel, total, intent).between(payer, token, recipient);
        return rest.is_empty().then(|| voucher.with_amount(amount).with_shown(time).into());
    }
    if !rest.is_empty() {
        return None;
    }
    match (place.zip(transaction), nonce) {
        (Some(((position, block), transaction)), nonce) => {
            let binding = nonce.map_or(Binding::none(), |nonce| Binding::none().with_nonce(nonce));
            let transfer = Transfer::new(network, transaction, position)
                .with_token(token)
                .with_payer(payer)
                .with_recipient(recipient)
                .with_amount(amount)
                .with_block(block, time)
                .with_binding(binding);
            Some(transfer.into())
        }
        (None, Some(nonce)) => {
            let signed = SignedTransfer::new(network, token, payer, nonce)
                .with_recipient(recipient)
                .with_amount(amount)
                .with_shown(time);
            let signed = SignedTransfer { transaction, ..signed };
            Some(if has(PERMIT) { Payment::Permit(signed) } else { Payment::Authorization(signed) })
        }
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::channel::ChannelConfig;

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
        let channel = ChannelConfig::new(signed.payer, Address::new([3; 20]), signed.token);
        let voucher = VoucherPayment::new(Network::BASE, &channel, u128::MAX, IntentKey::new([6; 16]))
            .with_amount(Amount::from_base_units(1))
            .with_shown(signed.shown);
        for payment in [
            Payment::from(mined.clone()),
            mined.with_binding(Binding::none().with_nonce([5; 32])).into(),
            signed.clone().into(),
            signed.clone().with_transaction(hash).into(),
            Payment::Permit(signed.clone()),
            Payment::Permit(signed.with_transaction(hash)),
            voucher.into(),
        ] {
            let noted = read(&write(&payment)).unwrap();
            assert_eq!((noted.id(), &noted), (payment.id(), &payment));
        }
        let whole = write(&Transfer::new(Network::BASE, hash, 3).into());
        for length in 0..whole.as_bytes().len() {
            assert!(read(&AccountMemo::new(&whole.as_bytes()[..length]).unwrap()).is_none(), "{length}");
        }
        let more = AccountMemo::new([whole.as_bytes(), &[0]].concat()).unwrap();
        assert!(read(&more).is_none());
    }
}
