//! `Payer`: who signs and sends the money. Two steps, so that a journal can stand between them.

mod erased;
mod error;
mod guard;
mod none;
mod status;
mod transfer;

use std::future::Future;

pub(super) use erased::ErasedPayer;
pub use error::PayerError;
pub use guard::SubmitGuard;
pub(super) use none::NoPayer;
pub use status::TransferStatus;
pub use transfer::{PreparedTransfer, TransferRequest};

use crate::protocol::TxHash;

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
/// the same [`PreparedTransfer`] must be repeatable: sent twice, it pays once.
///
/// **Time.** The layer's patience counts between these calls, not within them: each has to end by itself, in error if
/// it must. One that hangs in `prepare` or `send` keeps its turn, and so every other payment, waiting.
pub trait Payer: Send + Sync + 'static {
    /// Waits until no other payment of this payer stands between `prepare` and `send`. The layer holds the turn from
    /// before the one until after the other. A payer whose payments do not get into each other's way gives
    /// [`SubmitGuard::free`].
    fn submit_guard(&self) -> impl Future<Output = SubmitGuard> + Send;

    /// Makes a transfer ready in one of the payment's assets, without sending it.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing that could be.
    fn prepare(&self, payment: &TransferRequest) -> impl Future<Output = Result<PreparedTransfer, PayerError>> + Send;

    /// Sends it, or sends it again: the same `PreparedTransfer` pays once, however often it is sent.
    ///
    /// # Errors
    /// [`PayerError`]: whether it was sent is then not known, and [`fate`](Payer::fate) tells.
    fn send(&self, prepared: &PreparedTransfer) -> impl Future<Output = Result<TxHash, PayerError>> + Send;

    /// What became of a payment: `prepared` is everything that was ever recorded for it, oldest first, never empty.
    ///
    /// # Errors
    /// [`PayerError`]: nobody could be asked. That says nothing about the payment.
    fn status(&self, prepared: &[PreparedTransfer]) -> impl Future<Output = Result<TransferStatus, PayerError>> + Send;

    /// A dearer transaction that can only be mined *instead* of those of `prepared` (a fee bump on the same nonce), or
    /// `None` where there is none to be had.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent.
    fn replace(
        &self,
        prepared: &[PreparedTransfer],
    ) -> impl Future<Output = Result<Option<PreparedTransfer>, PayerError>> + Send;
}
