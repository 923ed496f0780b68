//! Implements the payer's traits for a wallet, by its wallet of the network in question.

use std::sync::Arc;

use super::{NetworkWallet, WalletPayer, authorization, authorization_status, cancel, permit, prepare, status};
use crate::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, ChannelSigner, Payer, PayerError, PermitFunds,
        PermitRequest, PermitSigner, PreparedAuthorization, PreparedPermit, PreparedTransfer, SubmitGuard,
        TransferRequest, TransferStatus,
    },
    evm::wallet::signer::Sign,
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash, permit2::SignedPermit,
        v2::SignedAuthorization,
    },
};

impl Payer for WalletPayer {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        match self.on(network) {
            Ok(wallet) => SubmitGuard::held(Arc::clone(&wallet.account.key.turn).lock_owned().await),
            // No payment is prepared or sent on that network.
            Err(_) => SubmitGuard::free(),
        }
    }

    async fn can_transfer(&self, asset: &Asset, amount: Amount) -> Result<bool, PayerError> {
        prepare::can_transfer(&self.on(asset.network())?.account, asset, amount).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        let NetworkWallet { account, settings } = self.on(payment.network)?;
        prepare::prepare(account, settings, payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        prepare::send(&self.on(prepared.network)?.account, prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let NetworkWallet { account, settings } = self.of_prepared(prepared)?;
        status::status(account, settings.final_after, &account.read(prepared)?).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        let NetworkWallet { account, settings } = self.of_prepared(prepared)?;
        let sent = account.read(prepared)?;
        let (Some(newest), Some(last)) = (sent.last(), prepared.last()) else { return Err(PayerError::Foreign) };
        prepare::replace(account, settings, newest, last.token).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        let own = self.wallets.iter().find(|wallet| wallet.account.key.address == account);
        let own = own.ok_or(PayerError::Foreign)?;
        sign_message(&*own.account.key.signer, message).await.map(Some)
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }

    fn permits(&self) -> Option<&impl PermitSigner> {
        Some(self)
    }

    fn channels(&self) -> Option<&impl ChannelSigner> {
        Some(self)
    }
}

impl Authorizer for WalletPayer {
    async fn authorizes(&self, asset: &Asset, amount: Amount) -> Result<Option<TokenDomain>, PayerError> {
        let Ok(wallet) = self.on(asset.network()) else { return Ok(None) };
        authorization::authorizes(&wallet.account, asset, amount).await
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        authorization::authorize(&self.on(request.network)?.account.key, request).await
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        let NetworkWallet { account, settings } = self.on(prepared.network)?;
        authorization_status::status(account, settings.final_after, prepared, since).await
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        let NetworkWallet { account, settings } = self.on(authorized.network)?;
        cancel::prepare(account, settings, authorized).await
    }
}

impl PermitSigner for WalletPayer {
    async fn permit_funds(&self, asset: &Asset) -> Result<Option<PermitFunds>, PayerError> {
        let Ok(wallet) = self.on(asset.network()) else { return Ok(None) };
        permit::funds(&wallet.account, asset).await
    }

    async fn permit(&self, request: &PermitRequest) -> Result<SignedPermit, PayerError> {
        permit::permit(&self.on(request.network)?.account.key, request).await
    }

    async fn permit_status(&self, prepared: &PreparedPermit) -> Result<AuthorizationStatus, PayerError> {
        let NetworkWallet { account, settings } = self.on(prepared.network)?;
        permit::status(account, settings.final_after, prepared).await
    }

    async fn permit_charge(
        &self,
        prepared: &PreparedPermit,
        transaction: TxHash,
    ) -> Result<Option<Amount>, PayerError> {
        permit::charge(&self.on(prepared.network)?.account, prepared, transaction).await
    }
}

/// Signs a message (EIP-191).
async fn sign_message(signer: &dyn Sign, message: &str) -> Result<PaymentSignature, PayerError> {
    let signature = signer.sign_message(message.as_bytes()).await;
    let signature = signature.map_err(|_| PayerError::Refused("the key would not sign the redemption"))?;
    // A signature of 65 bytes is never too long.
    PaymentSignature::new(signature.as_bytes()).map_err(|_| PayerError::Refused("the key made no signature"))
}
