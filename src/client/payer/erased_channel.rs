//! The object-safe twin of [`ChannelSigner`].

use std::{future::Future, pin::Pin};

use super::{
    AuthorizationStatus, ChannelFunds, ChannelSigner, DepositRequest, PayerError, PermitDepositRequest, SettledFunds,
};
use crate::protocol::{
    Address, Asset, ChainTime, Network, PaymentSignature, TxHash,
    channel::{ChannelConfig, ChannelDeposit, ChannelId, Erc3009Deposit, Permit2Deposit, Voucher},
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, PayerError>> + Send + 'a>>;

pub(crate) trait ErasedChannelSigner: Send + Sync + 'static {
    fn channel_account<'a>(&'a self, asset: &'a Asset) -> Boxed<'a, Option<Address>>;
    fn voucher<'a>(&'a self, network: Network, channel: &'a ChannelConfig, total: u128) -> Boxed<'a, PaymentSignature>;
    fn signed_voucher(&self, network: Network, channel: &ChannelConfig, voucher: &Voucher) -> bool;
    fn deposit<'a>(&'a self, request: &'a DepositRequest) -> Boxed<'a, Erc3009Deposit>;
    fn permit_deposit<'a>(&'a self, request: &'a PermitDepositRequest) -> Boxed<'a, Permit2Deposit>;
    fn deposit_status<'a>(
        &'a self,
        network: Network,
        channel: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        since: ChainTime,
    ) -> Boxed<'a, AuthorizationStatus>;
    fn channel_funds(&self, network: Network, channel: ChannelId) -> Boxed<'_, ChannelFunds>;
    fn settled_funds(&self, network: Network, channel: ChannelId) -> Boxed<'_, SettledFunds>;
    fn begin_withdrawal<'a>(&'a self, network: Network, channel: &'a ChannelConfig, amount: u128) -> Boxed<'a, TxHash>;
    fn end_withdrawal<'a>(&'a self, network: Network, channel: &'a ChannelConfig) -> Boxed<'a, TxHash>;
}

impl<S: ChannelSigner> ErasedChannelSigner for S {
    fn channel_account<'a>(&'a self, asset: &'a Asset) -> Boxed<'a, Option<Address>> {
        Box::pin(ChannelSigner::channel_account(self, asset))
    }

    fn voucher<'a>(&'a self, network: Network, channel: &'a ChannelConfig, total: u128) -> Boxed<'a, PaymentSignature> {
        Box::pin(ChannelSigner::voucher(self, network, channel, total))
    }

    fn signed_voucher(&self, network: Network, channel: &ChannelConfig, voucher: &Voucher) -> bool {
        ChannelSigner::signed_voucher(self, network, channel, voucher)
    }

    fn deposit<'a>(&'a self, request: &'a DepositRequest) -> Boxed<'a, Erc3009Deposit> {
        Box::pin(ChannelSigner::deposit(self, request))
    }

    fn permit_deposit<'a>(&'a self, request: &'a PermitDepositRequest) -> Boxed<'a, Permit2Deposit> {
        Box::pin(ChannelSigner::permit_deposit(self, request))
    }

    fn deposit_status<'a>(
        &'a self,
        network: Network,
        channel: &'a ChannelConfig,
        deposit: &'a ChannelDeposit,
        since: ChainTime,
    ) -> Boxed<'a, AuthorizationStatus> {
        Box::pin(ChannelSigner::deposit_status(self, network, channel, deposit, since))
    }

    fn channel_funds(&self, network: Network, channel: ChannelId) -> Boxed<'_, ChannelFunds> {
        Box::pin(ChannelSigner::channel_funds(self, network, channel))
    }

    fn settled_funds(&self, network: Network, channel: ChannelId) -> Boxed<'_, SettledFunds> {
        Box::pin(ChannelSigner::settled_funds(self, network, channel))
    }

    fn begin_withdrawal<'a>(&'a self, network: Network, channel: &'a ChannelConfig, amount: u128) -> Boxed<'a, TxHash> {
        Box::pin(ChannelSigner::begin_withdrawal(self, network, channel, amount))
    }

    fn end_withdrawal<'a>(&'a self, network: Network, channel: &'a ChannelConfig) -> Boxed<'a, TxHash> {
        Box::pin(ChannelSigner::end_withdrawal(self, network, channel))
    }
}
