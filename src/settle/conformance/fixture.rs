//! The parts that all checks need: a settler, a seller, payers, and payments to settle.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::harness::Harness;
use crate::{
    protocol::{
        Address, Amount, PaymentSignature, TxHash,
        v2::{Authorization, PaymentRequirements, SignedAuthorization},
    },
    settle::{SettleError, Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
    verify::NonceState,
};

/// The price in all checks.
pub(super) const PRICE: u128 = 490_000;
/// How long authorizations are valid.
const WINDOW: Duration = Duration::from_secs(3_600);

/// Why a check did not pass.
#[derive(Debug)]
pub(super) enum Fault {
    Wrong(String),
    /// Not a fault: the harness has no contract accounts.
    LeftOut,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }

    pub(super) const fn is_left_out(&self) -> bool {
        matches!(self, Self::LeftOut)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => f.write_str(what),
            Self::LeftOut => f.write_str("it was left out"),
        }
    }
}

impl From<SettleError> for Fault {
    fn from(error: SettleError) -> Self {
        Self::Wrong(format!("it failed: {error}"))
    }
}

/// Compares an outcome with the expected one.
macro_rules! must_be {
    ($got:expr, $wanted:pat $(if $guard:expr)?, $what:literal) => {
        match $got {
            $wanted $(if $guard)? => {}
            got => {
                let wanted = concat!(stringify!($wanted) $(, " if ", stringify!($guard))?);
                return Err($crate::settle::conformance::fixture::Fault::new(format!(
                    "{}: {got:?} instead of {wanted}", $what
                )));
            }
        }
    };
}
pub(super) use must_be;

pub(super) struct Fixture<'a, H: Harness> {
    pub(super) harness: &'a H,
    pub(super) settler: Arc<H::Settler>,
    /// The account that is paid; initially empty.
    pub(super) seller: Address,
    names: AtomicU64,
    salt: [u8; 16],
}

pub(super) fn price() -> Amount {
    Amount::from_base_units(PRICE)
}

pub(super) fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

impl<'a, H: Harness> Fixture<'a, H> {
    pub(super) async fn new(harness: &'a H) -> Self {
        let settler = Arc::new(harness.settler().await);
        let seller = harness.payer(units(0)).await;
        Self { harness, settler, seller, names: AtomicU64::new(1), salt: rand::random() }
    }

    /// Returns a nonce that no check has used.
    pub(super) fn nonce(&self) -> [u8; 32] {
        let mut nonce = [0; 32];
        nonce[..16].copy_from_slice(&self.salt);
        nonce[24..].copy_from_slice(&self.names.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }

    /// Returns a payer with exactly the price.
    pub(super) async fn payer(&self) -> Address {
        self.harness.payer(price()).await
    }

    /// Returns a contract account with exactly the price.
    pub(super) async fn contract_payer(&self) -> Result<Address, Fault> {
        self.harness.contract_payer(price()).await.ok_or(Fault::LeftOut)
    }

    /// Returns an authorization over the price, for the seller, valid now.
    pub(super) async fn authorization(&self, payer: Address) -> Authorization {
        let now = self.harness.now().await;
        let begun = crate::protocol::ChainTime::from_unix(now.unix().saturating_sub(600));
        Authorization::new(payer, self.nonce()).paying(self.seller, price()).valid_between(begun, now.after(WINDOW))
    }

    /// Returns the seller's offer.
    pub(super) fn requirements(&self) -> PaymentRequirements {
        let domain = self.harness.domain();
        PaymentRequirements::new(&self.harness.token(), price(), self.seller, 300)
            .with_token_domain(&domain.name, &domain.version)
    }

    /// Returns a payment with this authorization and this signature, for the seller's offer.
    pub(super) fn payment(&self, authorization: Authorization, signature: PaymentSignature) -> SignedPayment {
        let signed = SignedAuthorization::new(authorization, signature);
        SignedPayment::new(signed, self.requirements(), self.harness.domain())
    }

    /// Returns a payment with this authorization, signed by its payer.
    pub(super) async fn signed(&self, authorization: Authorization) -> SignedPayment {
        let signature = self.harness.sign(authorization.from, &authorization).await;
        self.payment(authorization, signature)
    }

    /// Returns a payment of a new payer with exactly the price.
    pub(super) async fn paid(&self) -> SignedPayment {
        let payer = self.payer().await;
        self.signed(self.authorization(payer).await).await
    }

    pub(super) async fn verify(&self, payment: &SignedPayment) -> Result<Validity, Fault> {
        Ok(self.settler.verify(payment).await?)
    }

    pub(super) async fn settle(&self, payment: &SignedPayment) -> Settlement {
        self.settler.settle(payment, &TransactionRecorder::none()).await
    }

    pub(super) async fn state(&self, payment: &SignedPayment) -> NonceState {
        let authorization = &payment.authorization.authorization;
        self.harness.nonce(authorization.from, authorization.nonce).await
    }

    /// Settles a payable payment, and returns its transaction.
    pub(super) async fn take(&self, payment: &SignedPayment) -> Result<TxHash, Fault> {
        match (self.settle(payment).await, self.state(payment).await) {
            (Settlement::Settled(told), NonceState::Used(transaction)) if told == transaction => Ok(told),
            (settlement, state) => {
                Err(Fault::new(format!("a payable payment was reported as {settlement:?}, its nonce being {state:?}")))
            }
        }
    }

    /// Fails unless the seller was paid the price this many times.
    pub(super) async fn received(&self, times: u128) -> Result<(), Fault> {
        let balance = self.harness.balance(self.seller).await;
        must_be!(balance, balance if balance == units(times * PRICE), "what the seller has");
        Ok(())
    }

    /// Fails unless a payment is refused before and at settling, and leaves its nonce unused.
    pub(super) async fn refuses(&self, payment: &SignedPayment) -> Result<(), Fault> {
        must_be!(self.verify(payment).await?, Validity::Refused(_), "verifying it");
        self.refuses_to_settle(payment).await
    }

    /// Fails unless a payment is refused at settling, and leaves its nonce unused.
    pub(super) async fn refuses_to_settle(&self, payment: &SignedPayment) -> Result<(), Fault> {
        must_be!(self.settle(payment).await, Settlement::Refused(_), "settling it");
        must_be!(self.state(payment).await, NonceState::Unused, "its nonce afterwards");
        self.received(0).await
    }
}
