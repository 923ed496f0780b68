//! `Payer`: signs and sends the money, in two steps, so that the journal can record in between; or signs for it, and the seller sends it.

mod authorization;
mod erased;
mod error;
mod guard;
mod none;
mod status;
mod stored;
mod transfer;

use std::future::Future;

pub use authorization::{AuthorizationRequest, AuthorizationStatus};
pub(super) use erased::ErasedPayer;
pub use error::PayerError;
pub use guard::SubmitGuard;
pub(super) use none::NoPayer;
pub use status::TransferStatus;
pub use transfer::{PreparedAuthorization, PreparedTransfer, TransferOrder, TransferRequest};

use crate::protocol::{
    Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain, TxHash, v2::SignedAuthorization,
};

/// Pays: a wallet with a key of its own ([`WalletPayer`](super::WalletPayer)), or a custodian's interface.
///
/// The layer calls these methods in this order, and writes to the [`Journal`](super::Journal) in between:
///
/// 1. [`submit_guard`](Payer::submit_guard), then [`prepare`](Payer::prepare): nothing has left this machine, but what will be sent is known.
/// 2. *the journal records it, durably*
/// 3. [`send`](Payer::send): the money moves.
/// 4. [`status`](Payer::status), again and again, until the transfer is in a block or never will be; now and then
///    [`replace`](Payer::replace), which is recorded before it is sent like the first.
///
/// **Paying once.** One purchase is paid by at most one transfer. So whatever `prepare` and `replace` return
/// for one purchase must exclude each other (a wallet: one nonce; a custodian: one idempotency key), and `send` of
/// the same [`PreparedTransfer`] must be repeatable: sent twice, it pays once.
///
/// **Who can redeem.** Everybody sees a transaction on the chain. What a payer does decides who can redeem it:
///
/// | The payer | Then |
/// |---|---|
/// | appends the request's [tag](TransferRequest::tag) to the call data of a transaction of its own | only who knows the purchase's intent can redeem it: this client does, also under another intent, and needs no signature |
/// | [signs](Payer::sign) | this client can redeem it wherever the seller asks who paid, tagged or not |
/// | does neither | the seller gives the answer to whoever shows the transaction first, some seconds after it was mined; one that accepts bound payments only refuses it, and the call ends in [`PayError::Unproven`](super::PayError::Unproven) |
///
/// A tag counts only where the account that pays also sends the transaction. A custodian that pays from a common account, or through
/// a relay, cannot tag, and mostly cannot sign either: ask it before relying on sellers that require bound payments.
///
/// **Authorizations.** Sellers of the x402 standard take a signed authorization (EIP-3009), and pay the gas themselves. A payer that
/// signs them implements the last four methods; their defaults say that it does not, and then it pays by transfers alone. The layer asks
/// [`authorizes`](Payer::authorizes), then [`authorize`](Payer::authorize); *the journal records what was signed, durably*; the seller is
/// shown it; and whenever it is not certain what became of it, [`authorization_status`](Payer::authorization_status) tells. To
/// [cancel](super::PayLayer::cancel) it, the layer calls [`prepare_cancellation`](Payer::prepare_cancellation), and sends the transaction
/// as it sends a transfer.
///
/// **Time.** The layer's patience counts between these calls, not within them: each has to end by itself, with an error
/// if it must. One that hangs in `prepare` or `send` keeps every other payment waiting.
///
/// ```
/// use tower_x402::{
///     client::{Payer, PayerError, PreparedTransfer, SubmitGuard, TransferRequest, TransferStatus},
///     protocol::{Address, PaymentSignature, TxHash},
/// };
///
/// /// A custodian that pays once for each idempotency key. (Its HTTP calls are left out.)
/// struct Custodian { account: Address }
///
/// impl Payer for Custodian {
///     async fn submit_guard(&self) -> SubmitGuard {
///         SubmitGuard::free()
///     }
///
///     async fn prepare(&self, request: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
///         let asset = request.assets.first().ok_or(PayerError::Funds { payer: self.account })?;
///         Ok(PreparedTransfer::keyed(self.account, asset.contract(), request.purchase.to_string()))
///     }
///
///     async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
///         // POST the order under the key of `prepared.order`; the custodian names the transaction.
///         # let _ = prepared;
///         Err(PayerError::Unavailable("the custodian did not answer"))
///     }
///
///     async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
///         // GET the order. What is not certain is `Pending`.
///         # let _ = prepared;
///         Ok(TransferStatus::Pending)
///     }
///
///     async fn replace(&self, _: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
///         Ok(None)
///     }
///
///     async fn sign(&self, _: &str, _: Address) -> Result<Option<PaymentSignature>, PayerError> {
///         Ok(None) // it does not sign messages
///     }
/// }
/// ```
pub trait Payer: Send + Sync + 'static {
    /// Acquires exclusive access to `prepare` and `send`. The layer holds the guard from before the one until after the
    /// other. A payer whose payments do not affect each other returns
    /// [`SubmitGuard::free`].
    fn submit_guard(&self) -> impl Future<Output = SubmitGuard> + Send;

    /// Prepares a transfer in one of the request's assets, without sending it.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing exists that could be.
    fn prepare(&self, payment: &TransferRequest) -> impl Future<Output = Result<PreparedTransfer, PayerError>> + Send;

    /// Sends a transfer, or sends it again: the same `PreparedTransfer` pays once, however often it is sent.
    ///
    /// # Errors
    /// [`PayerError`]: whether it was sent is then unknown, and [`status`](Payer::status) tells.
    fn send(&self, prepared: &PreparedTransfer) -> impl Future<Output = Result<TxHash, PayerError>> + Send;

    /// Returns what became of a payment. `prepared` is everything that was ever recorded for it, oldest first, never empty.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be found out. That says nothing about the payment.
    fn status(&self, prepared: &[PreparedTransfer]) -> impl Future<Output = Result<TransferStatus, PayerError>> + Send;

    /// Prepares a transaction with a higher fee that can only be mined *instead* of those of `prepared` (a fee bump on the same
    /// nonce); `None` if that is not possible.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent.
    fn replace(
        &self,
        prepared: &[PreparedTransfer],
    ) -> impl Future<Output = Result<Option<PreparedTransfer>, PayerError>> + Send;

    /// Signs a message (EIP-191) with the account that paid; `None` if this payer signs no messages.
    ///
    /// A seller has asked who paid. The message is [`redemption_message`](crate::protocol::redemption_message), which the
    /// layer makes of what it knows itself: nothing of it comes from the seller but the intent, which is one line of plain
    /// characters. It names one transaction, and serves to redeem that one only.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed now. The payment stays as it is.
    fn sign(
        &self,
        message: &str,
        account: Address,
    ) -> impl Future<Output = Result<Option<PaymentSignature>, PayerError>> + Send;

    /// Returns the domain under which this payer would sign an authorization of that amount of a token; `None` where it cannot: it signs
    /// none, the token has none, or the account has less. The default is `None`.
    ///
    /// The name and version are the token's own, as its contract states them: a seller's word is compared with this one.
    ///
    /// # Errors
    /// [`PayerError`] if that cannot be found out now.
    fn authorizes(
        &self,
        asset: &Asset,
        amount: Amount,
    ) -> impl Future<Output = Result<Option<TokenDomain>, PayerError>> + Send {
        let _ = (asset, amount);
        async { Ok(None) }
    }

    /// Signs an authorization. Nothing is sent: what is returned is recorded, and then shown to the seller.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be settled.
    fn authorize(
        &self,
        request: &AuthorizationRequest,
    ) -> impl Future<Output = Result<SignedAuthorization, PayerError>> + Send {
        let _ = request;
        async { Err(SIGNS_NONE) }
    }

    /// Returns what became of an authorization that was signed at `since`.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be found out. That says nothing about the payment.
    fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> impl Future<Output = Result<AuthorizationStatus, PayerError>> + Send {
        let _ = (prepared, since);
        async { Err(SIGNS_NONE) }
    }

    /// Prepares a transaction that uses up an authorization's nonce without a transfer, without sending it.
    ///
    /// The layer treats it like a transfer: it holds the [`submit_guard`](Payer::submit_guard), records the transaction, and then
    /// [sends](Payer::send), [follows](Payer::status) and [replaces](Payer::replace) it. Whether it came before the seller's,
    /// [`authorization_status`](Payer::authorization_status) tells.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing exists that could be.
    fn prepare_cancellation(
        &self,
        authorized: &PreparedAuthorization,
    ) -> impl Future<Output = Result<PreparedTransfer, PayerError>> + Send {
        let _ = authorized;
        async { Err(SIGNS_NONE) }
    }
}

const SIGNS_NONE: PayerError = PayerError::Refused("this payer signs no authorizations");
