//! `PermitSettler`: settlement of payments signed for Permit2.

use std::future::Future;

use super::{SettleError, Settlement, TransactionRecorder, Validity};
use crate::protocol::{
    Address, Amount, IntentId, Network, ParseError,
    permit2::{PERMIT2, PermitScheme, SignedPermit},
    v2::{Eip2612Permit, Extensions, PaymentRequirements, Reason, ResourceInfo, UpToRequirements},
};

/// Turns signed permits (Permit2) into transfers through the standard's proxies: for the scheme `exact`, and for
/// `upto`, where the seller determines the charge at the end.
///
/// As for a [`Settler`](super::Settler), an `Err` means that nothing was sent, dropping a returned future is harmless,
/// and a settler that signs transactions itself records each before it sends it.
///
/// ```
/// use tower_x402::{
///     protocol::{Address, Network, permit2::PermitScheme},
///     settle::{PermitSettler, PermitTerms, SettleError},
/// };
/// /// The account that is to stand in the witness of a payment of `upto`.
/// async fn facilitator(settler: &impl PermitSettler, token: Address) -> Result<Option<Address>, SettleError> {
///     let terms = settler.permit_terms(Network::BASE, token, PermitScheme::UpTo).await?;
///     Ok(terms.and_then(|terms| terms.facilitators().first().copied()))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `PermitSettler`",
    label = "this does not settle permits",
    note = "`FacilitatorSettler` needs the feature `facilitator`, `WalletSettler` the feature `wallet`"
)]
pub trait PermitSettler: Send + Sync + 'static {
    /// Returns the terms that a quote states for permits of this scheme; `None` if they are not settled.
    fn permit_terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> impl Future<Output = Result<Option<PermitTerms>, SettleError>> + Send;

    /// Checks whether a payment could be settled now, at its full amount. Nothing is sent.
    fn verify_permit(&self, payment: &PermitPayment) -> impl Future<Output = Result<Validity, SettleError>> + Send;

    /// Returns whether a check without I/O shows that the key of the payer's address signed the payment. Default:
    /// `false`.
    fn is_permit_signed_by_key(&self, _payment: &PermitPayment) -> bool {
        false
    }

    /// Settles a payment at this charge, and returns once its transaction is mined.
    ///
    /// For `exact`, the charge must be the amount. A charge of zero, or above the permit's amount, is refused before
    /// anything is sent. A permit's nonce can be used once, so the chain ensures that it is charged once.
    fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        recorder: &TransactionRecorder,
    ) -> impl Future<Output = Settlement> + Send;
}

/// The terms that a quote states for a settler's permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitTerms {
    facilitators: Vec<Address>,
}

impl PermitTerms {
    /// Returns the terms of a settler that sends permits from these accounts.
    #[must_use]
    pub fn new(facilitators: impl IntoIterator<Item = Address>) -> Self {
        Self { facilitators: facilitators.into_iter().collect() }
    }

    /// Returns the accounts that may be the witness's facilitator in a permit of `upto`; a quote names the first. There
    /// is at least one for `upto`, and none for `exact`, which anyone may send.
    ///
    /// A permit may name another account that an earlier quote named; [`verify_permit`](PermitSettler::verify_permit)
    /// decides.
    #[must_use]
    pub fn facilitators(&self) -> &[Address] {
        &self.facilitators
    }
}

/// The offer that a permit is for, in one of the two schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitRequirements {
    /// The scheme `exact`, by the method Permit2.
    Exact(PaymentRequirements),
    /// The scheme `upto`.
    UpTo(UpToRequirements),
}

macro_rules! of_both {
    ($(#[$doc:meta])* $name:ident: $member:ident -> $type:ty) => {
        $(#[$doc])*
        #[must_use]
        pub const fn $name(&self) -> $type {
            match self {
                Self::Exact(requirements) => requirements.$member,
                Self::UpTo(requirements) => requirements.$member,
            }
        }
    };
}

impl PermitRequirements {
    of_both!(/** Returns the chain. */ network: network -> Network);
    of_both!(/** Returns the token contract. */ token: asset -> Address);
    of_both!(/** Returns the account to pay. */ pay_to: pay_to -> Address);
    of_both!(/** Returns the amount, in base units: of `upto`, the maximum. */ amount: amount -> Amount);

    /// Returns the scheme.
    #[must_use]
    pub const fn scheme(&self) -> PermitScheme {
        match self {
            Self::Exact(_) => PermitScheme::Exact,
            Self::UpTo(_) => PermitScheme::UpTo,
        }
    }

    /// Returns the intent of the quote, if `extra` has one.
    ///
    /// # Errors
    /// Returns [`ParseError`] if `extra.intentId` is there and cannot be an intent id.
    pub fn intent(&self) -> Result<Option<IntentId>, ParseError> {
        match self {
            Self::Exact(requirements) => requirements.intent(),
            Self::UpTo(requirements) => requirements.intent(),
        }
    }

    /// Returns it as an entry of `accepts`, with that amount.
    #[cfg(feature = "facilitator")]
    pub(crate) fn over(&self, amount: Amount) -> crate::protocol::v2::PaymentOption {
        match self.clone() {
            Self::Exact(mut requirements) => {
                requirements.amount = amount;
                requirements.into()
            }
            Self::UpTo(mut requirements) => {
                requirements.amount = amount;
                requirements.into()
            }
        }
    }
}

impl From<PaymentRequirements> for PermitRequirements {
    fn from(requirements: PaymentRequirements) -> Self {
        Self::Exact(requirements)
    }
}

impl From<UpToRequirements> for PermitRequirements {
    fn from(requirements: UpToRequirements) -> Self {
        Self::UpTo(requirements)
    }
}

/// A signed permit and its requirements.
///
/// ```
/// use tower_x402::{
///     protocol::{Address, Amount, Asset, PaymentSignature, permit2::{Permit, PermitScheme, SignedPermit}, v2::UpToRequirements},
///     settle::PermitPayment,
/// };
/// let (seller, maximum) = (Address::new([0x5a; 20]), Amount::from_base_units(10_000));
/// let offered = UpToRequirements::new(&Asset::USDC_BASE, maximum, seller, 60).with_facilitator(Address::new([0xfa; 20]));
/// let permit = Permit::new(PermitScheme::UpTo, Address::new([0x11; 20]), [0x42; 32])
///     .paying(seller, Asset::USDC_BASE.contract(), maximum)
///     .by_facilitator(Address::new([0xfa; 20]));
/// let payment = PermitPayment::new(SignedPermit::new(permit, PaymentSignature::new([7; 65])?), offered);
/// assert_eq!((payment.scheme(), payment.requirements.amount()), (PermitScheme::UpTo, maximum));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitPayment {
    /// What the payer signed.
    pub permit: SignedPermit,
    /// The offer: scheme, chain, token, amount and recipient.
    pub requirements: PermitRequirements,
    /// The payer's allowance for Permit2, if it was sent along.
    pub allowance: Option<Eip2612Permit>,
    /// The resource.
    pub resource: Option<ResourceInfo>,
    /// The sum of the payer's other unsettled payments to this seller in this token. The payer's balance has to cover all of them.
    pub promised: Amount,
    /// The seller's extensions.
    pub extensions: Extensions,
}

impl PermitPayment {
    /// Combines a signed permit with its requirements.
    #[must_use]
    pub fn new(permit: SignedPermit, requirements: impl Into<PermitRequirements>) -> Self {
        let (allowance, resource, promised, extensions) = (None, None, Amount::ZERO, Extensions::new());
        Self { permit, requirements: requirements.into(), allowance, resource, promised, extensions }
    }

    /// Sets the allowance that was sent along.
    #[must_use]
    pub fn with_allowance(mut self, allowance: Option<Eip2612Permit>) -> Self {
        self.allowance = allowance;
        self
    }

    /// Sets the resource that is bought.
    #[must_use]
    pub fn with_resource(mut self, resource: ResourceInfo) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Sets the sum of other payments that the payer's balance has to cover.
    #[must_use]
    pub const fn with_promised(mut self, promised: Amount) -> Self {
        self.promised = promised;
        self
    }

    /// Sets the seller's extensions.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Returns the scheme that was offered.
    #[must_use]
    pub const fn scheme(&self) -> PermitScheme {
        self.requirements.scheme()
    }
}

#[cfg_attr(
    not(all(feature = "facilitator", feature = "wallet")),
    allow(dead_code, reason = "each settler checks what it has to")
)]
impl PermitPayment {
    /// Returns the first difference between the permit and the offer. It checks neither signature, times nor
    /// facilitator. A settler refuses such a payment.
    pub(crate) fn mismatch(&self) -> Option<Reason> {
        self.addressed_wrongly().or_else(|| self.paying_wrongly())
    }

    /// Checks the scheme, the proxy and the recipient: the standard's first check.
    pub(crate) fn addressed_wrongly(&self) -> Option<Reason> {
        let (permit, scheme) = (&self.permit.permit, self.scheme());
        match () {
            () if permit.scheme() != scheme => Some(Reason::INVALID_SCHEME),
            () if permit.spender != scheme.proxy() => Some(Reason::INVALID_PERMIT2_SPENDER),
            () if permit.to != self.requirements.pay_to() => Some(Reason::INVALID_PERMIT2_RECIPIENT_MISMATCH),
            () => None,
        }
    }

    /// Checks amount, token and allowance: the standard's check after the times.
    pub(crate) fn paying_wrongly(&self) -> Option<Reason> {
        let (permit, offered) = (&self.permit.permit, &self.requirements);
        match &self.allowance {
            _ if permit.amount != offered.amount() => Some(Reason::PERMIT2_AMOUNT_MISMATCH),
            _ if permit.token != offered.token() => Some(Reason::PERMIT2_TOKEN_MISMATCH),
            Some(allowance) if allowance.from != permit.from => Some(Reason::EIP2612_FROM_MISMATCH),
            Some(allowance) if allowance.asset != permit.token => Some(Reason::EIP2612_ASSET_MISMATCH),
            Some(allowance) if allowance.spender != PERMIT2 => Some(Reason::EIP2612_SPENDER_NOT_PERMIT2),
            Some(allowance) if allowance.amount != permit.amount => Some(Reason::PERMIT2_2612_AMOUNT_MISMATCH),
            _ => None,
        }
    }

    /// Returns why this charge is not allowed.
    pub(crate) fn overcharged(&self, charge: Amount) -> Option<Reason> {
        let allowed = self.permit.permit.amount;
        match self.scheme() {
            _ if charge.is_zero() => Some(Reason::PERMIT2_INVALID_AMOUNT),
            PermitScheme::Exact if charge != allowed => Some(Reason::PERMIT2_AMOUNT_MISMATCH),
            PermitScheme::UpTo if charge > allowed => Some(Reason::INVALID_UPTO_EVM_PAYLOAD_SETTLEMENT_EXCEEDS_AMOUNT),
            _ => None,
        }
    }
}
