//! `PassOrder`: what a `PassLayer` asks of the inner layer, and what the inner layer reports back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, StatusCode};

use crate::{
    client::{Failure, Money, Purchase, PurchaseId, PurchaseState, flow::PurchaseRegistry},
    protocol::Amount,
};

/// The longest bill that is read, in bytes.
pub(crate) const BILL_MAX: usize = 64 * 1024;

/// A request extension. Clones share one report.
#[derive(Clone)]
pub(crate) struct PassOrder {
    wish: Wish,
    told: Arc<Mutex<Told>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Finish what this request has paid for, and pay nothing new: a bill is returned unchanged.
    NothingNew,
    /// Buy a pass, and leave its purchase open until the pass is kept. The request's `MaxPrice` limits a new payment,
    /// and may be a quoted price; `limit` applies to an earlier payment.
    Pass { limit: Option<Amount> },
}

/// The callback for a new payment, when it is recorded.
type OnPaid = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Told {
    /// Whether the inner layer reports anything.
    is_followed: bool,
    resumed: Option<PurchaseId>,
    paid: Option<Amount>,
    on_paid: Option<OnPaid>,
    approving: Duration,
    is_billed: bool,
    bill: Option<Bytes>,
    ending: Option<Ending>,
}

/// What happened to the money of an order.
#[derive(Clone)]
pub(crate) enum Ending {
    /// Nothing was paid, and no payment of this request is open.
    Unpaid,
    /// A payment of this request is open, for the answer or an earlier one. The same request resumes it.
    Open(Option<PassSale>),
    /// It was paid, and its purchase closed without an answer.
    Lost,
    /// The answer arrived. Its purchase, if known, stays open until the answer is kept.
    Sold(Option<PassSale>),
}

impl Ending {
    /// Derives the ending from the result of a call, and from whether a purchase of its request is still open.
    pub(crate) fn of<B>(
        came: &Result<Response<B>, Failure>,
        is_open: bool,
        sale: impl FnOnce(PurchaseId) -> PassSale,
    ) -> Self {
        let purchase = came.as_ref().ok().and_then(|answer| answer.extensions().get::<Purchase>());
        match (purchase.map(|purchase| (purchase.state, purchase.id)), came) {
            (Some((PurchaseState::Answered, id)), _) => Self::Sold(Some(sale(id))),
            (told, _) if is_open => Self::Open(told.map(|(_, id)| sale(id))),
            (Some((PurchaseState::Refused, _)), _) => Self::Lost,
            (_, Ok(_)) => Self::Unpaid,
            // A refused voucher charged nothing.
            (_, Err(Failure::VoucherRefused { .. })) => Self::Unpaid,
            (_, Err(failure)) => match failure.facts().1 {
                Money::Untouched | Money::FeeSpent { .. } => Self::Unpaid,
                Money::AtRisk { .. } | Money::Spent { .. } => Self::Lost,
            },
        }
    }

    /// Derives the ending from the answer alone, if the inner layer reports nothing. Without a price in the answer, a
    /// payment may be open.
    pub(super) fn of_another<B, E>(answer: &Result<Response<B>, E>) -> Self {
        match answer.as_ref().map(Response::status) {
            Ok(StatusCode::OK) => Self::Sold(None),
            Ok(StatusCode::PAYMENT_REQUIRED) => Self::Unpaid,
            _ => Self::Open(None),
        }
    }
}

impl PassOrder {
    pub(super) fn nothing_new() -> Self {
        Self { wish: Wish::NothingNew, told: Arc::default() }
    }

    /// Creates an order for a pass. `limit` applies to an earlier payment. `on_paid` is called when a new one is recorded.
    pub(super) fn pass(limit: Option<Amount>, on_paid: impl Fn() + Send + Sync + 'static) -> Self {
        let told = Told { on_paid: Some(Arc::new(on_paid)), ..Told::default() };
        Self { wish: Wish::Pass { limit }, told: Arc::new(Mutex::new(told)) }
    }

    pub(crate) fn pays_nothing_new(&self) -> bool {
        self.wish == Wish::NothingNew
    }

    pub(crate) fn buys_a_pass(&self) -> bool {
        matches!(self.wish, Wish::Pass { .. })
    }

    /// Returns the limit for a resumed purchase, given the request's own limit.
    pub(crate) fn limit_of_resumed(&self, most: Option<Amount>) -> Option<Amount> {
        match self.wish {
            Wish::NothingNew => most,
            Wish::Pass { limit } => limit,
        }
    }

    /// Reports which earlier purchase of the request is resumed; `None` if it ended and the request begins anew. A payment that was reported
    /// before no longer counts.
    pub(crate) fn resumes(&self, purchase: Option<PurchaseId>) {
        let mut told = self.told();
        told.is_followed = true;
        (told.resumed, told.paid) = (purchase, None);
    }

    /// Reports a payment of this amount when it is recorded: a new one, or one of another request that is used here. From now on this
    /// payment buys the answer, instead of any that was resumed before.
    pub(crate) fn pays(&self, amount: Amount) {
        {
            let mut told = self.told();
            told.is_followed = true;
            (told.resumed, told.paid) = (None, Some(amount));
        }
        self.may_have_paid();
    }

    /// Runs the callback for a new payment, which may only be a possible one.
    pub(super) fn may_have_paid(&self) {
        let on_paid = self.told().on_paid.clone();
        if let Some(on_paid) = on_paid {
            on_paid();
        }
    }

    /// Reports the amount that the resumed purchase will still cost.
    pub(crate) fn owes(&self, amount: Amount) {
        self.told().paid = Some(amount);
    }

    /// Reports how long the approval took, which counts against no deadline.
    pub(crate) fn approved_after(&self, time: Duration) {
        self.told().approving += time;
    }

    /// Reports that the seller asked for a payment.
    pub(crate) fn bills(&self) {
        self.told().is_billed = true;
    }

    /// Reports the text of a bill that is returned unchanged; `None` if it was not fully read.
    pub(crate) fn reads(&self, bill: Option<&[u8]>) {
        self.told().bill = bill.map(Bytes::copy_from_slice);
    }

    /// Reports the ending.
    pub(crate) fn ends(&self, ending: Ending) {
        self.told().ending = Some(ending);
    }

    /// Returns whether the inner layer reports what it resumes and pays.
    pub(super) fn is_followed(&self) -> bool {
        let told = self.told();
        told.is_followed || told.ending.is_some()
    }

    pub(super) fn has_resumed(&self) -> bool {
        self.resumed().is_some()
    }

    pub(super) fn resumed(&self) -> Option<PurchaseId> {
        self.told().resumed
    }

    /// Returns what was paid for this request, if known. The caller ignores it for an unpaid ending.
    pub(super) fn paid(&self) -> Option<Amount> {
        self.told().paid
    }

    pub(super) fn approving(&self) -> Duration {
        self.told().approving
    }

    pub(super) fn is_billed(&self) -> bool {
        self.told().is_billed
    }

    pub(super) fn bill(&self) -> Option<Bytes> {
        self.told().bill.clone()
    }

    /// Returns the ending; `None` if the inner layer reports none.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.told().ending.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open purchase of a pass that was sold.
#[derive(Clone)]
pub(crate) struct PassSale {
    pub(crate) registry: PurchaseRegistry,
    pub(crate) id: PurchaseId,
    /// Whether the caller closes purchases itself.
    pub(crate) is_callers: bool,
}

impl PassSale {
    /// Closes the purchase, durably.
    pub(super) async fn close(&self) {
        if let Err(error) = self.registry.close_kept(self.id).await {
            tracing::warn!(%error, purchase = %self.id, "the journal did not record that a pass is here");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TxHash;

    fn ends(failure: Failure, is_open: bool) -> Ending {
        Ending::of::<()>(&Err(failure), is_open, |_| panic!("nothing is sold"))
    }

    #[test]
    fn a_refused_voucher_is_no_payment_and_a_refused_transfer_is_one() {
        let purchase = PurchaseId::new([1; 16]);
        let voucher = || Failure::VoucherRefused { purchase, reason: None };
        let unanswered = || Failure::Unanswered { purchase, transaction: TxHash::new([2; 32]), code: None };
        assert!(matches!(ends(voucher(), false), Ending::Unpaid));
        assert!(matches!(ends(voucher(), true), Ending::Open(_)));
        assert!(matches!(ends(unanswered(), true), Ending::Open(_)));
        assert!(matches!(ends(unanswered(), false), Ending::Lost));
    }
}
