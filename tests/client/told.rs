//! `Told`: a payer that says of tokens, fees and authorizations what a test tells it to say.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tower_x402::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, Payer, PayerError, PreparedAuthorization,
        PreparedTransfer, SubmitGuard, TransferRequest, TransferStatus,
    },
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash, v2::SignedAuthorization,
    },
    testing::ScriptedPayer,
};

/// Clones are one payer.
#[derive(Clone)]
pub struct Told {
    wallet: ScriptedPayer,
    /// What the domain of a token is, beside what the wallet says.
    pub domain: fn(&Asset, Option<TokenDomain>) -> Option<TokenDomain>,
    /// How often it was asked for one.
    pub asked: Arc<AtomicUsize>,
    /// What became of authorizations; once that is told, the wallet is asked.
    pub statuses: Arc<Mutex<VecDeque<AuthorizationStatus>>>,
    /// What became of transfers, once that is told.
    pub fate: Arc<Mutex<Option<TransferStatus>>>,
    /// What the next transactions may cost, in wei.
    pub fees: Arc<Mutex<VecDeque<u128>>>,
}

impl Told {
    pub fn of(wallet: &ScriptedPayer) -> Self {
        let (asked, statuses, fate, fees) = Default::default();
        Self { wallet: wallet.clone(), domain: |_, own| own, asked, statuses, fate, fees }
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn costing(&self, prepared: PreparedTransfer) -> PreparedTransfer {
        let fee = self.fees.lock().unwrap().pop_front().unwrap_or_default();
        prepared.costing(Amount::from_base_units(fee))
    }
}

impl Payer for Told {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.wallet.submit_guard(network).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        Ok(self.costing(self.wallet.prepare(payment).await?))
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.wallet.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        let told = *self.fate.lock().unwrap();
        match told {
            Some(status) => Ok(status),
            None => self.wallet.status(prepared).await,
        }
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        Ok(self.wallet.replace(prepared).await?.map(|prepared| self.costing(prepared)))
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.wallet.sign(message, account).await
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }
}

impl Authorizer for Told {
    async fn authorizes(&self, asset: &Asset, amount: Amount) -> Result<Option<TokenDomain>, PayerError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok((self.domain)(asset, self.wallet.authorizes(asset, amount).await?))
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        self.wallet.authorize(request).await
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        let told = self.statuses.lock().unwrap().pop_front();
        match told {
            Some(status) => Ok(status),
            None => self.wallet.authorization_status(prepared, since).await,
        }
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        Ok(self.costing(self.wallet.prepare_cancellation(authorized).await?))
    }
}
