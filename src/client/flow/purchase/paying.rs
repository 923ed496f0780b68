//! New payments: makes or signs each payment that the budget admits and the owner approves, with one function for each way to pay.

use std::sync::Arc;

use tokio::time::Instant;

use super::PurchaseFlow;
use crate::{
    client::{
        Failure, JournalEntry, PaymentMethod, Proposal, ReplayBody,
        dialect::{AuthorizationTerms, ChannelTerms, PermitTerms, TransferTerms},
        flow::{PurchaseGuard, from_quote},
        way::{Authorizing, ChannelPlan, Permitting, TransferDriver, Vouching, Way},
    },
    protocol::{Asset, Quote, TokenDomain, TxHash},
};

impl<S: Clone, B: ReplayBody> PurchaseFlow<S, B> {
    /// Makes or signs a new payment. If another call left a purchase of the same request meanwhile, returns that purchase instead.
    pub(super) async fn pay(&mut self, way: Way<'_>) -> Result<PurchaseGuard, Failure> {
        match way {
            Way::Transfer(terms, assets) => self.paid_now(terms, assets).await,
            Way::Authorization(terms, asset, domain) => self.authorized_now(terms, asset, domain).await,
            Way::Permit(terms, asset) => self.permitted_now(terms, asset).await,
            Way::Channel(terms, asset, plan) => Box::pin(self.vouched_now(terms, asset, plan)).await,
        }
    }

    async fn paid_now(&mut self, terms: &TransferTerms, assets: Vec<Asset>) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let quote = &terms.quote;
        let entry = JournalEntry { is_elsewhere: terms.is_elsewhere, ..self.entry(quote) };
        let proposal = from_quote::proposal(self.request(), quote, entry.id, assets, PaymentMethod::Transfer, None);
        let mut guard = inner.registry.reserve(entry, &inner.budget)?;
        let payment = from_quote::payment(&proposal, quote);
        if let Some(left) = self.approved(proposal, quote, &mut guard).await? {
            return Ok(left);
        }
        let driver = TransferDriver::new(inner.dispatch_context(), guard, self.progress.clone(), self.deadline);
        let guard = driver.pay(&payment, quote).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    async fn authorized_now(
        &mut self,
        terms: &AuthorizationTerms,
        asset: Asset,
        domain: TokenDomain,
    ) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let mut entry = self.entry(&terms.quote);
        entry.intent = terms.intent.as_ref().map(|intent| intent.as_str().to_owned()).unwrap_or_default();
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let method = PaymentMethod::Authorization;
        let proposal =
            from_quote::proposal(self.request(), &terms.quote, entry.id, vec![asset], method, Some(valid_for));
        let mut guard = inner.registry.reserve(entry, &inner.budget)?;
        if let Some(left) = self.approved(proposal, &terms.quote, &mut guard).await? {
            return Ok(left);
        }
        let authorizing = Authorizing { inner: &inner, progress: &self.progress, deadline: self.deadline, valid_for };
        let guard = authorizing.sign(guard, terms, domain).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    async fn permitted_now(&mut self, terms: &PermitTerms, asset: Asset) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let entry = JournalEntry { intent: String::new(), ..self.entry(&terms.quote) };
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let (assets, method) = (vec![asset], PaymentMethod::Permit);
        let proposal = from_quote::proposal(self.request(), &terms.quote, entry.id, assets, method, Some(valid_for));
        let mut guard = inner.registry.reserve(entry, &inner.budget)?;
        if let Some(left) = self.approved(proposal, &terms.quote, &mut guard).await? {
            return Ok(left);
        }
        let permitting = Permitting { inner: &inner, progress: &self.progress, deadline: self.deadline, valid_for };
        let guard = permitting.sign(guard, terms).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Signs a voucher, and a deposit where the channel holds too little.
    async fn vouched_now(
        &mut self,
        terms: &ChannelTerms,
        asset: Asset,
        plan: ChannelPlan,
    ) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let entry = JournalEntry { intent: String::new(), ..self.entry(&terms.quote) };
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let deposit = plan.deposited();
        let is_deposited = !deposit.is_zero();
        let (assets, method) = (vec![asset], PaymentMethod::Channel);
        let ends = is_deposited.then_some(valid_for);
        let proposal = from_quote::proposal(self.request(), &terms.quote, entry.id, assets, method, ends);
        let proposal = Proposal {
            deposit: is_deposited.then_some(deposit),
            withdraw_delay: is_deposited.then(|| terms.withdraw_delay()),
            ..proposal
        };
        let mut guard = inner.registry.reserve_deposit(entry, deposit, &inner.budget)?;
        if let Some(left) = self.approved(proposal, &terms.quote, &mut guard).await? {
            return Ok(left);
        }
        let (progress, deadline, place) = (&self.progress, self.deadline, self.request().place());
        let vouching = Vouching { inner: &inner, progress, deadline, valid_for, place };
        let guard = vouching.sign(guard, terms, plan).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Asks for approval. A pass order learns the price when the payment is recorded, because nothing is paid before. Returns a purchase of
    /// the same request that was left meanwhile, which replaces the new one.
    async fn approved(
        &mut self,
        proposal: Proposal,
        quote: &Quote,
        guard: &mut PurchaseGuard,
    ) -> Result<Option<PurchaseGuard>, Failure> {
        let asked = Instant::now();
        self.inner.budget.approve(proposal).await?;
        // The time that a human takes to approve counts against no deadline.
        if let Some(order) = self.request().pass_order().cloned() {
            order.approved_after(asked.elapsed());
            let amount = quote.amount;
            guard.once_recorded(move || order.pays(amount));
        }
        self.deadline += asked.elapsed();
        self.limit = self.limit.and_then(|limit| limit.checked_add(asked.elapsed()));
        self.left_meanwhile()
    }

    /// Returns the purchase of a request whose caller has made the payment.
    pub(super) async fn paid_elsewhere(&mut self, quote: &Quote, transaction: TxHash) -> PurchaseGuard {
        let mut guard = self.inner.registry.paid_elsewhere(self.entry(quote));
        guard.note(|entry| entry.mark_paid_by(transaction)).await;
        guard
    }

    fn entry(&self, quote: &Quote) -> JournalEntry {
        from_quote::entry(self.request(), quote, self.progress.purchase(), self.inner.now())
    }
}
