//! The boxed twin of [`Ledger`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use super::{
    Account, AccountId, AccountLedger, AccountMemo, Announcements, BookedSale, ChargeOutcome, Claim, ClosedAccount,
    CommitOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, KeptAnswer, Lease, Ledger, LedgerError, OpenOutcome,
    Opening, ReflectOutcome, Reflection, RenewOutcome, ReserveOutcome, Sale, Settling,
};
use crate::{
    metrics,
    protocol::{Amount, ChainTime, IntentKey, Network, PaymentId},
};

/// How long an account is kept after its end, so that its holder learns why it buys nothing.
const ACCOUNTS_KEPT: Duration = Duration::from_secs(30 * 86_400);

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

pub(crate) trait ErasedLedger: Send + Sync + 'static {
    fn begin(&self, network: Network, now: ChainTime) -> Boxed<'_, ChainTime>;
    /// The future owns its inputs, so that it can outlive the caller.
    fn reserve(self: Arc<Self>, claim: Claim) -> Boxed<'static, ReserveOutcome>;
    fn renew<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, RenewOutcome>;
    fn settling<'a>(&'a self, lease: &'a Lease, settling: &'a Settling) -> Boxed<'a, RenewOutcome>;
    fn not_settled<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, ()>;
    fn commit<'a>(&'a self, lease: &'a Lease, answer: Option<&'a KeptAnswer>) -> Boxed<'a, CommitOutcome>;
    fn release<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, ()>;
    fn consumed(&self, intent: IntentKey) -> Boxed<'_, Option<Sale>>;
    fn begun(&self, intent: IntentKey, payment: PaymentId) -> Boxed<'_, Option<Settling>>;
    fn begun_among<'a>(
        &'a self,
        intent: IntentKey,
        payments: &'a [PaymentId],
    ) -> Boxed<'a, Option<(PaymentId, Settling)>>;
    fn health(&self) -> Boxed<'_, ()>;
    /// The future owns its inputs, so that it can outlive the caller.
    fn sweep(self: Arc<Self>, network: Network, head: ChainTime) -> Boxed<'static, u64>;
    fn announcements(&self) -> Option<&dyn ErasedAnnouncements>;
    fn accounts(&self) -> Option<&dyn ErasedAccounts>;
    fn keeps_answers(&self) -> bool;
}

/// The boxed twin of [`Announcements`].
pub(crate) trait ErasedAnnouncements: Send + Sync + 'static {
    fn unannounced<'a>(&'a self, after: Option<&'a BookedSale>, most: usize) -> Boxed<'a, Vec<BookedSale>>;
    fn announced(&self, payment: PaymentId) -> Boxed<'_, ()>;
}

/// The boxed twin of [`AccountLedger`].
pub(crate) trait ErasedAccounts: Send + Sync + 'static {
    fn open_account<'a>(&'a self, opening: &'a Opening) -> Boxed<'a, OpenOutcome>;
    fn draw<'a>(&'a self, draw: &'a Draw) -> Boxed<'a, DrawOutcome>;
    fn renew_draw<'a>(&'a self, lease: &'a DrawLease) -> Boxed<'a, DrawRenewal>;
    fn charge<'a>(
        &'a self,
        lease: &'a DrawLease,
        amount: Amount,
        memo: Option<&'a AccountMemo>,
    ) -> Boxed<'a, ChargeOutcome>;
    fn take_back<'a>(
        &'a self,
        lease: &'a DrawLease,
        amount: Amount,
        memo: Option<&'a AccountMemo>,
    ) -> Boxed<'a, ChargeOutcome>;
    fn release_draw<'a>(&'a self, lease: &'a DrawLease) -> Boxed<'a, ()>;
    fn close_account(&self, id: AccountId) -> Boxed<'_, Option<ClosedAccount>>;
    fn account(&self, id: AccountId) -> Boxed<'_, Option<Account>>;
    fn reflect<'a>(&'a self, reflection: &'a Reflection) -> Boxed<'a, ReflectOutcome>;
    fn owed(&self, after: Option<AccountId>, most: usize) -> Boxed<'_, Vec<(AccountId, Account)>>;
    #[allow(dead_code, reason = "the claimer of channels asks it")]
    fn claimable(&self, after: Option<AccountId>, most: usize) -> Boxed<'_, Vec<(AccountId, Account)>>;
}

impl<A: AccountLedger> ErasedAccounts for A {
    fn open_account<'a>(&'a self, opening: &'a Opening) -> Boxed<'a, OpenOutcome> {
        Box::pin(metrics::ledger("open_account", AccountLedger::open_account(self, opening)))
    }

    fn draw<'a>(&'a self, draw: &'a Draw) -> Boxed<'a, DrawOutcome> {
        Box::pin(metrics::ledger("draw", AccountLedger::draw(self, draw)))
    }

    fn renew_draw<'a>(&'a self, lease: &'a DrawLease) -> Boxed<'a, DrawRenewal> {
        Box::pin(metrics::ledger("renew_draw", AccountLedger::renew_draw(self, lease)))
    }

    fn charge<'a>(
        &'a self,
        lease: &'a DrawLease,
        amount: Amount,
        memo: Option<&'a AccountMemo>,
    ) -> Boxed<'a, ChargeOutcome> {
        Box::pin(metrics::ledger("charge", AccountLedger::charge(self, lease, amount, memo)))
    }

    fn take_back<'a>(
        &'a self,
        lease: &'a DrawLease,
        amount: Amount,
        memo: Option<&'a AccountMemo>,
    ) -> Boxed<'a, ChargeOutcome> {
        Box::pin(metrics::ledger("take_back", AccountLedger::take_back(self, lease, amount, memo)))
    }

    fn release_draw<'a>(&'a self, lease: &'a DrawLease) -> Boxed<'a, ()> {
        Box::pin(metrics::ledger("release_draw", AccountLedger::release_draw(self, lease)))
    }

    fn close_account(&self, id: AccountId) -> Boxed<'_, Option<ClosedAccount>> {
        Box::pin(metrics::ledger("close_account", AccountLedger::close_account(self, id)))
    }

    fn account(&self, id: AccountId) -> Boxed<'_, Option<Account>> {
        Box::pin(metrics::ledger("account", AccountLedger::account(self, id)))
    }

    fn reflect<'a>(&'a self, reflection: &'a Reflection) -> Boxed<'a, ReflectOutcome> {
        Box::pin(metrics::ledger("reflect", AccountLedger::reflect(self, reflection)))
    }

    fn owed(&self, after: Option<AccountId>, most: usize) -> Boxed<'_, Vec<(AccountId, Account)>> {
        Box::pin(metrics::ledger("owed", AccountLedger::owed(self, after, most)))
    }

    fn claimable(&self, after: Option<AccountId>, most: usize) -> Boxed<'_, Vec<(AccountId, Account)>> {
        Box::pin(metrics::ledger("claimable", AccountLedger::claimable(self, after, most)))
    }
}

impl<A: Announcements> ErasedAnnouncements for A {
    fn unannounced<'a>(&'a self, after: Option<&'a BookedSale>, most: usize) -> Boxed<'a, Vec<BookedSale>> {
        Box::pin(metrics::ledger("unannounced", Announcements::unannounced(self, after, most)))
    }

    fn announced(&self, payment: PaymentId) -> Boxed<'_, ()> {
        Box::pin(metrics::ledger("announced", Announcements::announced(self, payment)))
    }
}

impl<L: Ledger> ErasedLedger for L {
    fn begin(&self, network: Network, now: ChainTime) -> Boxed<'_, ChainTime> {
        Box::pin(metrics::ledger("begin", Ledger::begin(self, network, now)))
    }

    fn reserve(self: Arc<Self>, claim: Claim) -> Boxed<'static, ReserveOutcome> {
        Box::pin(metrics::ledger("reserve", async move { Ledger::reserve(&*self, &claim).await }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, RenewOutcome> {
        Box::pin(metrics::ledger("renew", Ledger::renew(self, lease)))
    }

    fn settling<'a>(&'a self, lease: &'a Lease, settling: &'a Settling) -> Boxed<'a, RenewOutcome> {
        Box::pin(metrics::ledger("settling", Ledger::settling(self, lease, settling)))
    }

    fn not_settled<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, ()> {
        Box::pin(metrics::ledger("not_settled", Ledger::not_settled(self, lease)))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, answer: Option<&'a KeptAnswer>) -> Boxed<'a, CommitOutcome> {
        Box::pin(metrics::ledger("commit", Ledger::commit(self, lease, answer)))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Boxed<'a, ()> {
        Box::pin(metrics::ledger("release", Ledger::release(self, lease)))
    }

    fn consumed(&self, intent: IntentKey) -> Boxed<'_, Option<Sale>> {
        Box::pin(metrics::ledger("consumed", Ledger::consumed(self, intent)))
    }

    fn begun(&self, intent: IntentKey, payment: PaymentId) -> Boxed<'_, Option<Settling>> {
        Box::pin(metrics::ledger("begun", Ledger::begun(self, intent, payment)))
    }

    fn begun_among<'a>(
        &'a self,
        intent: IntentKey,
        payments: &'a [PaymentId],
    ) -> Boxed<'a, Option<(PaymentId, Settling)>> {
        Box::pin(metrics::ledger("begun", Ledger::begun_among(self, intent, payments)))
    }

    fn health(&self) -> Boxed<'_, ()> {
        Box::pin(metrics::ledger("health", Ledger::health(self)))
    }

    fn sweep(self: Arc<Self>, network: Network, head: ChainTime) -> Boxed<'static, u64> {
        Box::pin(metrics::ledger("sweep", async move {
            if let Some(accounts) = Ledger::accounts(&*self) {
                let _ = accounts.sweep_accounts(ACCOUNTS_KEPT).await?;
            }
            Ledger::sweep(&*self, network, head).await
        }))
    }

    fn announcements(&self) -> Option<&dyn ErasedAnnouncements> {
        Ledger::announcements(self).map(|announcements| announcements as &dyn ErasedAnnouncements)
    }

    fn accounts(&self) -> Option<&dyn ErasedAccounts> {
        Ledger::accounts(self).map(|accounts| accounts as &dyn ErasedAccounts)
    }

    fn keeps_answers(&self) -> bool {
        Ledger::answer_space(self).is_some_and(|space| space > 0)
    }
}

/// Returns the ledger's accounts. A ledger without accounts cannot sell passes.
pub(crate) fn accounts_of(ledger: &dyn ErasedLedger) -> Result<&dyn ErasedAccounts, LedgerError> {
    ledger.accounts().ok_or(LedgerError::unavailable())
}
