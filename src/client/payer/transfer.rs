//! A transfer: asked for, and ready to be sent.

use std::fmt;

use crate::{
    client::PurchaseId,
    protocol::{Address, Amount, Asset, Network, PaymentTag, TxHash, v2::SignedAuthorization},
};

/// A request to make one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferRequest {
    /// The purchase that is paid. A custodian's idempotency key is made of it.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The account that is to be paid.
    pub recipient: Address,
    /// The amount, in base units of the asset that is chosen: all have the same decimals.
    pub amount: Amount,
    /// The assets to choose from, in the seller's order; never empty, all on `network`.
    pub assets: Vec<Asset>,
    /// The tag that distinguishes this transfer from every other one of the same amount to the same recipient, and binds it
    /// to the quote that it pays for: a payer that writes its own transactions appends it to the call data.
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

    /// Returns the same request with the tag of another secret.
    #[must_use]
    pub fn tagged(mut self, secret: &str) -> Self {
        self.tag = PaymentTag::of(secret);
        self
    }
}

/// A transfer that is ready to be sent, or an authorization that is ready to be shown. The journal keeps it, so that a crash cannot
/// lose it.
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
    /// What the payer needs to send it: a signed transaction, or an idempotency key. Only the payer reads it. Of an authorization: the
    /// message that the seller is shown, as JSON.
    pub payload: String,
    /// The signed authorization, where the seller settles the payment. Whoever has it can settle it, and pays only whom it names.
    pub authorization: Option<SignedAuthorization>,
    /// The most that its transaction costs the payer, in the smallest unit of the chain's coin (wei). Zero where the payer bears no fee:
    /// of an authorization, whose seller does.
    pub fee: Amount,
}

impl PreparedTransfer {
    /// Describes a signed transaction, whose hash and nonce are known.
    #[must_use]
    pub fn signed(payer: Address, token: Address, nonce: u64, transaction: TxHash, raw: impl Into<String>) -> Self {
        Self {
            payer,
            token,
            transaction: Some(transaction),
            nonce: Some(nonce),
            payload: raw.into(),
            authorization: None,
            fee: Amount::ZERO,
        }
    }

    /// Returns the same transfer, whose transaction costs up to this, in wei: what a [`Budget`](crate::client::Budget) limits as gas.
    #[must_use]
    pub const fn costing(mut self, fee: Amount) -> Self {
        self.fee = fee;
        self
    }

    /// Describes an order to a custodian, under a key with which sending twice pays once.
    #[must_use]
    pub fn keyed(payer: Address, token: Address, idempotency_key: impl Into<String>) -> Self {
        let (authorization, fee) = (None, Amount::ZERO);
        Self { payer, token, transaction: None, nonce: None, payload: idempotency_key.into(), authorization, fee }
    }

    /// Describes a signed authorization of this token, and the message with which it is shown.
    #[must_use]
    pub fn authorized(token: Address, signed: SignedAuthorization, message: impl Into<String>) -> Self {
        let payer = signed.authorization.from;
        let (authorization, fee) = (Some(signed), Amount::ZERO);
        Self { payer, token, transaction: None, nonce: None, payload: message.into(), authorization, fee }
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
            .field("is_authorization", &self.authorization.is_some())
            .finish_non_exhaustive()
    }
}
