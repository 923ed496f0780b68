//! The parts that all checks of permits need: a settler, a seller, payers, and permits to settle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::harness::PermitHarness;
use crate::{
    protocol::{
        Address, Amount, ChainTime, PaymentSignature,
        permit2::{Permit, PermitScheme, SignedPermit},
        v2::{PaymentRequirements, UpToRequirements},
    },
    settle::{
        PermitPayment, PermitSettler as _, Settlement, TransactionRecorder, Validity,
        conformance::fixture::{Fault, PRICE, must_be, price, units},
    },
};

/// Both schemes.
pub(super) const SCHEMES: [PermitScheme; 2] = [PermitScheme::Exact, PermitScheme::UpTo];

pub(super) struct Fixture<'a, H: PermitHarness> {
    pub(super) harness: &'a H,
    pub(super) settler: Arc<H::Settler>,
    /// The account that is paid; initially empty.
    pub(super) seller: Address,
    facilitator: Address,
    names: AtomicU64,
    salt: [u8; 16],
}

impl<'a, H: PermitHarness> Fixture<'a, H> {
    pub(super) async fn new(harness: &'a H) -> Result<Self, Fault> {
        let (settler, token) = (Arc::new(harness.settler().await), harness.token());
        let terms = async |scheme| settler.permit_terms(token.network(), token.contract(), scheme).await;
        must_be!(terms(PermitScheme::Exact).await?, Some(terms) if terms.facilitators().is_empty(), "what a quote of `exact` names");
        let named = terms(PermitScheme::UpTo).await?.and_then(|terms| terms.facilitators().first().copied());
        let facilitator = named.ok_or(Fault::new("no account that may send permits of `upto`"))?;
        let seller = harness.payer(Amount::ZERO).await;
        Ok(Self { harness, settler, seller, facilitator, names: AtomicU64::new(1), salt: rand::random() })
    }

    /// Returns a permit over the price, for the seller, valid now, with a nonce that no check has used.
    pub(super) async fn permit(&self, scheme: PermitScheme, payer: Address) -> Permit {
        let mut nonce = [0; 32];
        nonce[..16].copy_from_slice(&self.salt);
        nonce[24..].copy_from_slice(&self.names.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        let until = self.harness.now().await.after(Duration::from_secs(3_600));
        Permit::new(scheme, payer, nonce)
            .paying(self.seller, self.harness.token().contract(), price())
            .by_facilitator(self.facilitator)
            .valid_between(ChainTime::from_unix(0), until)
    }

    /// Returns a payment with this permit and this signature, for the seller's offer.
    pub(super) fn payment(&self, permit: Permit, signature: PaymentSignature) -> PermitPayment {
        let (token, scheme) = (self.harness.token(), permit.scheme());
        let signed = SignedPermit::new(permit, signature);
        match scheme {
            PermitScheme::Exact => {
                PermitPayment::new(signed, PaymentRequirements::new(&token, price(), self.seller, 300).by_permit2())
            }
            PermitScheme::UpTo => {
                let offered = UpToRequirements::new(&token, price(), self.seller, 300);
                PermitPayment::new(signed, offered.with_facilitator(self.facilitator))
            }
        }
    }

    /// Returns a payment with this permit, signed by its payer.
    pub(super) async fn signed(&self, permit: Permit) -> PermitPayment {
        let signature = self.harness.sign(permit.from, &permit).await;
        self.payment(permit, signature)
    }

    /// Returns a payment of a new payer with money for many payments.
    pub(super) async fn rich(&self, scheme: PermitScheme) -> PermitPayment {
        let payer = self.harness.payer(units(10 * PRICE)).await;
        self.signed(self.permit(scheme, payer).await).await
    }

    pub(super) async fn verify(&self, payment: &PermitPayment) -> Result<Validity, Fault> {
        Ok(self.settler.verify_permit(payment).await?)
    }

    pub(super) async fn settle(&self, payment: &PermitPayment, charge: u128) -> Settlement {
        self.settler.settle_permit(payment, units(charge), &TransactionRecorder::none()).await
    }

    pub(super) async fn is_used(&self, payment: &PermitPayment) -> bool {
        self.harness.is_used(payment.permit.permit.from, payment.permit.permit.nonce).await
    }

    /// Fails unless the seller has this balance.
    pub(super) async fn received(&self, sum: u128) -> Result<(), Fault> {
        must_be!(self.harness.balance(self.seller).await, balance if balance == units(sum), "what the seller has");
        Ok(())
    }

    /// Settles a payable payment.
    pub(super) async fn charge(&self, payment: &PermitPayment, charge: u128) -> Result<(), Fault> {
        must_be!(self.settle(payment, charge).await, Settlement::Settled(_), "settling what is payable");
        must_be!(self.is_used(payment).await, true, "whether its nonce is used");
        Ok(())
    }

    /// Fails unless a payment is refused before and at settling, and leaves its nonce unused.
    pub(super) async fn refuses(&self, payment: &PermitPayment) -> Result<(), Fault> {
        must_be!(self.verify(payment).await?, Validity::Refused(_), "verifying it");
        self.refuses_to_charge(payment, PRICE).await
    }

    /// Fails unless that charge is refused, and leaves the nonce unused.
    pub(super) async fn refuses_to_charge(&self, payment: &PermitPayment, charge: u128) -> Result<(), Fault> {
        must_be!(self.settle(payment, charge).await, Settlement::Refused(_), "settling it");
        must_be!(self.is_used(payment).await, false, "whether its nonce is used");
        self.received(0).await
    }
}
