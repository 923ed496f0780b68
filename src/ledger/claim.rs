//! `Claim` and `Lease`: what is asked of a ledger, and what it grants.

use std::{sync::Arc, time::Duration};

use crate::protocol::{ChainTime, IntentKey, Transfer};

/// How far the verifier's head may lag behind the chain.
const HEAD_LAG: Duration = Duration::from_secs(3 * 60);
/// How far two clocks may be apart.
const CLOCK_SKEW: Duration = Duration::from_secs(2 * 60);

/// How much later a transaction whose block was dropped may be mined again and still count as the same payment where
/// nobody showed it meanwhile: twice the twelve hours after which an OP-stack chain can still drop unsafe blocks.
const MINED_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// A wish to spend one of some transfers on one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    resource: Arc<str>,
    intent: IntentKey,
    pay_until: ChainTime,
    transfers: Vec<Transfer>,
    head: ChainTime,
    max_payment_age: Duration,
    lease: Duration,
}

impl Claim {
    /// A claim on one of `transfers`, which it puts in the order in which they are tried: smallest first, of equal
    /// ones the earliest in the receipt.
    ///
    /// `pay_until` is the intent's expiry plus grace; `head` the chain time they were judged at; `lease` how long a
    /// grant holds unless it is renewed.
    #[must_use]
    pub fn new(
        resource: impl Into<Arc<str>>,
        intent: IntentKey,
        pay_until: ChainTime,
        mut transfers: Vec<Transfer>,
        head: ChainTime,
        max_payment_age: Duration,
        lease: Duration,
    ) -> Self {
        transfers.sort_by_key(|transfer| (transfer.amount, transfer.position));
        Self { resource: resource.into(), intent, pay_until, transfers, head, max_payment_age, lease }
    }

    /// The seller's name for what is bought.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The intent.
    #[must_use]
    pub const fn intent(&self) -> IntentKey {
        self.intent
    }

    /// The candidates, in the order in which they are tried.
    #[must_use]
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The chain time at which the candidates were judged: what a ledger forgets by.
    #[must_use]
    pub const fn head(&self) -> ChainTime {
        self.head
    }

    /// How long a grant holds unless it is renewed.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long, in chain time, a record of this intent and that transfer must be kept: until age rules out the return
    /// of either, also where a reorganisation drops the transfer and it is mined again up to a day later.
    #[must_use]
    pub fn keep_until(&self, transfer: &Transfer) -> ChainTime {
        let margin = HEAD_LAG.saturating_add(2 * CLOCK_SKEW).saturating_add(MINED_AGAIN).saturating_add(self.lease);
        transfer.block_time.max(self.pay_until).after(self.max_payment_age.saturating_add(margin))
    }
}

/// A pair of intent and transfer that is held for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a lease that is neither committed nor released blocks its payment until it runs out"]
pub struct Lease {
    intent: IntentKey,
    transfer: Transfer,
    fence: u64,
    length: Duration,
}

impl Lease {
    /// For a ledger that grants `claim` on `transfer`. No two grants of one ledger have the same `fence`.
    pub fn new(claim: &Claim, transfer: &Transfer, fence: u64) -> Self {
        Self { intent: claim.intent, transfer: transfer.clone(), fence, length: claim.lease }
    }

    /// The intent that is held.
    #[must_use]
    pub const fn intent(&self) -> IntentKey {
        self.intent
    }

    /// The transfer that is held.
    #[must_use]
    pub const fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// What tells this holder from every other, earlier or later.
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.fence
    }

    /// How long the lease lasts from its grant or its last renewal.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }
}
