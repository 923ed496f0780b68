//! `ToSettle`: a reserved authorization that the sale settles.

use std::{future::Future, pin::Pin};

use crate::{
    ledger::Settling,
    paywall::{
        refusal::{Problem, Requote},
        sale::{
            kept::Shown,
            reservation::Records,
            settle::{Outcome, Settled, Unsettled},
        },
        way::authorization::{
            judgement::{Conclusion, conclude},
            reserved::ReservedAuthorization,
        },
    },
    protocol::{Amount, TxHash, v2::SettleResponse},
};

/// A reserved authorization, and the new quote for the case that it is refused.
pub(super) struct ToSettle {
    pub(super) reserved: ReservedAuthorization,
    pub(super) requote: Requote,
}

impl Unsettled for ToSettle {
    fn record(&self) -> Settling {
        self.reserved.begun()
    }

    fn is_metered(&self) -> bool {
        false
    }

    fn settle<'a>(&'a self, _: Amount, records: &'a Records) -> Pin<Box<dyn Future<Output = Settled> + Send + 'a>> {
        Box::pin(self.reserved.settle(records))
    }

    fn conclude(&self, settled: Settled, begun: Option<&Settling>) -> Outcome {
        let reserved = &self.reserved;
        match conclude(settled, &reserved.case(begun), reserved.head()) {
            Conclusion::Sell(paid) => Outcome::Sell(paid),
            Conclusion::Prove(transaction) => Outcome::Refuse(reserved.to_prove(transaction).into()),
            Conclusion::Refuse(reason) => {
                Outcome::Refuse(self.requote.clone().refuse(reason, reserved.network(), Some(reserved.payer())))
            }
            Conclusion::Unknown(transaction) => Outcome::Unknown(reserved.outcome_unknown(transaction)),
        }
    }

    fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        self.reserved.outcome_unknown(transaction)
    }

    fn made(&self, transaction: TxHash) -> SettleResponse {
        self.reserved.pending(Some(transaction))
    }

    fn shown(&self) -> Shown {
        self.reserved.shown()
    }
}
