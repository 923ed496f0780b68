//! The conformance suite finds what is wrong: each of these settlers breaks one rule.

use tower_x402::{
    protocol::{Address, Network, TokenDomain, TxHash, v2::Reason},
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity, conformance},
    verify::NonceState,
};

use super::{Market, suite::On};

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    VerifiesAll,
    VerifiesNone,
    CallsUsedRefused,
    CallsUsedValid,
    SettlesWhileVerifying,
    SettlesAnotherValue,
    SettlesAnotherRecipient,
    InventsHashes,
    SaysSettledAlways,
    SaysRefusedWhereUsed,
    SaysUnknownWhereRefused,
    SettlesTheVerifiedOnly,
    KnowsNoDomain,
    Ill,
}

/// A settler over the market itself.
struct Direct {
    market: Market,
    wrong: Wrong,
    verified: std::sync::Mutex<Vec<[u8; 32]>>,
}

impl Direct {
    fn check(&self, payment: &SignedPayment) -> Result<(), Reason> {
        let (signed, offered) = (&payment.authorization.authorization, &payment.requirements);
        if signed.value != offered.amount && self.wrong != Wrong::SettlesAnotherValue {
            return Err(Reason::INVALID_EXACT_EVM_PAYLOAD_AUTHORIZATION_VALUE_MISMATCH);
        }
        if signed.to != offered.pay_to && self.wrong != Wrong::SettlesAnotherRecipient {
            return Err(Reason::INVALID_EXACT_EVM_PAYLOAD_RECIPIENT_MISMATCH);
        }
        self.market.simulate(&payment.authorization).map_err(|word| word.parse().expect("one word"))
    }

    fn used_by(&self, payment: &SignedPayment) -> NonceState {
        let signed = &payment.authorization.authorization;
        self.market.nonce(signed.from, signed.nonce)
    }
}

impl Settler for Direct {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        let known = TokenDomain::usdc_of(network).filter(|domain| domain.token == token && network == Network::BASE);
        match self.wrong {
            Wrong::KnowsNoDomain => Ok(None),
            _ => Ok(known.and(stated.cloned())),
        }
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        let checked = self.check(payment);
        if self.wrong == Wrong::SettlesWhileVerifying && checked.is_ok() {
            let _ = self.market.execute(&payment.authorization);
        }
        if checked.is_ok() {
            self.verified.lock().unwrap().push(payment.authorization.authorization.nonce);
        }
        Ok(match (checked, self.used_by(payment), self.wrong) {
            (_, _, Wrong::VerifiesAll) => Validity::Valid,
            (_, _, Wrong::VerifiesNone) => Validity::Refused(Reason::INSUFFICIENT_FUNDS),
            (Ok(()), ..) => Validity::Valid,
            (Err(_), NonceState::Unused, _) => Validity::Refused(Reason::INVALID_PAYLOAD),
            (Err(reason), _, Wrong::CallsUsedRefused) => Validity::Refused(reason),
            (Err(_), _, Wrong::CallsUsedValid) => Validity::Valid,
            (Err(_), ..) => Validity::Used,
        })
    }

    async fn settle(&self, payment: &SignedPayment, _recorder: &TransactionRecorder) -> Settlement {
        let nonce = payment.authorization.authorization.nonce;
        if self.wrong == Wrong::SettlesTheVerifiedOnly && !self.verified.lock().unwrap().contains(&nonce) {
            return Settlement::Refused(Reason::INVALID_PAYLOAD);
        }
        let settled = self
            .check(payment)
            .and_then(|()| self.market.execute(&payment.authorization).map_err(|_| Reason::INVALID_TRANSACTION_STATE));
        match (settled, self.used_by(payment), self.wrong) {
            (Ok(_), _, Wrong::InventsHashes) => Settlement::Settled(TxHash::new([0xee; 32])),
            (Ok(transaction), ..) => Settlement::Settled(transaction),
            (_, _, Wrong::SaysSettledAlways) => Settlement::Settled(TxHash::new([0xee; 32])),
            (Err(reason), _, Wrong::SaysRefusedWhereUsed) => Settlement::Refused(reason),
            (_, _, Wrong::SaysUnknownWhereRefused) => Settlement::Unknown(None),
            (Err(_), NonceState::Used(transaction), _) => Settlement::Unknown(Some(transaction)),
            (Err(reason), ..) => Settlement::Refused(reason),
        }
    }

    async fn health(&self) -> Result<(), SettleError> {
        if self.wrong == Wrong::Ill { Err(SettleError::unavailable()) } else { Ok(()) }
    }
}

/// The names of the checks that fail.
async fn found(wrong: Wrong) -> Vec<&'static str> {
    let make = |market: &Market| Direct { market: market.clone(), wrong, verified: Default::default() };
    match conformance::run(&On(Market::new(), make)).await {
        Ok(_) => Vec::new(),
        Err(violations) => violations.as_slice().iter().map(|violation| violation.check.name).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_rule_is_found() {
    assert_eq!(found(Wrong::Nothing).await, Vec::<&str>::new());
    for (wrong, check) in [
        (Wrong::VerifiesAll, "another_signer"),
        (Wrong::VerifiesAll, "expired"),
        (Wrong::VerifiesAll, "no_balance"),
        (Wrong::VerifiesNone, "verified_is_settled"),
        (Wrong::CallsUsedRefused, "used_is_told"),
        (Wrong::CallsUsedRefused, "cancelled"),
        (Wrong::CallsUsedValid, "elsewhere"),
        (Wrong::SettlesWhileVerifying, "verifying_sends_nothing"),
        (Wrong::SettlesAnotherValue, "less_than_the_price"),
        (Wrong::SettlesAnotherValue, "more_than_the_price"),
        (Wrong::SettlesAnotherRecipient, "another_recipient"),
        (Wrong::InventsHashes, "verified_is_settled"),
        (Wrong::SaysSettledAlways, "cancelled_after_verifying"),
        (Wrong::SaysSettledAlways, "balance_gone"),
        (Wrong::SaysRefusedWhereUsed, "settled_twice"),
        (Wrong::SaysRefusedWhereUsed, "settled_at_once"),
        (Wrong::SaysRefusedWhereUsed, "by_a_stranger"),
        (Wrong::SaysUnknownWhereRefused, "tampered"),
        (Wrong::SettlesTheVerifiedOnly, "without_verifying"),
        (Wrong::KnowsNoDomain, "the_domain_is_the_tokens"),
        (Wrong::Ill, "healthy"),
    ] {
        let found = found(wrong).await;
        assert!(found.contains(&check), "{wrong:?} breaks {check}, and this was found: {found:?}");
    }
}
