//! Determines the charge of a permit: the seller states it, and the chain confirms it.
//!
//! The budget holds the signed maximum until the chain has confirmed a smaller charge. Otherwise a seller that states a
//! small charge and takes the maximum would be paid past every limit.

use std::time::Duration;

use http::response::Parts;
use tokio::time::timeout;

use crate::{
    client::{
        AuthorizationStatus, JournalEntry, PermitCharge, PreparedPermit,
        dialect::reply::{self, StatedCharge},
        inner::ClientInner,
        way::status::status,
    },
    protocol::{Amount, TxHash},
};

/// How long an answer, or the next purchase, waits for the chain.
const PATIENCE: Duration = Duration::from_secs(2);

/// The charge, and whether the seller's statement is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(crate) charge: PermitCharge,
    pub(crate) is_plausible: bool,
}

/// Reads the charge that an answer states, and asks the chain to confirm it; returns `None` for a payment of a fixed
/// amount.
pub(crate) async fn read(inner: &ClientInner, entry: &JournalEntry, answer: &Parts) -> Option<Charged> {
    let permitted = entry.permitted().filter(|permitted| permitted.signed.permit.facilitator.is_some())?;
    let stated = judge(reply::stated_charge(&answer.headers), permitted.signed.permit.amount);
    let transaction = reply::settled_by(answer).filter(|_| stated.is_plausible && !stated.charge.amount.is_zero());
    let Some(transaction) = transaction else { return Some(stated) };
    Some(timeout(PATIENCE, confirm(inner, permitted, transaction, stated)).await.unwrap_or(stated))
}

/// Judges a statement by itself.
fn judge(stated: StatedCharge, maximum: Amount) -> Charged {
    let (amount, is_plausible) = match stated {
        StatedCharge::Amount(amount) if amount <= maximum => (amount, true),
        StatedCharge::Nothing => (maximum, true),
        StatedCharge::Amount(_) | StatedCharge::Unreadable => (maximum, false),
    };
    Charged { charge: PermitCharge { amount, is_certain: false }, is_plausible }
}

/// Asks the chain how much this transaction charged.
async fn confirm(inner: &ClientInner, permitted: &PreparedPermit, transaction: TxHash, stated: Charged) -> Charged {
    let Ok(signer) = inner.permit_signer() else { return stated };
    match signer.permit_charge(permitted, transaction).await {
        Ok(Some(amount)) => {
            Charged { charge: PermitCharge { amount, is_certain: true }, is_plausible: amount == stated.charge.amount }
        }
        Ok(None) => stated,
        Err(error) => {
            tracing::debug!(%error, %transaction, "the chain does not say what was charged of a permit");
            stated
        }
    }
}

/// Checks earlier charges again that the chain had not confirmed when their answers came. Those that it confirms count
/// from now on.
pub(crate) async fn confirm_earlier(inner: &ClientInner) {
    let confirming = async {
        for entry in inner.registry.unconfirmed_charges() {
            if let Some(charge) = confirmed(inner, &entry).await {
                if entry.charge().is_some_and(|stated| stated < charge.amount) {
                    tracing::warn!(purchase = %entry.id, "the chain shows a higher charge than the seller stated: nothing more is paid to it");
                    inner.registry.distrust(&entry.host, &inner.budget);
                }
                inner.registry.confirm_charge(JournalEntry { charged: Some(charge), ..entry }).await;
            }
        }
    };
    let _ = timeout(PATIENCE, confirming).await;
}

/// Returns the charge of a finished purchase, if the chain shows it.
async fn confirmed(inner: &ClientInner, entry: &JournalEntry) -> Option<PermitCharge> {
    let permitted = entry.permitted()?;
    if let Some(transaction) = entry.transaction {
        let amount = inner.permit_signer().ok()?.permit_charge(permitted, transaction).await.ok()??;
        return Some(PermitCharge { amount, is_certain: true });
    }
    let is_void = matches!(status(inner, entry).await, Ok(AuthorizationStatus::Void));
    is_void.then_some(PermitCharge::NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_counts_up_to_the_maximum() {
        let units = Amount::from_base_units;
        for (stated, amount, is_plausible) in [
            (StatedCharge::Amount(units(0)), 0, true),
            (StatedCharge::Amount(units(7)), 7, true),
            (StatedCharge::Amount(units(10)), 10, true),
            (StatedCharge::Amount(units(11)), 10, false),
            (StatedCharge::Amount(Amount::MAX), 10, false),
            (StatedCharge::Unreadable, 10, false),
            (StatedCharge::Nothing, 10, true),
        ] {
            let charged = judge(stated, units(10));
            let expected = PermitCharge { amount: units(amount), is_certain: false };
            assert_eq!((charged.charge, charged.is_plausible), (expected, is_plausible), "{stated:?}");
        }
    }
}
