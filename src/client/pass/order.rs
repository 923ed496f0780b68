//! `PassOrder`: what a `PassLayer` asks of the layer inside, and what that tells it.

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

/// A request extension. Clones are one order.
#[derive(Clone)]
pub(crate) struct PassOrder {
    wish: Wish,
    told: Arc<Mutex<Told>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Finish what this request has paid for, and pay nothing new: a bill is returned as it is.
    NothingNew,
    /// Buy a pass, and leave its purchase open until it is kept. The request's `MaxPrice` holds for a new payment, and may be the price of a
    /// quote; `limit` is that of a payment that was made before.
    Pass { limit: Option<Amount> },
}

#[derive(Default)]
struct Told {
    has_resumed: bool,
    paid: Option<Amount>,
    approving: Duration,
    is_billed: bool,
    bill: Option<Bytes>,
    ending: Option<Ending>,
}

/// How an order ended for its money.
#[derive(Clone)]
pub(crate) enum Ending {
    /// Nothing was paid, and no payment of this request is open.
    Unpaid,
    /// A payment of this request is open, be it that of the answer, or another one. The same request goes on with it.
    Open(Option<PassSale>),
    /// It was paid, and closed without an answer.
    Lost,
    /// The answer is here. The purchase, where it is known, is open until that is kept.
    Sold(Option<PassSale>),
}

impl Ending {
    /// Tells it by what came of a call, and whether a purchase of its request is open after that.
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
            // Nothing was charged by a voucher that is refused.
            (_, Err(Failure::VoucherRefused { .. })) => Self::Unpaid,
            (_, Err(failure)) => match failure.facts().1 {
                Money::Untouched | Money::FeeSpent { .. } => Self::Unpaid,
                Money::AtRisk { .. } | Money::Spent { .. } => Self::Lost,
            },
        }
    }

    /// Tells it by the answer alone, where the layer inside tells nothing. Without a word about the price, a payment may be open.
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

    /// `limit` holds for a payment that was made before.
    pub(super) fn pass(limit: Option<Amount>) -> Self {
        Self { wish: Wish::Pass { limit }, told: Arc::default() }
    }

    pub(crate) fn pays_nothing_new(&self) -> bool {
        self.wish == Wish::NothingNew
    }

    pub(crate) fn buys_a_pass(&self) -> bool {
        matches!(self.wish, Wish::Pass { .. })
    }

    /// The most that a purchase may yet cost that is resumed, for a request that pays so much at most.
    pub(crate) fn limit_of_resumed(&self, most: Option<Amount>) -> Option<Amount> {
        match self.wish {
            Wish::NothingNew => most,
            Wish::Pass { limit } => limit,
        }
    }

    /// Tells whether an earlier purchase of the request goes on, or ended, and the request begins anew.
    pub(crate) fn resumes(&self, resumes: bool) {
        self.told().has_resumed = resumes;
    }

    /// Tells that a payment of so much is made that is new to this request: what comes now is bought by that one, whatever was resumed before.
    pub(crate) fn pays(&self, amount: Amount) {
        let mut told = self.told();
        (told.has_resumed, told.paid) = (false, Some(amount));
    }

    /// Tells that the purchase that goes on is yet to cost so much.
    pub(crate) fn owes(&self, amount: Amount) {
        self.told().paid = Some(amount);
    }

    /// Tells how long the approval took, which counts against no deadline.
    pub(crate) fn approved_after(&self, time: Duration) {
        self.told().approving += time;
    }

    /// Tells that the seller asked for a payment.
    pub(crate) fn bills(&self) {
        self.told().is_billed = true;
    }

    /// Tells what a bill says that is returned as it is, where all of it could be read.
    pub(crate) fn reads(&self, bill: Option<&[u8]>) {
        self.told().bill = bill.map(Bytes::copy_from_slice);
    }

    /// Tells how it ended.
    pub(crate) fn ends(&self, ending: Ending) {
        self.told().ending = Some(ending);
    }

    pub(super) fn has_resumed(&self) -> bool {
        self.told().has_resumed
    }

    /// What was paid for this request, if it is known, and was not in vain.
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

    /// `None` where the layer inside does not tell it.
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
    /// The caller closes purchases.
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
