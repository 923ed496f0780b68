//! `Payer`: signs and sends money in two steps, so that the journal can record in between; or signs a payment that the
//! seller sends.

mod authorization;
mod authorizer;
mod channel_signer;
mod erased;
mod erased_channel;
mod error;
mod guard;
mod none;
mod permit;
mod permit_deposit;
mod permit_signer;
mod status;
mod stored;
pub(in crate::client) mod stored_channel;
mod stored_permit;
mod transfer;
mod voucher;

use std::future::Future;

pub use authorization::{AuthorizationRequest, AuthorizationStatus};
pub use authorizer::Authorizer;
pub use channel_signer::ChannelSigner;
pub(super) use erased::{ErasedAuthorizer, ErasedPayer, ErasedPermitSigner};
pub(super) use erased_channel::ErasedChannelSigner;
pub use error::{MissingAllowance, PayerError};
pub use guard::SubmitGuard;
pub(super) use none::NoPayer;
pub use permit::{PermitFunds, PermitRequest};
pub use permit_deposit::PermitDepositRequest;
pub use permit_signer::PermitSigner;
pub use status::TransferStatus;
#[cfg(feature = "wallet")]
pub(crate) use transfer::TransferOrder;
pub use transfer::{PreparedAuthorization, PreparedPermit, PreparedTransfer, TransferRequest};
pub(crate) use voucher::PreparedVoucher;
pub use voucher::{ChannelFunds, DepositRequest, SettledFunds};

use crate::protocol::{Address, Amount, Asset, Network, PaymentSignature, TxHash};

/// A source of payments: a wallet with its own key ([`WalletPayer`](super::WalletPayer)), or a custodian's API.
///
/// The layer calls these methods in this order, and writes to the [`Journal`](super::Journal) in between:
///
/// 1. [`submit_guard`](Payer::submit_guard), then [`prepare`](Payer::prepare): nothing has been sent, but what will be
///    sent is known.
/// 2. *the journal records it, durably*
/// 3. [`send`](Payer::send): the money moves.
/// 4. [`status`](Payer::status), repeatedly, until the transfer is mined or never will be; occasionally
///    [`replace`](Payer::replace), whose result is recorded before it is sent.
///
/// **Paying once.** One purchase is paid by at most one transfer. Therefore the results of `prepare` and `replace` for
/// one purchase must exclude each other (by one nonce in a wallet, by one idempotency key at a custodian), and `send`
/// of the same [`PreparedTransfer`] must be repeatable: sent twice, it pays once.
///
/// **Who can redeem.** Transactions on the chain are public. The payer decides who can redeem one:
///
/// | The payer | Then |
/// |---|---|
/// | appends the request's [tag](TransferRequest::tag) to the call data of its own transaction | only a client with the purchase's intent can redeem it: this client can, also under another intent, without a signature |
/// | [signs](Payer::sign) | this client can redeem it if the seller asks for a proof by the payer, tagged or not |
/// | does neither | the seller answers the first request with the transaction, some seconds after it is mined; a seller that requires bound payments refuses it, and the call ends in [`PayErrorKind::Unproven`](super::PayErrorKind::Unproven) |
///
/// A tag counts only if the paying account also sends the transaction. A custodian that pays from a common account, or
/// through a relay, cannot tag, and mostly cannot sign either: ask it before relying on sellers that require bound
/// payments.
///
/// **Authorizations.** Sellers of the x402 standard take a signed authorization (EIP-3009), and pay the gas themselves. A payer that
/// signs them is an [`Authorizer`] too, and returns it from [`authorizations`](Payer::authorizations). A payer that signs permits (Permit2) is
/// a [`PermitSigner`], and returns it from [`permits`](Payer::permits); one that pays by channels is a [`ChannelSigner`], and returns it from
/// [`channels`](Payer::channels).
///
/// **Time.** The layer's patience does not interrupt these calls: each has to end by itself, if necessary with an
/// error. A hanging `prepare` or `send` blocks every other payment.
///
/// ```
/// use tower_x402::{
///     client::{Payer, PayerError, PreparedTransfer, SubmitGuard, TransferRequest, TransferStatus},
///     protocol::{Address, Network, PaymentSignature, TxHash},
/// };
///
/// /// A custodian that pays once for each idempotency key. (Its HTTP calls are left out.)
/// struct Custodian { account: Address }
///
/// impl Payer for Custodian {
///     async fn submit_guard(&self, _: Network) -> SubmitGuard {
///         SubmitGuard::free()
///     }
///
///     async fn prepare(&self, request: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
///         let asset = request.assets.first().ok_or(PayerError::Funds { payer: self.account })?;
///         Ok(PreparedTransfer::keyed(self.account, request.network, asset.contract(), request.purchase.to_string()))
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
    /// Acquires exclusive access to `prepare` and `send` on that network. The layer holds the guard across both. A
    /// payer whose payments are independent returns [`SubmitGuard::free`].
    fn submit_guard(&self, network: Network) -> impl Future<Output = SubmitGuard> + Send;

    /// Returns whether this payer can transfer this amount of an asset. The layer asks only if a bill names several
    /// ways to pay, and uses another way if the answer is `false` or an error. Default: `true`.
    ///
    /// # Errors
    /// [`PayerError`] if that cannot be determined now.
    fn can_transfer(&self, asset: &Asset, amount: Amount) -> impl Future<Output = Result<bool, PayerError>> + Send {
        let _ = (asset, amount);
        std::future::ready(Ok(true))
    }

    /// Prepares a transfer in one of the request's assets, without sending it.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing exists that could be.
    fn prepare(&self, payment: &TransferRequest) -> impl Future<Output = Result<PreparedTransfer, PayerError>> + Send;

    /// Sends a transfer, or sends it again: the same `PreparedTransfer` pays once, however often it is sent.
    ///
    /// # Errors
    /// [`PayerError`] if it may or may not have been sent; [`status`](Payer::status) tells.
    fn send(&self, prepared: &PreparedTransfer) -> impl Future<Output = Result<TxHash, PayerError>> + Send;

    /// Returns the state of a payment. `prepared` has every recorded transfer of it, oldest first, and is never empty.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be determined. That says nothing about the payment.
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
    /// The layer calls this if a seller demands a proof by the payer. The message is
    /// [`redemption_message`](crate::protocol::redemption_message). The layer writes it from its own values; only the
    /// intent, one line of plain characters, comes from the seller. The message names one transaction and redeems that
    /// one only.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed now. The payment stays as it is.
    fn sign(
        &self,
        message: &str,
        account: Address,
    ) -> impl Future<Output = Result<Option<PaymentSignature>, PayerError>> + Send;

    /// Returns the capability to sign authorizations. Default: `None`, for payers that do not sign them.
    fn authorizations(&self) -> Option<&impl Authorizer> {
        None::<&authorizer::NoAuthorizer>
    }

    /// Returns the capability to sign permits. Default: `None`, for payers that pay neither `upto` nor by Permit2.
    fn permits(&self) -> Option<&impl PermitSigner> {
        None::<&permit_signer::NoPermitSigner>
    }

    /// Returns the capability to pay by channels. Default: `None`, for payers without channels.
    fn channels(&self) -> Option<&impl ChannelSigner> {
        None::<&channel_signer::NoChannelSigner>
    }
}
