//! `ChannelSigner`: signs vouchers and deposits of payment channels, and reads and empties channels on the chain.

use std::future::Future;

use super::{
    authorization::AuthorizationStatus,
    error::PayerError,
    permit_deposit::PermitDepositRequest,
    voucher::{ChannelFunds, DepositRequest, SettledFunds},
};
use crate::protocol::{
    Address, Asset, ChainTime, Network, PaymentSignature, TxHash,
    channel::{ChannelConfig, ChannelDeposit, ChannelId, Erc3009Deposit, Permit2Deposit, Voucher},
};

/// Signs vouchers and deposits of payment channels (`batch-settlement`): an optional capability of a [`Payer`](super::Payer), which
/// [`Payer::channels`](super::Payer::channels) returns. [`WalletPayer`](crate::client::WalletPayer) has it.
///
/// The layer keeps the count of each channel, and requests a voucher over the total that it decided on. *The journal
/// records the signature, durably*, and the seller is shown it. For the token's domain, and whether the account has a
/// deposit's amount, the layer asks the [`Authorizer`](super::Authorizer) of the same payer. For deposits by Permit2,
/// it asks the [`PermitSigner`](super::PermitSigner) for balance and allowance.
pub trait ChannelSigner: Send + Sync + 'static {
    /// Returns the account that pays by channels in this token and signs their vouchers; `None` if this payer has no
    /// such channels.
    ///
    /// # Errors
    /// [`PayerError`] if that cannot be determined now.
    fn channel_account(&self, asset: &Asset) -> impl Future<Output = Result<Option<Address>, PayerError>> + Send;

    /// Signs a [voucher](Voucher) over this total, in base units, and sends nothing.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be claimed.
    fn voucher(
        &self,
        network: Network,
        channel: &ChannelConfig,
        total: u128,
    ) -> impl Future<Output = Result<PaymentSignature, PayerError>> + Send;

    /// Returns whether this payer signed that voucher. A seller shows it to a client that lost count.
    fn signed_voucher(&self, network: Network, channel: &ChannelConfig, voucher: &Voucher) -> bool;

    /// Signs a deposit and sends nothing: the layer records the result, and then shows it to the seller.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be deposited.
    fn deposit(&self, request: &DepositRequest) -> impl Future<Output = Result<Erc3009Deposit, PayerError>> + Send;

    /// Signs a deposit by Permit2 and sends nothing. The layer calls it if the seller takes deposits by Permit2, and
    /// treats the result like any other deposit.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be deposited.
    fn permit_deposit(
        &self,
        request: &PermitDepositRequest,
    ) -> impl Future<Output = Result<Permit2Deposit, PayerError>> + Send;

    /// Returns whether a deposit that was signed at `since` was made, or can still be. For a Permit2 deposit the nonce
    /// alone decides: the transaction is not searched for, and a nonce that its payer invalidated counts as used.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be determined. That says nothing about the deposit.
    fn deposit_status(
        &self,
        network: Network,
        channel: &ChannelConfig,
        deposit: &ChannelDeposit,
        since: ChainTime,
    ) -> impl Future<Output = Result<AuthorizationStatus, PayerError>> + Send;

    /// Returns what a channel holds on the chain. If nodes differ, the lowest balance counts.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be read now.
    fn channel_funds(
        &self,
        network: Network,
        channel: ChannelId,
    ) -> impl Future<Output = Result<ChannelFunds, PayerError>> + Send;

    /// Returns the most that a channel holds, both now and at a block deep enough to stay. If nodes differ, the worse
    /// value for the payer counts, for each field. The layer counts refunds and closes channels by it; on a chain too
    /// young for such a block, it does neither.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be read now, or too few nodes answer.
    fn settled_funds(
        &self,
        network: Network,
        channel: ChannelId,
    ) -> impl Future<Output = Result<SettledFunds, PayerError>> + Send;

    /// Begins to withdraw this amount, in base units, by a transaction that costs gas, and waits until that is mined.
    /// Calling it again restarts the delay.
    ///
    /// # Errors
    /// [`PayerError`]; its text says whether something was sent.
    fn begin_withdrawal(
        &self,
        network: Network,
        channel: &ChannelConfig,
        amount: u128,
    ) -> impl Future<Output = Result<TxHash, PayerError>> + Send;

    /// Completes a withdrawal after its delay, in the same way.
    ///
    /// # Errors
    /// [`PayerError`]; its text says whether something was sent.
    fn end_withdrawal(
        &self,
        network: Network,
        channel: &ChannelConfig,
    ) -> impl Future<Output = Result<TxHash, PayerError>> + Send;
}

/// The type for payers without channels; it has no value.
#[derive(Debug)]
pub(super) enum NoChannelSigner {}

impl ChannelSigner for NoChannelSigner {
    async fn channel_account(&self, _: &Asset) -> Result<Option<Address>, PayerError> {
        match *self {}
    }

    async fn voucher(&self, _: Network, _: &ChannelConfig, _: u128) -> Result<PaymentSignature, PayerError> {
        match *self {}
    }

    fn signed_voucher(&self, _: Network, _: &ChannelConfig, _: &Voucher) -> bool {
        match *self {}
    }

    async fn deposit(&self, _: &DepositRequest) -> Result<Erc3009Deposit, PayerError> {
        match *self {}
    }

    async fn permit_deposit(&self, _: &PermitDepositRequest) -> Result<Permit2Deposit, PayerError> {
        match *self {}
    }

    async fn deposit_status(
        &self,
        _: Network,
        _: &ChannelConfig,
        _: &ChannelDeposit,
        _: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        match *self {}
    }

    async fn channel_funds(&self, _: Network, _: ChannelId) -> Result<ChannelFunds, PayerError> {
        match *self {}
    }

    async fn settled_funds(&self, _: Network, _: ChannelId) -> Result<SettledFunds, PayerError> {
        match *self {}
    }

    async fn begin_withdrawal(&self, _: Network, _: &ChannelConfig, _: u128) -> Result<TxHash, PayerError> {
        match *self {}
    }

    async fn end_withdrawal(&self, _: Network, _: &ChannelConfig) -> Result<TxHash, PayerError> {
        match *self {}
    }
}
