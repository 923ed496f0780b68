//! `Prerequisites`: the values that each transaction of the wallet needs.

use alloy::consensus::TxEip1559;
use futures_util::future::try_join3;
use serde_json::json;

use super::{
    account::{Account, WalletSettings},
    transaction::with_fees,
};
use crate::{
    client::PayerError,
    evm::wallet::{
        fees::Fees,
        node::{Failure, Quantity},
    },
    protocol::Address,
};

/// More gas than any honest token needs for a transfer.
pub(super) const GAS_MAX: u64 = 500_000;

/// The next nonce, the current fees, and the ether to pay them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prerequisites {
    pub(super) nonce: u64,
    fees: Fees,
    ether: u128,
}

impl Prerequisites {
    /// Asks the nodes for them; the caller has the wallet's turn.
    pub(super) async fn of(account: &Account) -> Result<Self, PayerError> {
        let nonce = async { Ok::<_, PayerError>(account.key.next_nonce().await??) };
        let (fees, ether) = (async { Ok(account.key.fees().await?) }, async { Ok(account.key.ether().await?) });
        let (nonce, fees, ether) = try_join3(nonce, fees, ether).await?;
        Ok(Self { nonce, fees, ether })
    }

    /// Checks that the fees are below the wallet's limit.
    pub(super) const fn within(self, settings: &WalletSettings) -> Result<Self, PayerError> {
        if self.fees.most > settings.max_fee_per_gas { Err(PayerError::Fees) } else { Ok(self) }
    }

    /// Sets the fees of a transaction, if the account has enough ether.
    pub(super) fn paying(self, transaction: TxEip1559) -> Result<TxEip1559, PayerError> {
        if self.ether < self.fees.most.saturating_mul(transaction.gas_limit.into()) {
            return Err(PayerError::Refused("the wallet has too little ether for the chain's fee"));
        }
        Ok(with_fees(transaction, self.fees))
    }
}

/// Returns the estimated gas of a call to a token plus a fifth, because balances may change until it is mined.
/// `refused` is the error if the call would fail.
pub(super) async fn gas(
    account: &Account,
    token: Address,
    draft: &TxEip1559,
    refused: &'static str,
) -> Result<u64, PayerError> {
    let call = json!({"from": account.key.address, "to": token, "data": const_hex::encode_prefixed(&draft.input)});
    let question = json!([call, "pending"]);
    let ask = account.key.nodes.first(|node| node.ask::<Quantity>("eth_estimateGas", question.clone()));
    let estimate = match ask.await {
        Err(Failure::Refusal(_)) => return Err(PayerError::Refused(refused)),
        answer => answer?.small()?,
    };
    let gas = estimate.saturating_add(estimate / 5);
    if gas > GAS_MAX { Err(PayerError::Refused("the token asks for absurdly much gas")) } else { Ok(gas) }
}
