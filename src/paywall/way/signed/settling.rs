//! `ToSettle`: a reserved signed payment that the sale settles.

use std::{future::Future, pin::Pin};

use crate::{
    ledger::Settling,
    paywall::{
        refusal::{Problem, Requote},
        sale::{
            kept_answer::Shown,
            reservation::Records,
            settle::{Outcome, Settled, Unsettled},
        },
        way::signed::{
            Signed,
            judgement::{Conclusion, conclude},
            showing::shown_by,
        },
    },
    protocol::{Amount, TxHash, v2::SettleResponse},
};

/// A reserved payment, and the new quote for its refusal.
pub(super) struct ToSettle<S> {
    pub(super) reserved: S,
    pub(super) requote: Requote,
}

impl<S: Signed> Unsettled for ToSettle<S> {
    fn record(&self) -> Settling {
        self.reserved.showing().begun()
    }

    fn is_metered(&self) -> bool {
        self.reserved.is_metered()
    }

    fn settle<'a>(
        &'a self,
        charge: Amount,
        records: &'a Records,
    ) -> Pin<Box<dyn Future<Output = Settled> + Send + 'a>> {
        Box::pin(self.reserved.settle(charge, records))
    }

    fn conclude(&self, settled: Settled, begun: Option<&Settling>) -> Outcome {
        let showing = self.reserved.showing();
        match conclude(settled, &showing.case(self.is_metered(), begun), showing.head) {
            Conclusion::Sell(paid) => Outcome::Sell(paid),
            Conclusion::Prove(transaction) => Outcome::Refuse(showing.to_prove(transaction).into()),
            Conclusion::Refuse(reason) => {
                Outcome::Refuse(self.requote.clone().refuse(reason, showing.network(), Some(showing.payer())))
            }
            Conclusion::Unknown(transaction) => Outcome::Unknown(showing.outcome_unknown(transaction)),
        }
    }

    fn is_settled(&mut self) {
        self.reserved.is_settled();
    }

    fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        self.reserved.showing().outcome_unknown(transaction)
    }

    fn made(&self, transaction: TxHash) -> SettleResponse {
        self.reserved.showing().pending(Some(transaction))
    }

    fn shown(&self) -> Shown {
        let showing = self.reserved.showing();
        shown_by(self.reserved.payment(showing.head).id(), showing.is_quoted())
    }
}
