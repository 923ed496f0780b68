//! Decides the next step after a reply. Pure: values in, a value out.

use std::time::Duration;

use super::failing::Failing;
use crate::{
    client::{PurchaseState, dialect::SellerReply},
    protocol::{IntentId, ProblemCode},
};

/// How many fresh intents one conversation accepts. An honest seller needs one, or two if a price changes meanwhile.
pub(super) const RENEWALS_MAX: u32 = 3;

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This is the answer.
    Close(PurchaseState),
    Pause(Option<ProblemCode>, Option<Duration>),
    /// The seller failed without saying anything about the payment.
    Failed,
    NotConfirmed(Option<Duration>),
    /// Show the same payment with this intent.
    Renew(IntentId),
    /// Show the payment without its intent, to get a fresh one.
    AskIntent,
    /// Show the same with the payer's signature.
    Sign(ProblemCode),
    /// Show the same in the header.
    InHeader,
    /// The seller does not take an authorization, or no longer takes it. The chain decides.
    AskChain(Option<ProblemCode>, Option<IntentId>),
    Fail(Failing),
}

/// How a transfer was shown, and the results so far.
#[derive(Clone, Copy)]
pub(super) struct Presented {
    pub(super) in_body: bool,
    pub(super) signed: bool,
    pub(super) renewals: u32,
    pub(super) consumed: Consumed,
    /// Whether the transfer belongs to this purchase alone, and no call of this process got its answer.
    pub(super) may_be_unused: bool,
    /// Whether the answer was sold before and broke off.
    pub(super) broke_off: bool,
}

/// The progress after the seller says that the intent is consumed. A cached quote gives one intent to several payers:
/// another payment may have consumed it, and the seller then takes this transfer under a fresh intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumed {
    /// The seller has not said so. If it does, it is asked for a fresh intent.
    Unsaid,
    /// The transaction alone is being shown, to get a fresh intent.
    Asking,
    /// The seller gave a fresh intent, and is not asked again.
    Renewed,
}

/// Decides the next step after a reply to a transfer's proof.
pub(super) fn of_transfer(said: SellerReply, shown: Presented) -> Next {
    if shown.consumed == Consumed::Asking {
        return of_transaction(said, shown);
    }
    match said {
        SellerReply::Sold => Next::Close(PurchaseState::Answered),
        SellerReply::Declined => Next::Close(PurchaseState::Unspent),
        SellerReply::Failed => Next::Failed,
        SellerReply::Fresh(intent) if shown.renewals < RENEWALS_MAX => Next::Renew(intent),
        SellerReply::Fresh(_) => Next::Fail(Failing::TooManyIntents),
        SellerReply::NotConfirmed(after) => Next::NotConfirmed(after),
        SellerReply::Later(code, after) => Next::Pause(code, after),
        // Show the same proof in the header: a route may accept it only there.
        SellerReply::Elsewhere | SellerReply::Billed if shown.in_body => Next::InHeader,
        SellerReply::Billed => Next::Fail(Failing::BilledAgain),
        SellerReply::Redirected => Next::Fail(Failing::Redirected),
        SellerReply::Unproven(code) if shown.signed || code == ProblemCode::InvalidSignature => {
            Next::Fail(Failing::Unproven { code, signed: shown.signed })
        }
        SellerReply::Unproven(code) => Next::Sign(code),
        SellerReply::Refused(code) if shown.broke_off => Next::Fail(Failing::Lost(code)),
        SellerReply::Refused(ProblemCode::AlreadyConsumed)
            if shown.consumed == Consumed::Unsaid && shown.may_be_unused =>
        {
            Next::AskIntent
        }
        // This payment itself consumed the earlier intent.
        SellerReply::Refused(ProblemCode::TxAlreadyUsed) if shown.consumed == Consumed::Renewed => {
            Next::Fail(Failing::Refused(ProblemCode::AlreadyConsumed))
        }
        SellerReply::Refused(code) => Next::Fail(Failing::Refused(code)),
        SellerReply::Misunderstood | SellerReply::Elsewhere => Next::Fail(Failing::Misunderstood),
    }
}

/// Decides the next step after a reply to a transaction without its intent. Unless the reply has a fresh intent, the
/// earlier one counts as consumed.
fn of_transaction(said: SellerReply, shown: Presented) -> Next {
    match said {
        SellerReply::Sold => Next::Close(PurchaseState::Answered),
        SellerReply::Fresh(intent) if shown.renewals < RENEWALS_MAX => Next::Renew(intent),
        SellerReply::Failed => Next::Failed,
        SellerReply::NotConfirmed(after) => Next::NotConfirmed(after),
        SellerReply::Later(code, after) => Next::Pause(code, after),
        _ => Next::Fail(Failing::Refused(ProblemCode::AlreadyConsumed)),
    }
}

/// Decides the next step after a reply to an authorization, a permit or a voucher.
pub(super) fn of_authorization(said: SellerReply) -> Next {
    match said {
        SellerReply::Sold => Next::Close(PurchaseState::Answered),
        SellerReply::Declined => Next::Close(PurchaseState::Unspent),
        SellerReply::Later(code, after) => Next::Pause(code, after),
        SellerReply::NotConfirmed(after) => Next::Pause(Some(ProblemCode::TxNotConfirmed), after),
        SellerReply::Failed => Next::Failed,
        SellerReply::Refused(code) | SellerReply::Unproven(code) => Next::AskChain(Some(code), None),
        SellerReply::Fresh(intent) => Next::AskChain(None, Some(intent)),
        SellerReply::Misunderstood | SellerReply::Elsewhere | SellerReply::Billed | SellerReply::Redirected => {
            Next::AskChain(None, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Presented = Presented {
        in_body: false,
        signed: false,
        renewals: 0,
        consumed: Consumed::Unsaid,
        may_be_unused: true,
        broke_off: false,
    };
    const RENEWED: Presented = Presented { consumed: Consumed::Renewed, ..PLAIN };
    const ASKING: Presented = Presented { consumed: Consumed::Asking, ..PLAIN };
    const CODE: ProblemCode = ProblemCode::AlreadyConsumed;
    const USED: ProblemCode = ProblemCode::TxAlreadyUsed;
    const PROVE: ProblemCode = ProblemCode::PaymentBound;

    #[test]
    fn a_reply_to_a_transfer_asks_for_one_thing() {
        let fresh = || SellerReply::Fresh(IntentId::new("fresh").unwrap());
        let table = [
            (SellerReply::Billed, PLAIN, Next::Fail(Failing::BilledAgain)),
            (SellerReply::Billed, Presented { in_body: true, ..PLAIN }, Next::InHeader),
            (SellerReply::Elsewhere, Presented { in_body: true, ..PLAIN }, Next::InHeader),
            (SellerReply::Elsewhere, PLAIN, Next::Fail(Failing::Misunderstood)),
            (SellerReply::Refused(CODE), PLAIN, Next::AskIntent),
            (
                SellerReply::Refused(CODE),
                Presented { may_be_unused: false, ..PLAIN },
                Next::Fail(Failing::Refused(CODE)),
            ),
            (SellerReply::Refused(CODE), RENEWED, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Refused(USED), RENEWED, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Refused(CODE), ASKING, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Refused(USED), PLAIN, Next::Fail(Failing::Refused(USED))),
            (SellerReply::Billed, ASKING, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Declined, ASKING, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Unproven(PROVE), ASKING, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Failed, ASKING, Next::Failed),
            (fresh(), ASKING, Next::Renew(IntentId::new("fresh").unwrap())),
            (fresh(), Presented { renewals: RENEWALS_MAX, ..ASKING }, Next::Fail(Failing::Refused(CODE))),
            (SellerReply::Refused(CODE), Presented { broke_off: true, ..PLAIN }, Next::Fail(Failing::Lost(CODE))),
            (SellerReply::Unproven(PROVE), PLAIN, Next::Sign(PROVE)),
            (
                SellerReply::Unproven(PROVE),
                Presented { signed: true, ..PLAIN },
                Next::Fail(Failing::Unproven { code: PROVE, signed: true }),
            ),
            (
                SellerReply::Unproven(ProblemCode::InvalidSignature),
                PLAIN,
                Next::Fail(Failing::Unproven { code: ProblemCode::InvalidSignature, signed: false }),
            ),
            (fresh(), PLAIN, Next::Renew(IntentId::new("fresh").unwrap())),
            (fresh(), Presented { renewals: RENEWALS_MAX, ..PLAIN }, Next::Fail(Failing::TooManyIntents)),
        ];
        for (said, shown, next) in table {
            let context = format!("{said:?}");
            assert_eq!(of_transfer(said, shown), next, "{context}");
        }
    }

    /// No seller's reply ends an authorization: the chain is asked.
    #[test]
    fn no_reply_to_an_authorization_fails_by_itself() {
        let fresh = SellerReply::Fresh(IntentId::new("fresh").unwrap());
        for said in [
            SellerReply::Refused(CODE),
            SellerReply::Unproven(PROVE),
            SellerReply::Misunderstood,
            SellerReply::Elsewhere,
            SellerReply::Billed,
            SellerReply::Redirected,
            fresh,
        ] {
            let context = format!("{said:?}");
            assert!(matches!(of_authorization(said), Next::AskChain(..)), "{context}");
        }
    }
}
