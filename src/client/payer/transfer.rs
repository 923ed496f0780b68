//! A transfer: asked for, and ready to be sent.

use std::fmt;

use crate::{
    client::PurchaseId,
    protocol::{Address, Amount, Asset, Network, PaymentTag, TxHash},
};

/// One transfer that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferRequest {
    /// What the payment is for. A custodian's idempotency key is made of it.
    pub purchase: PurchaseId,
    /// On which chain.
    pub network: Network,
    /// Who is to be paid.
    pub recipient: Address,
    /// How much, in base units of whichever asset is chosen: they all have the same decimals.
    pub amount: Amount,
    /// What may be paid with, in the seller's order; never empty, all on `network`.
    pub assets: Vec<Asset>,
    /// What tells this transfer from every other one of the same amount to the same recipient, and binds it to the quote
    /// that it pays for: a payer that writes its own transactions appends it to the call data.
    pub tag: PaymentTag,
}

impl TransferRequest {
    /// A payment, for the tests of a payer. Its tag is that of the purchase's name; the layer takes the quote's intent.
    #[must_use]
    pub fn new(
        purchase: PurchaseId,
        network: Network,
        recipient: Address,
        amount: Amount,
        assets: impl IntoIterator<Item = Asset>,
    ) -> Self {
        let tag = PaymentTag::of(&purchase.to_string());
        Self { purchase, network, recipient, amount, assets: assets.into_iter().collect(), tag }
    }

    /// The same payment with the tag of another secret.
    #[must_use]
    pub fn tagged(mut self, secret: &str) -> Self {
        self.tag = PaymentTag::of(secret);
        self
    }
}

/// A transfer that is ready to be sent. Once the journal has it, a crash cannot lose it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedTransfer {
    /// The account that pays.
    pub payer: Address,
    /// The token that is paid with.
    pub token: Address,
    /// The transaction, where it is known before it is sent.
    pub transaction: Option<TxHash>,
    /// The account's nonce, where the payer chooses it.
    pub nonce: Option<u64>,
    /// What the payer needs to send it: a signed transaction, an idempotency key. Only the payer reads it.
    pub payload: String,
}

impl PreparedTransfer {
    /// A signed transaction: its hash is known, and so is what excludes it, its nonce.
    #[must_use]
    pub fn signed(payer: Address, token: Address, nonce: u64, transaction: TxHash, raw: impl Into<String>) -> Self {
        Self { payer, token, transaction: Some(transaction), nonce: Some(nonce), payload: raw.into() }
    }

    /// An order to a custodian, under a key with which sending twice pays once.
    #[must_use]
    pub fn keyed(payer: Address, token: Address, idempotency_key: impl Into<String>) -> Self {
        Self { payer, token, transaction: None, nonce: None, payload: idempotency_key.into() }
    }
}

/// Without the payload, with which anybody could send it.
impl fmt::Debug for PreparedTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTransfer")
            .field("payer", &self.payer)
            .field("token", &self.token)
            .field("transaction", &self.transaction)
            .field("nonce", &self.nonce)
            .finish_non_exhaustive()
    }
}
