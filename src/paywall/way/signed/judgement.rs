//! Decides what to do with a signed payment, from what the chain and the ledger say about it. Plain functions of values.

use std::time::Duration;

use crate::{
    ledger::Settling,
    paywall::sale::settle::{Settled, is_of},
    protocol::{ChainTime, Payment, TxHash, v2::Reason},
};

/// What is known about a payment before the handler runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It can be settled.
    Valid,
    /// It is not settled and cannot be.
    Refused(Reason),
    /// Its nonce was used for something else: the payment was cancelled, or made to another recipient.
    Spent,
    /// Its nonce was used, and nothing shows by what.
    UsedUntold,
    /// Its nonce was used in this transaction, in which its payer paid here by transfers that do not name it.
    PaidOtherwise(TxHash),
    /// It was settled before, as this payment.
    Settled(Payment),
    /// It was settled before, and is not deep enough in the chain yet.
    Pending(Duration),
    /// It was settled before, and is older than the greatest age of payments.
    TooOld,
    /// The settler or the chain did not answer.
    Unavailable,
}

/// How a payment is shown, and what is known about it apart from the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Whether it names a quote. Only the payer knows the quote's intent, and the quote's date tells where the search of the chain begins.
    pub(crate) quoted: bool,
    /// Whether its quote covers this request.
    pub(crate) honoured: bool,
    /// Whether the handler sets the charge: a payment that was charged for one request buys no other.
    pub(crate) metered: bool,
    /// Whether it is settled before the handler runs.
    pub(crate) first: bool,
    /// Whether anything reads the chain.
    pub(crate) read: bool,
    /// Whether it can no longer be settled, by the chain's head and by the clock. False where nothing reads the chain.
    pub(crate) over: bool,
    /// Whether nothing reads the chain, and the payment expired so long ago that the ledger may have forgotten its outcome.
    pub(crate) forgotten: bool,
    /// The digest of this request.
    pub(crate) request: [u8; 16],
    /// The earliest time at which a settlement that begins now can be mined, by the head and the clock.
    pub(crate) from: ChainTime,
    /// The settlement that was begun for this intent before.
    pub(crate) begun: Option<Settling>,
}

impl Case {
    /// Returns whether a settlement was begun with the charge of another request.
    fn is_charged_for_another(&self) -> bool {
        self.metered && self.begun.is_some_and(|begun| begun.request != self.request)
    }
}

/// What to do before the handler runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Run the handler, then settle it.
    Settle,
    /// Run the handler: the payment is settled already, under this intent.
    Resume(Payment),
    /// Demand the payer's signature: anyone who reads the chain could show this payment.
    Prove(TxHash),
    /// Have it redeemed under a fresh intent.
    Elsewhere,
    /// Let the payer sign anew: this payment was certainly not used to pay here.
    Refuse(Reason),
    /// Have it shown again after this time.
    Wait(Duration),
    TooOld,
    /// It may have been settled here, or may still be: have it shown again.
    Unknown,
    /// It may have been settled here, and only a person can find out.
    UsedUntold,
    /// Nothing was begun: have it shown again.
    Unavailable,
}

/// What to do after the settler was asked to settle the payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Sell the answer for this payment.
    Sell(Payment),
    Prove(TxHash),
    Refuse(Reason),
    /// Withhold the answer, and have the payment shown again.
    Unknown(Option<TxHash>),
}

/// Decides what to do before the handler runs.
pub(crate) fn judge(found: Found, case: &Case) -> Judgement {
    match found {
        // If it is settled before there is an answer, only a quote could prove later who paid.
        Found::Valid if !case.quoted && case.first && !case.read => match case.begun {
            None => Judgement::Refuse(Reason::INVALID_PAYMENT_REQUIREMENTS),
            Some(_) => Judgement::Unknown,
        },
        // Without a quote, the whole proof is public once it is sent, so its presenter may be a stranger. Once the
        // payment is mined, or has expired, the payer gets the next step. Without a verifier neither is ever known, and
        // the settler decides.
        Found::Valid if !case.quoted && case.begun.is_some_and(|begun| case.read || begun.transaction.is_some()) => {
            Judgement::Unknown
        }
        // Its transaction may be on its way, with the charge of another request.
        Found::Valid if case.is_charged_for_another() => Judgement::Unknown,
        Found::Valid => Judgement::Settle,
        Found::Settled(paid) => judge_settled(paid, case),
        Found::Refused(_) if case.forgotten && case.begun.is_none() => Judgement::TooOld,
        // An earlier transaction for it may still be mined, until the authorization expires.
        Found::Refused(reason) if case.begun.is_none() || case.over => Judgement::Refuse(reason),
        // Without a quote, it may have paid here before the time that was searched.
        Found::Spent if !case.quoted => Judgement::Elsewhere,
        Found::Spent => Judgement::Refuse(Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED),
        Found::UsedUntold => Judgement::UsedUntold,
        Found::PaidOtherwise(transaction) => Judgement::Prove(transaction),
        Found::Pending(wait) => Judgement::Wait(wait),
        Found::TooOld => Judgement::TooOld,
        Found::Refused(_) | Found::Unavailable if case.begun.is_some() => Judgement::Unknown,
        Found::Refused(_) | Found::Unavailable => Judgement::Unavailable,
    }
}

/// Decides about a payment that is settled and has bought nothing yet. Its authorization is public.
fn judge_settled(paid: Payment, case: &Case) -> Judgement {
    let prove = || paid.transaction().map_or(Judgement::Unknown, Judgement::Prove);
    // Without a quote, everything that is shown is public.
    let Some(begun) = case.begun.filter(|_| case.quoted) else {
        return match case.quoted && !case.honoured {
            true => Judgement::Elsewhere,
            false => prove(),
        };
    };
    if !case.honoured && begun.request != case.request || case.is_charged_for_another() {
        return Judgement::Elsewhere;
    }
    match is_of(paid.transaction(), paid.time(), &begun) {
        true => Judgement::Resume(paid),
        false => prove(),
    }
}

/// Decides after the settler was asked. `case` holds the record that stood before, and `head` is the head under which it was settled now.
pub(crate) fn conclude(settled: Settled, case: &Case, head: ChainTime) -> Conclusion {
    let begun = case.begun.unwrap_or(Settling::new(case.request, case.from));
    match settled {
        // The settler reports that it made this transaction. Then the clock, which may be wrong, does not count.
        Settled::Named(paid) if paid.time() >= head => Conclusion::Sell(paid),
        Settled::Named(paid) | Settled::Done(paid) => {
            match (is_of(paid.transaction(), paid.time(), &begun), paid.transaction()) {
                (true, _) => Conclusion::Sell(paid),
                (false, Some(transaction)) => Conclusion::Prove(transaction),
                (false, None) => Conclusion::Unknown(None),
            }
        }
        Settled::Spent if case.quoted => Conclusion::Refuse(Reason::INVALID_TRANSACTION_STATE),
        // Its transaction may still be mined, or be sent again by others.
        Settled::Refused(reason) if case.begun.is_none() => Conclusion::Refuse(reason),
        Settled::Refused(_) | Settled::Spent => Conclusion::Unknown(None),
        Settled::Unknown(transaction) => Conclusion::Unknown(transaction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Network, Transfer};

    const HEAD: ChainTime = ChainTime::from_unix(1_000);
    const THIS: [u8; 16] = [1; 16];
    const OTHER: [u8; 16] = [2; 16];
    const TX: TxHash = TxHash::new([7; 32]);

    fn mined(time: u64) -> Transfer {
        Transfer::new(Network::BASE, TX, 0).with_block(1, ChainTime::from_unix(time))
    }

    fn begun(request: [u8; 16]) -> Option<Settling> {
        Some(Settling::new(request, HEAD))
    }

    fn case(quoted: bool, honoured: bool, begun: Option<Settling>) -> Case {
        Case {
            quoted,
            honoured,
            metered: false,
            first: false,
            read: true,
            over: false,
            forgotten: false,
            request: THIS,
            from: HEAD,
            begun,
        }
    }

    #[test]
    fn a_settled_payment_resumes_what_it_was_settled_for_and_nothing_else() {
        let sent = begun(OTHER).map(|begun| begun.with_transaction(TX));
        let resume = |transfer: Transfer| Judgement::Resume(transfer.into());
        let prove = |transfer: Transfer| Judgement::Prove(transfer.transaction);
        for (quoted, honoured, begun, time, expected) in [
            (true, true, begun(THIS), 1_001, resume(mined(1_001))),
            // In the second of its beginning, as on chains with several blocks a second.
            (true, true, begun(THIS), 1_000, resume(mined(1_000))),
            // Settled by others before.
            (true, true, begun(THIS), 999, prove(mined(999))),
            // Unless it is the transaction that was recorded.
            (true, true, sent, 999, resume(mined(999))),
            // For another request that the quote covers, and one that it does not.
            (true, true, begun(OTHER), 1_001, resume(mined(1_001))),
            (true, false, begun(OTHER), 1_001, Judgement::Elsewhere),
            (true, false, sent, 1_001, Judgement::Elsewhere),
            // For this very request, at a price that has risen since.
            (true, false, begun(THIS), 1_001, resume(mined(1_001))),
            // Never begun here.
            (true, true, None, 1_001, prove(mined(1_001))),
            (true, false, None, 1_001, Judgement::Elsewhere),
            // Without a quote, everything that is shown is public.
            (false, true, begun(THIS), 1_001, prove(mined(1_001))),
            (false, false, begun(THIS), 1_001, prove(mined(1_001))),
            (false, true, None, 1_001, prove(mined(1_001))),
        ] {
            let case = case(quoted, honoured, begun);
            assert_eq!(judge(Found::Settled(mined(time).into()), &case), expected, "{case:?}");
        }
    }

    #[test]
    fn what_was_charged_for_one_request_buys_no_other() {
        let sent = |request| begun(request).map(|begun| begun.with_transaction(TX));
        let metered = |begun| Case { metered: true, ..case(true, true, begun) };
        let settled = || Found::Settled(mined(1_001).into());
        for (begun, before, after) in [
            (begun(THIS), Judgement::Settle, Judgement::Resume(mined(1_001).into())),
            (sent(THIS), Judgement::Settle, Judgement::Resume(mined(1_001).into())),
            (begun(OTHER), Judgement::Unknown, Judgement::Elsewhere),
            (sent(OTHER), Judgement::Unknown, Judgement::Elsewhere),
            (None, Judgement::Settle, Judgement::Prove(TX)),
        ] {
            assert_eq!(judge(Found::Valid, &metered(begun)), before, "{begun:?}");
            assert_eq!(judge(settled(), &metered(begun)), after, "{begun:?}");
        }
    }

    #[test]
    fn a_payer_signs_anew_only_where_nothing_can_be_mined_any_more() {
        let (poor, used) = (Reason::INSUFFICIENT_FUNDS, Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED);
        let wait = Duration::from_secs(2);
        let sent = begun(THIS).map(|begun| begun.with_transaction(TX));
        for (found, quoted, begun, over, expected) in [
            (Found::Valid, true, None, false, Judgement::Settle),
            (Found::Valid, true, begun(THIS), false, Judgement::Settle),
            (Found::Valid, true, sent, false, Judgement::Settle),
            // Without a quote, it is public once it is sent: a copy must not settle it again.
            (Found::Valid, false, None, false, Judgement::Settle),
            (Found::Valid, false, begun(THIS), false, Judgement::Unknown),
            (Found::Valid, false, sent, false, Judgement::Unknown),
            (Found::Refused(poor.clone()), true, None, false, Judgement::Refuse(poor.clone())),
            (Found::Refused(poor.clone()), true, begun(THIS), false, Judgement::Unknown),
            (Found::Refused(poor.clone()), true, begun(THIS), true, Judgement::Refuse(poor)),
            (Found::Spent, true, None, false, Judgement::Refuse(used.clone())),
            (Found::Spent, true, begun(THIS), false, Judgement::Refuse(used)),
            (Found::Spent, false, begun(THIS), false, Judgement::Elsewhere),
            (Found::Spent, false, None, false, Judgement::Elsewhere),
            // Whatever else is known, the payer must not sign anew.
            (Found::UsedUntold, true, None, true, Judgement::UsedUntold),
            (Found::UsedUntold, true, sent, true, Judgement::UsedUntold),
            (Found::UsedUntold, false, None, false, Judgement::UsedUntold),
            (Found::Pending(wait), true, None, false, Judgement::Wait(wait)),
            (Found::TooOld, true, begun(THIS), false, Judgement::TooOld),
            (Found::Unavailable, true, None, false, Judgement::Unavailable),
            (Found::Unavailable, true, begun(THIS), true, Judgement::Unknown),
        ] {
            let case = Case { over, ..case(quoted, true, begun) };
            assert_eq!(judge(found.clone(), &case), expected, "{found:?} {case:?}");
        }
        // Where nothing reads the chain, only the settler can end it.
        let unread = |begun| Case { read: false, ..case(false, true, begun) };
        assert_eq!(judge(Found::Valid, &unread(begun(THIS))), Judgement::Settle);
        assert_eq!(judge(Found::Valid, &unread(sent)), Judgement::Unknown);
        // The ledger may have forgotten its outcome.
        for forgotten in [false, true] {
            let reason = Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALID_BEFORE;
            let expected = if forgotten { Judgement::TooOld } else { Judgement::Refuse(reason.clone()) };
            assert_eq!(judge(Found::Refused(reason), &Case { forgotten, ..unread(None) }), expected);
        }
        // The payer of an unquoted payment that is settled first could not prove it later.
        let first = |begun| Case { first: true, ..unread(begun) };
        let refused = Judgement::Refuse(Reason::INVALID_PAYMENT_REQUIREMENTS);
        assert_eq!(judge(Found::Valid, &first(None)), refused);
        assert_eq!(judge(Found::Valid, &first(begun(THIS))), Judgement::Unknown);
        assert_eq!(judge(Found::Valid, &Case { quoted: true, ..first(None) }), Judgement::Settle);
    }

    #[test]
    fn what_settling_came_to_is_sold_refused_or_left_open() {
        let (poor, over) = (Reason::INSUFFICIENT_FUNDS, Reason::INVALID_TRANSACTION_STATE);
        for (settled, quoted, begun, expected) in [
            (Settled::Done(mined(1_000).into()), true, None, Conclusion::Sell(mined(1_000).into())),
            (Settled::Done(mined(999).into()), true, None, Conclusion::Prove(TX)),
            (Settled::Done(mined(999).into()), false, begun(THIS), Conclusion::Prove(TX)),
            (Settled::Refused(poor.clone()), true, None, Conclusion::Refuse(poor.clone())),
            (Settled::Refused(poor), true, begun(THIS), Conclusion::Unknown(None)),
            (Settled::Spent, true, begun(THIS), Conclusion::Refuse(over)),
            (Settled::Spent, false, None, Conclusion::Unknown(None)),
            (Settled::Unknown(Some(TX)), true, None, Conclusion::Unknown(Some(TX))),
        ] {
            let case = case(quoted, true, begun);
            assert_eq!(conclude(settled.clone(), &case, HEAD), expected, "{settled:?} {case:?}");
        }
        // Resumed: begun a while ago, and settled since.
        let since = Settling::new(THIS, ChainTime::from_unix(900));
        let case = case(true, true, Some(since));
        assert_eq!(conclude(Settled::Done(mined(950).into()), &case, HEAD), Conclusion::Sell(mined(950).into()));
    }

    #[test]
    fn a_node_that_is_behind_sells_nothing_that_was_mined_before_by_the_clock() {
        // The clock is a minute ahead of the node.
        let behind = |begun| Case { from: ChainTime::from_unix(1_060), ..case(true, true, begun) };
        for (time, sold) in [(1_059, false), (1_060, true)] {
            let expected = if sold { Conclusion::Sell(mined(time).into()) } else { Conclusion::Prove(TX) };
            assert_eq!(conclude(Settled::Done(mined(time).into()), &behind(None), HEAD), expected);
        }
        // The settler names its own transaction, independent of the clock, unless the node knew of it before.
        for (time, begun, sold) in [(1_000, None, true), (999, None, false), (1_001, begun(THIS), true)] {
            let expected = if sold { Conclusion::Sell(mined(time).into()) } else { Conclusion::Prove(TX) };
            assert_eq!(conclude(Settled::Named(mined(time).into()), &behind(begun), HEAD), expected);
        }
        let earlier = Some(Settling::new(THIS, ChainTime::from_unix(900)));
        assert_eq!(
            conclude(Settled::Named(mined(900).into()), &behind(earlier), HEAD),
            Conclusion::Sell(mined(900).into())
        );
    }
}
