//! The fixture of every check: a ledger, its twin, and things to claim.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    super::{Claim, Lease, Ledger, LedgerError, ReserveOutcome, Settling},
    harness::Harness,
};
use crate::protocol::{
    Address, Amount, ChainTime, IntentKey, Network, Payment, PurchaseKey, SignedTransfer, Transfer, TxHash,
};

/// The low-water mark of the ledgers of these checks.
pub(super) const MARK: u64 = 1_800_000_000;
/// The block time of payments, unless a check says otherwise.
pub(super) const PAID: u64 = MARK + 100;
/// The head's time, unless a check says otherwise.
pub(super) const HEAD: u64 = MARK + 200;
/// Intents' expiry plus grace, unless a check says otherwise.
pub(super) const PAY_UNTIL: u64 = MARK + 900;
pub(super) const AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// A lease that outlives every check.
pub(super) const LONG: Duration = Duration::from_secs(3_600);

/// The record of a settlement.
pub(super) const BEGUN: Settling = Settling::new([0x5e; 16], ChainTime::from_unix(HEAD));

/// A description of what went wrong.
#[derive(Debug)]
pub(super) struct Fault(String);

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self(format!("it failed: {error}"))
    }
}

/// Compares an outcome with the expected one.
macro_rules! must_be {
    ($got:expr, $wanted:pat $(if $guard:expr)?, $what:literal) => {
        match $got {
            $wanted $(if $guard)? => {}
            got => {
                let wanted = concat!(stringify!($wanted) $(, " if ", stringify!($guard))?);
                return Err($crate::ledger::conformance::fixture::Fault::new(format!(
                    "{}: {got:?} instead of {wanted}", $what
                )));
            }
        }
    };
}
pub(super) use must_be;

pub(super) struct Fixture<'a, H: Harness> {
    pub(super) harness: &'a H,
    pub(super) ledger: Arc<H::Ledger>,
    /// Another handle on the same ledger.
    pub(super) twin: Arc<H::Ledger>,
    names: AtomicU64,
}

impl<'a, H: Harness> Fixture<'a, H> {
    pub(super) async fn new(harness: &'a H) -> Self {
        let ledger = harness.fresh().await;
        let twin = harness.share(&ledger).await;
        Self { harness, ledger: Arc::new(ledger), twin: Arc::new(twin), names: AtomicU64::new(1) }
    }

    pub(super) async fn begin(&self) -> Result<(), Fault> {
        self.begin_on(Network::BASE).await
    }

    pub(super) async fn begin_on(&self, network: Network) -> Result<(), Fault> {
        must_be!(
            self.ledger.begin(network, ChainTime::from_unix(MARK)).await?.unix(),
            MARK,
            "the mark of a new ledger"
        );
        Ok(())
    }

    pub(super) fn name<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0xab; N];
        let name = self.names.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(name.iter().rev()).for_each(|(byte, part)| *byte = *part);
        bytes
    }

    /// An unused intent.
    pub(super) fn intent(&self) -> IntentKey {
        IntentKey::new(self.name())
    }

    /// An unused purchase.
    pub(super) fn purchase(&self) -> PurchaseKey {
        PurchaseKey::new(self.name())
    }

    /// An unused payment.
    pub(super) fn paid(&self) -> Transfer {
        self.paid_at(PAID)
    }

    pub(super) fn paid_at(&self, block_time: u64) -> Transfer {
        Transfer::new(Network::BASE, TxHash::new(self.name()), 0)
            .with_token(Address::new([0x55; 20]))
            .with_payer(Address::new([0x66; 20]))
            .with_recipient(Address::new([0x77; 20]))
            .with_amount(Amount::from_base_units(490_000))
            .with_block(block_time / 2, ChainTime::from_unix(block_time))
    }

    /// A claim with a lease that outlives every check.
    pub(super) fn claim<P: Clone + Into<Payment>>(&self, intent: IntentKey, payments: &[P]) -> Claim {
        claim(intent, payments, PAY_UNTIL, HEAD, LONG)
    }

    /// A claim for a purchase, with an unused intent, and a lease that outlives every check.
    pub(super) fn claim_for<P: Clone + Into<Payment>>(&self, purchase: PurchaseKey, payments: &[P]) -> Claim {
        claim_for(self.intent(), purchase, payments, LONG)
    }

    /// A claim with a lease short enough to wait for.
    pub(super) fn brief<P: Clone + Into<Payment>>(&self, intent: IntentKey, payments: &[P]) -> Claim {
        claim(intent, payments, PAY_UNTIL, HEAD, self.harness.lease())
    }

    /// A claim at this head.
    pub(super) fn claim_at<P: Clone + Into<Payment>>(&self, head: u64, intent: IntentKey, payments: &[P]) -> Claim {
        claim(intent, payments, PAY_UNTIL, head, LONG)
    }

    /// A claim at this head, with an intent that expires later than it.
    pub(super) fn young_claim<P: Clone + Into<Payment>>(&self, head: u64, payments: &[P]) -> Claim {
        claim(self.intent(), payments, head + 900, head, LONG)
    }

    /// Waits until a brief lease has expired.
    pub(super) async fn run_out(&self) {
        self.harness.pass(self.harness.lease()).await;
    }

    pub(super) async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, Fault> {
        Ok(self.ledger.reserve(claim).await?)
    }

    /// Makes a claim that must be granted.
    pub(super) async fn hold(&self, claim: &Claim) -> Result<Lease, Fault> {
        match self.ledger.reserve(claim).await? {
            ReserveOutcome::Granted(lease) => Ok(lease),
            other => Err(Fault::new(format!("a free pair was refused: {other:?}"))),
        }
    }

    /// Sells a claim that must be granted.
    pub(super) async fn sell(&self, claim: &Claim) -> Result<Lease, Fault> {
        let lease = self.hold(claim).await?;
        must_be!(self.ledger.commit(&lease, None).await?, super::super::CommitOutcome::Done, "commit of a held lease");
        Ok(lease)
    }
}

/// An unsettled authorization.
pub(super) fn unsettled<H: Harness>(fixture: &Fixture<'_, H>) -> Payment {
    let paid = fixture.paid();
    let signed = SignedTransfer::new(paid.network, paid.token, paid.payer, *paid.transaction.as_bytes());
    signed.with_recipient(paid.recipient).with_amount(paid.amount).with_shown(paid.block_time).into()
}

pub(super) fn claim<P: Clone + Into<Payment>>(
    intent: IntentKey,
    payments: &[P],
    pay_until: u64,
    head: u64,
    lease: Duration,
) -> Claim {
    let [pay_until, head] = [pay_until, head].map(ChainTime::from_unix);
    Claim::builder("conformance", intent)
        .payments(payments.to_vec())
        .pay_until(pay_until)
        .head(head)
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

/// A claim for a purchase.
pub(super) fn claim_for<P: Clone + Into<Payment>>(
    intent: IntentKey,
    purchase: impl Into<Option<PurchaseKey>>,
    payments: &[P],
    lease: Duration,
) -> Claim {
    let [pay_until, head] = [PAY_UNTIL, HEAD].map(ChainTime::from_unix);
    Claim::builder("conformance", intent)
        .purchase(purchase)
        .payments(payments.to_vec())
        .pay_until(pay_until)
        .head(head)
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

/// The transfer that a lease holds.
pub(super) fn mined(lease: &Lease) -> Result<&Transfer, Fault> {
    match lease.payment() {
        Payment::Transfer(transfer) => Ok(transfer),
        other => Err(Fault::new(format!("the lease of a transfer holds {other:?}"))),
    }
}
