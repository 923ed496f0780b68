//! The checks that every settler of permits passes: facilitators', and settlers that break one rule each.

use tower_x402::{
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TxHash,
        permit2::{Permit, PermitScheme},
        v2::Reason,
    },
    settle::{
        FacilitatorSettler, PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, TransactionRecorder,
        Validity, conformance,
    },
    verify::NonceState,
};

use super::{Facilitator, Market, facilitator::SIGNERS, settler};

/// A market, and what makes settlers on it.
struct On<S, F: Fn() -> S + Sync> {
    market: Market,
    make: F,
}

impl<S: PermitSettler, F: Fn() -> S + Sync> conformance::PermitHarness for On<S, F> {
    type Settler = S;

    async fn settler(&self) -> S {
        (self.make)()
    }

    fn token(&self) -> Asset {
        Asset::USDC_BASE
    }

    async fn now(&self) -> ChainTime {
        self.market.now()
    }

    async fn payer(&self, funds: Amount) -> Address {
        let units = u128::from_be_bytes(funds.to_be_bytes()[16..].try_into().unwrap());
        self.market.account(units)
    }

    async fn sign(&self, signer: Address, permit: &Permit) -> PaymentSignature {
        self.market.permit_signature_of(signer, permit)
    }

    async fn spend(&self, payer: Address) {
        self.market.empty(payer);
    }

    async fn balance(&self, owner: Address) -> Amount {
        self.market.balance(owner)
    }

    async fn is_used(&self, payer: Address, nonce: [u8; 32]) -> bool {
        self.market.nonce(payer, nonce) != NonceState::Unused
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_facilitator_settles_permits_by_the_rules() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let make = || -> FacilitatorSettler { settler(&[&facilitator]) };
    let report = conformance::run_permits(&On { market, make }).await.unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(report.passed.len(), conformance::PERMIT_CHECKS.len());
}

/// What is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    VerifiesAll,
    VerifiesNone,
    CallsUsedValid,
    ChargesWhileVerifying,
    ChargesTheMaximum,
    ChargesWhatItIsTold,
    CallsNothingSettled,
    TakesAnyOffer,
    SaysRefusedWhereUsed,
    SaysUnknownWhereRefused,
    SettlesTheVerifiedOnly,
    NamesNobody,
}

/// A settler over the market itself.
struct Direct {
    market: Market,
    wrong: Wrong,
    verified: std::sync::Mutex<Vec<[u8; 32]>>,
}

impl Direct {
    fn check(&self, payment: &PermitPayment, charge: Amount) -> Result<(), Reason> {
        let (permit, offered) = (&payment.permit.permit, &payment.requirements);
        let is_offered = permit.to == offered.pay_to()
            && permit.amount == offered.amount()
            && permit.token == offered.token()
            && permit.spender == offered.scheme().proxy()
            && permit.facilitator.is_none_or(|facilitator| facilitator == SIGNERS[0]);
        if !is_offered && self.wrong != Wrong::TakesAnyOffer {
            return Err(Reason::INVALID_PAYMENT_REQUIREMENTS);
        }
        self.market.simulate_permit(&payment.permit, charge).map_err(|word| word.parse().expect("one word"))
    }
}

impl PermitSettler for Direct {
    async fn permit_terms(
        &self,
        _: Network,
        _: Address,
        scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        let names = scheme == PermitScheme::UpTo && self.wrong != Wrong::NamesNobody;
        Ok(Some(PermitTerms::new(names.then_some(SIGNERS[0]))))
    }

    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        let amount = payment.permit.permit.amount;
        self.verified.lock().unwrap().push(payment.permit.permit.nonce);
        Ok(match self.check(payment, amount) {
            _ if self.wrong == Wrong::VerifiesAll => Validity::Valid,
            _ if self.wrong == Wrong::VerifiesNone => Validity::Refused(Reason::INVALID_PAYLOAD),
            Ok(()) => {
                if self.wrong == Wrong::ChargesWhileVerifying {
                    let _ = self.market.execute_permit(&payment.permit, amount);
                }
                Validity::Valid
            }
            Err(reason) if reason == Reason::PERMIT2_INVALID_NONCE => match self.wrong {
                Wrong::CallsUsedValid => Validity::Valid,
                _ => Validity::Used,
            },
            Err(reason) => Validity::Refused(reason),
        })
    }

    async fn settle_permit(&self, payment: &PermitPayment, charge: Amount, _: &TransactionRecorder) -> Settlement {
        let most = payment.permit.permit.amount;
        if self.wrong == Wrong::SettlesTheVerifiedOnly
            && !self.verified.lock().unwrap().contains(&payment.permit.permit.nonce)
        {
            return Settlement::Unknown(None);
        }
        if charge.is_zero() && self.wrong == Wrong::CallsNothingSettled {
            return Settlement::Settled(TxHash::new([7; 32]));
        }
        let is_allowed = match payment.scheme() {
            PermitScheme::Exact => charge == most,
            PermitScheme::UpTo => charge <= most && !charge.is_zero(),
        };
        if !is_allowed && self.wrong != Wrong::ChargesWhatItIsTold {
            return Settlement::Refused(Reason::PERMIT2_INVALID_AMOUNT);
        }
        let charge = if self.wrong == Wrong::ChargesTheMaximum { most } else { charge };
        match self.check(payment, charge) {
            Ok(()) => match self.market.execute_permit(&payment.permit, charge) {
                Ok(transaction) => Settlement::Settled(transaction),
                Err(_) => Settlement::Unknown(None),
            },
            Err(reason) if reason == Reason::PERMIT2_INVALID_NONCE => match self.wrong {
                Wrong::SaysRefusedWhereUsed => Settlement::Refused(reason),
                _ => Settlement::Unknown(None),
            },
            Err(_) if self.wrong == Wrong::SaysUnknownWhereRefused => Settlement::Unknown(None),
            Err(reason) => Settlement::Refused(reason),
        }
    }
}

async fn caught(wrong: Wrong) -> Vec<&'static str> {
    let market = Market::new();
    let make = || Direct { market: market.clone(), wrong, verified: std::sync::Mutex::default() };
    match conformance::run_permits(&On { market: market.clone(), make }).await {
        Ok(_) => Vec::new(),
        Err(violations) => violations.as_slice().iter().map(|violation| violation.check.name).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settler_of_permits_that_breaks_a_rule_is_caught_by_its_check() {
    assert_eq!(caught(Wrong::Nothing).await, [""; 0]);
    for (wrong, checks) in [
        (Wrong::VerifiesAll, &["another_signer", "tampered", "not_offered", "no_balance", "used_is_told"][..]),
        (Wrong::VerifiesNone, &["the_charge_to_the_unit", "verifying_charges_nothing", "balance_gone"]),
        (Wrong::CallsUsedValid, &["used_is_told"]),
        (Wrong::ChargesWhileVerifying, &["verifying_charges_nothing", "the_charge_to_the_unit"]),
        (Wrong::ChargesTheMaximum, &["the_charge_to_the_unit", "without_verifying", "again"]),
        (Wrong::ChargesWhatItIsTold, &["a_charge_beyond_what_was_signed"]),
        (Wrong::CallsNothingSettled, &["a_charge_beyond_what_was_signed"]),
        (Wrong::TakesAnyOffer, &["not_offered"]),
        (Wrong::SaysRefusedWhereUsed, &["again", "at_once"]),
        (Wrong::SaysUnknownWhereRefused, &["another_signer", "balance_gone"]),
        (Wrong::SettlesTheVerifiedOnly, &["without_verifying"]),
        (Wrong::NamesNobody, &["the_charge_to_the_unit"]),
    ] {
        let caught = caught(wrong).await;
        for check in checks {
            assert!(caught.contains(check), "{wrong:?} passed {check}; it was caught by {caught:?}");
        }
    }
}
