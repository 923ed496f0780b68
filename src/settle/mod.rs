//! Settlement of signed payments: a [`Settler`] turns authorizations into transfers, a [`PermitSettler`] does so for
//! permits, and a [`ChannelSettler`] operates payment channels. The ledger records sales, and the verifier reads
//! payments.

mod channel;
#[cfg(feature = "test-util")]
pub mod conformance;
#[cfg(feature = "wallet")]
mod deposits;
mod erased;
mod error;
#[cfg(feature = "facilitator")]
mod facilitator;
#[cfg(feature = "wallet")]
mod on_chain;
mod permit;
#[cfg(feature = "wallet")]
mod questions;
mod recorder;
#[cfg(feature = "wallet")]
mod wallet;

use std::future::Future;

pub use channel::{
    CLAIMS_MAX, ChannelOnChain, ChannelRefund, ChannelSettler, ClaimOutcome, RefusedClaim, SweepOutcome,
};
pub(crate) use erased::ErasedSettler;
pub(crate) use erased::{ErasedChannelSettler, ErasedPermitSettler};
pub use error::{SettleError, SettleErrorKind};
#[cfg(all(feature = "facilitator", feature = "wallet"))]
pub use facilitator::ChannelSettings;
#[cfg(feature = "facilitator")]
pub use facilitator::{FacilitatorAction, FacilitatorCall, FacilitatorSettler, FacilitatorSettlerBuilder};
pub use permit::{PermitPayment, PermitRequirements, PermitSettler, PermitTerms};
pub use recorder::TransactionRecorder;
#[cfg(feature = "wallet")]
pub use wallet::{WalletSettler, WalletSettlerBuilder};

use crate::protocol::{
    Address, Amount, Network, TokenDomain, TxHash,
    v2::{Extensions, PaymentRequirements, Reason, ResourceInfo, SignedAuthorization},
};

/// Turns signed authorizations (EIP-3009) into transfers.
///
/// An `Err` means that the settler could not be reached, or cannot work right now: nothing was sent. The state of a
/// payment is an outcome, not an error.
///
/// Dropping a returned future must be harmless. A settler sets its own time limits; the layer has limits as well, and
/// treats a settlement that takes longer as [`Settlement::Unknown`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Settler`",
    label = "this does not settle payments",
    note = "`FacilitatorSettler` needs the feature `facilitator`, `WalletSettler` the feature `wallet`"
)]
pub trait Settler: Send + Sync + 'static {
    /// Returns the domain for authorizations of this token, if the settler settles them. Called before the first quote.
    ///
    /// `stated` is the domain that the token states on the chain, if a verifier has read it.
    fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> impl Future<Output = Result<Option<TokenDomain>, SettleError>> + Send;

    /// Checks whether a payment could be settled now. Nothing is sent.
    fn verify(&self, payment: &SignedPayment) -> impl Future<Output = Result<Validity, SettleError>> + Send;

    /// Returns whether a check without I/O shows that the key of the payer's address signed the payment. Default:
    /// `false`. Payments without a verified signature have their own limit, so that a forged signature takes no place
    /// from the payer that it names. They are answered 503 while the chain does not tell whether their nonce is used.
    fn is_signed_by_key(&self, _payment: &SignedPayment) -> bool {
        false
    }

    /// Settles a payment, and returns once its transaction is mined.
    ///
    /// The layer calls this once for each presentation. After a crash the same payment may come again. Its nonce can be
    /// used once, so the chain ensures that it is paid once.
    ///
    /// A settler that signs the transaction itself passes its hash to `recorder` before it sends it, and sends nothing
    /// without a record.
    fn settle(
        &self,
        payment: &SignedPayment,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;

    /// Checks that payments can be settled right now: the settler is reachable and has gas.
    fn health(&self) -> impl Future<Output = Result<(), SettleError>> + Send;
}

/// A signed payment and its requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedPayment {
    /// What the payer signed.
    pub authorization: SignedAuthorization,
    /// The offer: chain, token, domain, amount and recipient.
    pub requirements: PaymentRequirements,
    /// The domain of the token.
    pub domain: TokenDomain,
    /// The resource.
    pub resource: Option<ResourceInfo>,
    /// The sum of the payer's other unsettled payments to this seller in this token. The payer's balance has to cover
    /// all of them.
    pub promised: Amount,
    /// The seller's extensions: `bazaar`, if the route is [described](crate::X402Layer::describe).
    pub extensions: Extensions,
}

impl SignedPayment {
    /// Combines a signed authorization with its requirements.
    #[must_use]
    pub fn new(authorization: SignedAuthorization, requirements: PaymentRequirements, domain: TokenDomain) -> Self {
        let (resource, promised, extensions) = (None, Amount::ZERO, Extensions::new());
        Self { authorization, requirements, domain, resource, promised, extensions }
    }

    /// Sets the resource that is bought.
    #[must_use]
    pub fn with_resource(mut self, resource: ResourceInfo) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Sets the sum of other payments that the payer's balance has to cover.
    #[must_use]
    pub fn with_promised(mut self, promised: Amount) -> Self {
        self.promised = promised;
        self
    }

    /// Sets the seller's extensions.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Returns the difference between the signed payment and the offer, without checking the signature. A settler
    /// refuses such a payment.
    #[cfg(feature = "facilitator")]
    pub(crate) fn mismatch(&self) -> Option<Reason> {
        let (signed, offered) = (&self.authorization.authorization, &self.requirements);
        match () {
            () if signed.to != offered.pay_to => Some(Reason::INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH),
            () if signed.value != offered.amount => {
                Some(Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH)
            }
            () if self.domain.token != offered.asset => Some(Reason::INVALID_PAYMENT_REQUIREMENTS),
            () => None,
        }
    }
}

/// Whether a payment could be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Validity {
    /// It could be settled now.
    Valid,
    /// Its nonce is already used: to pay, here or elsewhere, or to cancel it.
    Used,
    /// It cannot be settled.
    Refused(Reason),
}

/// The outcome of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum Settlement {
    /// It is settled, by this transaction.
    Settled(TxHash),
    /// It is not settled, and no sent transaction can settle it.
    Refused(Reason),
    /// The settlement is unknown: it may have happened, or may still happen. The transaction, if known.
    Unknown(Option<TxHash>),
}
