//! Implements `ChannelSigner` for a wallet, by its wallet of the network in question.

use super::{NetworkWallet, WalletPayer, channel, prepare::has_decimals, withdraw};
use crate::{
    client::{
        AuthorizationStatus, ChannelFunds, ChannelSigner, DepositRequest, PayerError, PermitDepositRequest,
        SettledFunds,
    },
    evm,
    protocol::{
        Address, Asset, ChainTime, Network, PaymentSignature, TxHash,
        channel::{ChannelConfig, ChannelDeposit, ChannelId, Erc3009Deposit, Permit2Deposit, Voucher},
    },
};

impl ChannelSigner for WalletPayer {
    async fn channel_account(&self, asset: &Asset) -> Result<Option<Address>, PayerError> {
        let Ok(wallet) = self.on(asset.network()) else { return Ok(None) };
        Ok(has_decimals(&wallet.account, asset).await?.then_some(wallet.account.key.address))
    }

    async fn voucher(
        &self,
        network: Network,
        channel: &ChannelConfig,
        total: u128,
    ) -> Result<PaymentSignature, PayerError> {
        channel::voucher(&self.on(network)?.account.key, channel, total).await
    }

    fn signed_voucher(&self, network: Network, channel: &ChannelConfig, voucher: &Voucher) -> bool {
        self.on(network).is_ok_and(|wallet| channel::signed_voucher(&wallet.account.key, channel, voucher))
    }

    async fn deposit(&self, request: &DepositRequest) -> Result<Erc3009Deposit, PayerError> {
        channel::deposit(&self.on(request.network)?.account.key, request).await
    }

    async fn permit_deposit(&self, request: &PermitDepositRequest) -> Result<Permit2Deposit, PayerError> {
        channel::permit_deposit(&self.on(request.network)?.account.key, request).await
    }

    async fn deposit_status(
        &self,
        network: Network,
        channel: &ChannelConfig,
        deposit: &ChannelDeposit,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        let NetworkWallet { account, settings } = self.on(network)?;
        channel::deposit_status(account, settings.final_after, channel, deposit, since).await
    }

    async fn channel_funds(&self, network: Network, channel: ChannelId) -> Result<ChannelFunds, PayerError> {
        channel::funds(&self.on(network)?.account, channel).await
    }

    async fn settled_funds(&self, network: Network, channel: ChannelId) -> Result<SettledFunds, PayerError> {
        let NetworkWallet { account, settings } = self.on(network)?;
        channel::settled_funds(account, settings.final_after, channel).await
    }

    async fn begin_withdrawal(
        &self,
        network: Network,
        channel: &ChannelConfig,
        amount: u128,
    ) -> Result<TxHash, PayerError> {
        let NetworkWallet { account, settings } = self.on(network)?;
        withdraw::call(account, settings, evm::channel::begin_withdrawal(channel, amount)).await
    }

    async fn end_withdrawal(&self, network: Network, channel: &ChannelConfig) -> Result<TxHash, PayerError> {
        let NetworkWallet { account, settings } = self.on(network)?;
        withdraw::call(account, settings, evm::channel::end_withdrawal(channel)).await
    }
}
