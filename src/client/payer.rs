//! `Payer`: who signs and sends the money. Two steps, so that a journal can stand between them.

use std::{any::Any, fmt, future::Future};

use serde::{Deserialize, Serialize};

use super::PurchaseId;
use crate::protocol::{Address, Amount, Asset, Network, PaymentTag, TxHash};

/// Who pays: a wallet of one's own ([`WalletPayer`](super::WalletPayer)), or a custodian's interface.
///
/// The layer asks in this order, and writes to the [`Journal`](super::Journal) in between:
///
/// 1. [`turn`](Payer::turn), then [`prepare`](Payer::prepare): nothing has left this machine, the transfer has a name.
/// 2. *the journal records it, durably*
/// 3. [`send`](Payer::send): the money moves.
/// 4. [`fate`](Payer::fate), again and again, until the transfer is in a block or never will be; now and then
///    [`replace`](Payer::replace), which is recorded before it is sent like the first.
///
/// **What money hangs on.** One purchase is paid by at most one transfer. So whatever `prepare` and `replace` give
/// for one purchase must exclude each other (a wallet: one nonce; a custodian: one idempotency key), and `send` of
/// the same [`Prepared`] must be repeatable: sent twice, it pays once.
///
/// **Time.** The layer's patience counts between these calls, not within them: each has to end by itself, in error if
/// it must. One that hangs in `prepare` or `send` keeps its turn, and so every other payment, waiting.
pub trait Payer: Send + Sync + 'static {
    /// Waits until no other payment of this payer stands between `prepare` and `send`. The layer holds the turn from
    /// before the one until after the other. A payer whose payments do not get into each other's way gives
    /// [`Turn::free`].
    fn turn(&self) -> impl Future<Output = Turn> + Send;

    /// Makes a transfer ready in one of the payment's assets, without sending it.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing that could be.
    fn prepare(&self, payment: &Payment) -> impl Future<Output = Result<Prepared, PayerError>> + Send;

    /// Sends it, or sends it again: the same `Prepared` pays once, however often it is sent.
    ///
    /// # Errors
    /// [`PayerError`]: whether it was sent is then not known, and [`fate`](Payer::fate) tells.
    fn send(&self, prepared: &Prepared) -> impl Future<Output = Result<TxHash, PayerError>> + Send;

    /// What became of a payment: `prepared` is everything that was ever recorded for it, oldest first, never empty.
    ///
    /// # Errors
    /// [`PayerError`]: nobody could be asked. That says nothing about the payment.
    fn fate(&self, prepared: &[Prepared]) -> impl Future<Output = Result<Fate, PayerError>> + Send;

    /// A dearer transaction that can only be mined *instead* of those of `prepared` (a fee bump on the same nonce), or
    /// `None` where there is none to be had.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent.
    fn replace(&self, prepared: &[Prepared]) -> impl Future<Output = Result<Option<Prepared>, PayerError>> + Send;
}

/// One transfer that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payment {
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

impl Payment {
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
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prepared {
    /// The account that pays.
    pub payer: Address,
    /// The token that is paid with.
    pub token: Address,
    /// The transaction, where it is known before it is sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transaction: Option<TxHash>,
    /// The account's nonce, where the payer chooses it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nonce: Option<u64>,
    /// What the payer needs to send it: a signed transaction, an idempotency key. Only the payer reads it.
    pub payload: String,
}

impl Prepared {
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
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("payer", &self.payer)
            .field("token", &self.token)
            .field("transaction", &self.transaction)
            .field("nonce", &self.nonce)
            .finish_non_exhaustive()
    }
}

/// What became of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Fate {
    /// Nobody has it: it was never sent, or was dropped. It can still be sent, and mined.
    Unknown,
    /// It was sent, and is in no block yet (or in one that may yet vanish).
    Pending,
    /// This transaction is in a block, and the transfer happened.
    Mined {
        /// Which of those that were sent.
        transaction: TxHash,
        /// How many blocks stand on it, its own included: at least 1.
        confirmations: u64,
    },
    /// This transaction is in a block that will not vanish, and nothing was transferred.
    Reverted {
        /// Which of those that were sent.
        transaction: TxHash,
    },
    /// None of them can ever be mined, and none was: say so only of what will not change.
    Impossible,
}

/// Leave to prepare and send: while it lives, no other payment of the same payer is prepared.
#[must_use = "the turn is over when this is dropped"]
pub struct Turn(#[expect(dead_code, reason = "held for its Drop")] Option<Box<dyn Any + Send + Sync>>);

impl Turn {
    /// For payers that need no order.
    pub const fn free() -> Self {
        Self(None)
    }

    /// Ends when `guard` is dropped.
    pub fn held(guard: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// Why a payer could not do as it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayerError {
    /// The payer is on another chain.
    #[error("the wallet is on {wallet}, the payment is due on {asked}")]
    WrongNetwork {
        /// Where the payment is due.
        asked: Network,
        /// Where the wallet pays.
        wallet: Network,
    },
    /// No asset of the payment is there in that amount.
    #[error("{payer} has too little of the accepted tokens")]
    Funds {
        /// The account that should have paid.
        payer: Address,
    },
    /// The chain asks more for a transaction than the payer is allowed to spend on it.
    #[error("the chain's fees are above what the wallet may spend on them")]
    Fees,
    /// A token does not have the decimals that its asset says.
    #[error("{token} does not have the decimals that were expected of it")]
    Decimals {
        /// The token contract.
        token: Address,
    },
    /// Whoever was to be asked (a node, a custodian) did not answer, or not in time.
    #[error("{0}")]
    Unavailable(&'static str),
    /// Whoever was asked refused.
    #[error("{0}")]
    Refused(&'static str),
    /// What was recorded is none of this payer's.
    #[error("the recorded payment cannot be read: was it prepared by another kind of payer?")]
    Foreign,
    /// Anything else. Its text must hold no key and no URL that holds one.
    #[error("the payer failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
