//! A transfer as a transaction: drafted, signed, and read back from the journal.

use alloy::{
    consensus::{TxEip1559, TxEnvelope},
    eips::eip2718::Decodable2718,
    primitives::{TxKind, keccak256},
};

use crate::{
    client::{PayerError, PreparedTransfer, TransferRequest, payer::TransferOrder},
    evm::{
        erc20,
        wallet::{account::Account, fees::Fees},
    },
    protocol::{Address, Amount, PaymentTag, TxHash},
};

/// Drafts the payment in that token, without gas and fees.
pub(super) fn draft(payment: &TransferRequest, token: Address, tag: Option<PaymentTag>) -> TxEip1559 {
    let mut input = erc20::transfer(payment.recipient, payment.amount);
    input.extend(tag.iter().flat_map(PaymentTag::to_call_data));
    TxEip1559 {
        chain_id: payment.network.chain_id(),
        to: TxKind::Call(token.as_bytes().into()),
        input: input.into(),
        ..TxEip1559::default()
    }
}

/// Sets the fees.
pub(super) fn with_fees(mut transaction: TxEip1559, fees: Fees) -> TxEip1559 {
    transaction.max_fee_per_gas = fees.most;
    transaction.max_priority_fee_per_gas = fees.tip;
    transaction
}

/// Signs the transaction.
pub(super) async fn sign(
    account: &Account,
    transaction: TxEip1559,
    token: Address,
) -> Result<PreparedTransfer, PayerError> {
    let (nonce, fee) = (transaction.nonce, most(&transaction));
    let signed = account.sign(transaction).await.ok_or(PayerError::Refused("the key would not sign the payment"))?;
    Ok(PreparedTransfer::signed(account.address, account.network, token, nonce, signed.hash, signed.raw).costing(fee))
}

/// Returns the highest cost. Unused gas, and the part of the fee above the block's price, are not charged.
fn most(transaction: &TxEip1559) -> Amount {
    Amount::from_base_units(transaction.max_fee_per_gas.saturating_mul(transaction.gas_limit.into()))
}

/// A prepared transaction, read from its payload and verified as ours.
pub(super) struct Sent {
    pub(super) hash: TxHash,
    pub(super) transaction: TxEip1559,
}

/// Reads the result of `sign`.
///
/// It also checks the chain, because this account's nonce on another chain must not decide about this payment.
pub(super) fn read(prepared: &PreparedTransfer, payer: Address, chain_id: u64) -> Result<Sent, PayerError> {
    let TransferOrder::Signed { transaction: named, nonce, raw } = &prepared.order else {
        return Err(PayerError::Foreign);
    };
    let raw = const_hex::decode(raw).map_err(|_| PayerError::Foreign)?;
    let hash = TxHash::new(keccak256(&raw).0);
    let Ok(TxEnvelope::Eip1559(signed)) = TxEnvelope::decode_2718_exact(&raw) else { return Err(PayerError::Foreign) };
    let transaction = signed.strip_signature();
    let ours = prepared.payer == payer
        && (*named, *nonce) == (hash, transaction.nonce)
        && transaction.to == TxKind::Call(prepared.token.as_bytes().into())
        && prepared.network.chain_id() == chain_id
        && transaction.chain_id == chain_id;
    if ours { Ok(Sent { hash, transaction }) } else { Err(PayerError::Foreign) }
}

#[cfg(test)]
mod tests {
    use alloy::signers::local::PrivateKeySigner;

    use super::*;
    use crate::{
        client::PurchaseId,
        evm::wallet::nodes::Nodes,
        protocol::{Asset, Network},
    };

    const TO: Address = Address::new([7; 20]);

    async fn prepared() -> (PreparedTransfer, Address) {
        let account = Account::new(Nodes::new(Vec::new(), 8453), Box::new(PrivateKeySigner::random()));
        let assets = [Asset::USDC_BASE];
        let payment =
            TransferRequest::new(PurchaseId::new([1; 16]), Network::BASE, TO, Amount::from_base_units(490_000), assets);
        let draft = TxEip1559 {
            nonce: 5,
            gas_limit: 60_000,
            ..draft(&payment, Asset::USDC_BASE.contract(), Some(payment.tag))
        };
        let draft = with_fees(draft, Fees { most: 9, tip: 2 });
        (sign(&account, draft, Asset::USDC_BASE.contract()).await.unwrap(), account.address)
    }

    #[tokio::test]
    async fn what_was_signed_is_read_again() {
        let (prepared, payer) = prepared().await;
        let sent = read(&prepared, payer, 8453).unwrap();
        assert_eq!(Some(sent.hash), prepared.transaction());
        assert_eq!((sent.transaction.nonce, sent.transaction.max_fee_per_gas), (5, 9));
        assert_eq!(prepared.fee, Amount::from_base_units(9 * 60_000));
        let (call, tag) = sent.transaction.input.split_at(erc20::TRANSFER_LEN);
        assert_eq!(*call, erc20::transfer(TO, Amount::from_base_units(490_000)));
        assert_eq!(*tag, PaymentTag::of("01010101010101010101010101010101").to_call_data());
    }

    #[tokio::test]
    async fn what_says_something_else_than_it_is_is_foreign() {
        let (good, payer) = prepared().await;
        let TransferOrder::Signed { transaction, nonce, raw } = good.order.clone() else { panic!("{good:?}") };
        let signed = |nonce, transaction, raw: &str| {
            PreparedTransfer::signed(payer, good.network, good.token, nonce, transaction, raw)
        };
        let bad = [
            signed(nonce, transaction, &format!("{raw}00")),
            signed(nonce, transaction, "order-17"),
            signed(nonce, transaction, ""),
            signed(nonce, TxHash::new([1; 32]), &raw),
            signed(4, transaction, &raw),
            PreparedTransfer::keyed(payer, good.network, good.token, &*raw),
            PreparedTransfer { payer: TO, ..good.clone() },
            PreparedTransfer { token: TO, ..good.clone() },
        ];
        for bad in bad {
            assert!(matches!(read(&bad, payer, 8453), Err(PayerError::Foreign)), "{bad:?}");
        }
        assert!(matches!(read(&good, payer, 84532), Err(PayerError::Foreign)), "another chain");
    }
}
