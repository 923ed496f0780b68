//! `--dialect`: the way of paying.

use clap::ValueEnum;
use tower_x402::{
    client::{
        AuthorizationRequest, AuthorizationStatus, Authorizer, ChannelSigner, Payer, PayerError, PaymentMethod,
        PermitFunds, PermitRequest, PermitSigner, PreparedAuthorization, PreparedPermit, PreparedTransfer, Standard,
        SubmitGuard, TransferRequest, TransferStatus, WalletPayer,
    },
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash, permit2::SignedPermit,
        v2::SignedAuthorization,
    },
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// As the seller asks: if it offers several ways, the cheapest, or a signed authorization if they cost the same;
    /// metered answers by a permit
    #[default]
    Auto,
    /// By an ordinary transfer only, which this program sends
    Transfer,
    /// By a signed authorization only, which the seller turns into a transfer
    Authorization,
    /// By a signed authorization only, and only in the form of MPP
    Mpp,
    /// By a payment channel if the seller offers one at the same price: one deposit, then a signature for each
    /// answer. Otherwise like `auto`
    Channel,
}

impl Dialect {
    /// Returns the preferred way of paying if a seller accepts several at one price.
    pub(crate) const fn preferred(self) -> PaymentMethod {
        match self {
            Self::Transfer => PaymentMethod::Transfer,
            Self::Channel => PaymentMethod::Channel,
            Self::Auto | Self::Authorization | Self::Mpp => PaymentMethod::Authorization,
        }
    }

    /// Returns the standards in whose form an authorization may be shown.
    pub(crate) fn standards(self) -> Vec<Standard> {
        if self == Self::Mpp { vec![Standard::Mpp] } else { Standard::ALL.to_vec() }
    }

    const fn sends_none(self) -> bool {
        matches!(self, Self::Authorization | Self::Mpp)
    }
}

const NO_TRANSFER: PayerError = PayerError::Refused(
    "--dialect authorization and --dialect mpp send no transfer, and the seller takes nothing else, or asks less for a transfer",
);
const NO_AUTHORIZATION: PayerError = PayerError::Refused("--dialect transfer signs no authorization");
const NO_PERMIT: PayerError = PayerError::Refused("only --dialect auto and --dialect channel sign permits (Permit2)");

/// A wallet that starts payments in the chosen way only. Earlier payments are finished, in whichever way they were
/// started.
pub(crate) struct Only {
    pub(crate) dialect: Dialect,
    pub(crate) wallet: WalletPayer,
}

impl Payer for Only {
    async fn submit_guard(&self, network: Network) -> SubmitGuard {
        self.wallet.submit_guard(network).await
    }

    async fn can_transfer(&self, asset: &Asset, amount: Amount) -> Result<bool, PayerError> {
        if self.dialect.sends_none() {
            return Err(NO_TRANSFER);
        }
        self.wallet.can_transfer(asset, amount).await
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        if self.dialect.sends_none() {
            return Err(NO_TRANSFER);
        }
        self.wallet.prepare(payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        self.wallet.send(prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        self.wallet.status(prepared).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        self.wallet.replace(prepared).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        self.wallet.sign(message, account).await
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }

    fn permits(&self) -> Option<&impl PermitSigner> {
        Some(self)
    }

    fn channels(&self) -> Option<&impl ChannelSigner> {
        Some(&self.wallet)
    }
}

impl Authorizer for Only {
    async fn authorizes(&self, asset: &Asset, amount: Amount) -> Result<Option<TokenDomain>, PayerError> {
        if self.dialect == Dialect::Transfer {
            return Err(NO_AUTHORIZATION);
        }
        self.wallet.authorizes(asset, amount).await
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        if self.dialect == Dialect::Transfer {
            return Err(NO_AUTHORIZATION);
        }
        self.wallet.authorize(request).await
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        self.wallet.authorization_status(prepared, since).await
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        self.wallet.prepare_cancellation(authorized).await
    }
}

impl PermitSigner for Only {
    async fn permit_funds(&self, asset: &Asset) -> Result<Option<PermitFunds>, PayerError> {
        if !matches!(self.dialect, Dialect::Auto | Dialect::Channel) {
            return Err(NO_PERMIT);
        }
        self.wallet.permit_funds(asset).await
    }

    async fn permit(&self, request: &PermitRequest) -> Result<SignedPermit, PayerError> {
        self.wallet.permit(request).await
    }

    async fn permit_status(&self, prepared: &PreparedPermit) -> Result<AuthorizationStatus, PayerError> {
        self.wallet.permit_status(prepared).await
    }

    async fn permit_charge(
        &self,
        prepared: &PreparedPermit,
        transaction: TxHash,
    ) -> Result<Option<Amount>, PayerError> {
        self.wallet.permit_charge(prepared, transaction).await
    }
}
