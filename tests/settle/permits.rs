//! Permits, settled by facilitators: what they are asked, and every way in which they fail or lie about a charge.

use std::time::Duration;

use serde_json::json;
use tower_x402::{
    protocol::{
        Address, Amount, Asset, ChainTime, Network, TxHash,
        permit2::{Permit, PermitScheme, SignedPermit},
        v2::{FacilitatorRequest, PaymentRequirements, Reason, SchemePayload, UpToRequirements},
    },
    settle::{
        PermitPayment, PermitSettler as _, PermitTerms, SettleError, SettleErrorKind, Settlement, TransactionRecorder,
        Validity,
    },
    verify::NonceState,
};

use super::{Facilitator, Fault, Market, PATIENCE, PRICE, SELLER, builder, facilitator::SIGNERS, settler};

/// What an answer costs, of the price that is allowed.
const CHARGE: u128 = 1_858;
/// Short, for what never ends. Nothing else depends on it.
const SOON: Duration = Duration::from_millis(400);

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

/// A permit of a new payer who has twice what it allows.
fn permit(market: &Market, scheme: PermitScheme) -> PermitPayment {
    let now = market.now();
    let permit = Permit::new(scheme, market.account(2 * PRICE), market.fresh())
        .paying(SELLER, Asset::USDC_BASE.contract(), units(PRICE))
        .by_facilitator(SIGNERS[1])
        .valid_between(ChainTime::from_unix(0), now.after(Duration::from_secs(3_600)));
    signed(market, permit)
}

fn signed(market: &Market, permit: Permit) -> PermitPayment {
    let signature = market.permit_signature(&permit);
    let (token, most) = (&Asset::USDC_BASE, units(PRICE));
    let scheme = permit.scheme();
    let signed = SignedPermit::new(permit, signature);
    match scheme {
        PermitScheme::Exact => {
            PermitPayment::new(signed, PaymentRequirements::new(token, most, SELLER, 300).by_permit2())
        }
        PermitScheme::UpTo => {
            let required = UpToRequirements::new(token, most, SELLER, 300);
            PermitPayment::new(signed, required.with_facilitator(SIGNERS[0]))
        }
    }
}

fn used(market: &Market, payment: &PermitPayment) -> Option<TxHash> {
    match market.nonce(payment.permit.permit.from, payment.permit.permit.nonce) {
        NonceState::Used(transaction) => Some(transaction),
        _ => None,
    }
}

#[tokio::test]
async fn the_maximum_is_verified_and_the_charge_is_settled() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let none = TransactionRecorder::none();
    let mut received = 0;
    for (scheme, charge) in [(PermitScheme::UpTo, CHARGE), (PermitScheme::Exact, PRICE)] {
        let payment = permit(&market, scheme);
        assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Valid));
        let settlement = settler.settle_permit(&payment, units(charge), &none).await;
        received += charge;
        assert_eq!(settlement, Settlement::Settled(used(&market, &payment).unwrap()));
        assert_eq!(market.balance(SELLER), units(received));
        for (action, amount) in [("verify", PRICE), ("settle", charge)] {
            let seen = facilitator.seen(action).pop().unwrap();
            let request = FacilitatorRequest::from_json(&seen.body).unwrap();
            let required = serde_json::to_value(&request.payment_requirements).unwrap();
            assert_eq!((&required["amount"], &required["scheme"]), (&json!(amount.to_string()), &json!(scheme.name())));
            // What the payer accepted stays as it was.
            let accepted = serde_json::to_value(&request.payment_payload.accepted).unwrap();
            assert_eq!(accepted["amount"], json!(PRICE.to_string()));
            assert_eq!(request.payment_payload.payload, SchemePayload::Permit(payment.permit.clone()));
        }
        assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Used));
        assert_eq!(settler.settle_permit(&payment, units(charge), &none).await, Settlement::Unknown(None));
    }
    assert_eq!(market.balance(SELLER), units(received));
}

#[tokio::test]
async fn each_of_a_facilitators_accounts_may_settle() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let (network, token) = (Network::BASE, Asset::USDC_BASE.contract());
    let terms = settler.permit_terms(network, token, PermitScheme::UpTo).await;
    assert_eq!(terms, Ok(Some(PermitTerms::new(SIGNERS))));
    assert_eq!(settler.permit_terms(network, token, PermitScheme::Exact).await, Ok(Some(PermitTerms::default())));
    let elsewhere = settler.permit_terms(Network::BASE_SEPOLIA, token, PermitScheme::UpTo).await;
    let wrong = SettleErrorKind::WrongChain { network: Network::BASE_SEPOLIA };
    assert_eq!(elsewhere, Err(SettleError::new(wrong)));
    let payment = permit(&market, PermitScheme::UpTo);
    let by = |facilitator: Address| signed(&market, payment.permit.permit.clone().by_facilitator(facilitator));
    for signer in SIGNERS {
        assert_eq!(settler.verify_permit(&by(signer)).await, Ok(Validity::Valid));
    }
    let refused = Validity::Refused(Reason::UPTO_FACILITATOR_MISMATCH);
    assert_eq!(settler.verify_permit(&by(payment.permit.permit.from)).await, Ok(refused));
}

#[tokio::test]
async fn a_charge_that_was_not_allowed_is_not_even_asked_for() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let none = TransactionRecorder::none();
    for (scheme, charges) in
        [(PermitScheme::UpTo, &[0, PRICE + 1][..]), (PermitScheme::Exact, &[0, PRICE - 1, PRICE + 1])]
    {
        let payment = permit(&market, scheme);
        for charge in charges {
            let settlement = settler.settle_permit(&payment, units(*charge), &none).await;
            assert!(matches!(settlement, Settlement::Refused(_)), "{scheme:?} {charge}: {settlement:?}");
        }
        let mut cheap = payment.permit.permit.clone();
        cheap.amount = units(PRICE - 1);
        let cheap = signed(&market, cheap);
        assert_eq!(settler.verify_permit(&cheap).await, Ok(Validity::Refused(Reason::PERMIT2_AMOUNT_MISMATCH)));
        assert!(matches!(settler.settle_permit(&cheap, units(1), &none).await, Settlement::Refused(_)));
    }
    assert_eq!(facilitator.calls("verify") + facilitator.calls("settle"), 0);
}

/// A payer is charged at most once, a charge is never called a refusal, and another amount is never called the charge.
#[tokio::test]
async fn what_settling_meets_with() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Outcome {
        Settled,
        Refused,
        Unknown,
        UnknownNamed,
    }
    use Outcome::{Refused, Settled, Unknown, UnknownNamed};
    let market = Market::new();
    let failed = |word: &str| {
        Fault::Says(json!({ "success": false, "errorReason": word, "transaction": "", "network": "eip155:8453" }))
    };
    let changed = Fault::Changed;
    let stranger = market.account(0).to_string();
    // The fault, what is said, whether the money has moved.
    let table = [
        (Fault::ResetBefore, Unknown, false),
        (Fault::ResetAfter, Unknown, true),
        (Fault::Status(500), Unknown, false),
        (Fault::StatusAfter(500), Unknown, true),
        (Fault::TypedStatus(500), UnknownNamed, true),
        (Fault::Html, Unknown, false),
        (changed(json!({ "transaction": "" })), Unknown, true),
        (changed(json!({ "amount": PRICE.to_string() })), Unknown, true),
        (changed(json!({ "amount": (CHARGE - 1).to_string() })), Unknown, true),
        (changed(json!({ "amount": "0" })), Unknown, true),
        (changed(json!({ "amount": "0", "transaction": "" })), Unknown, true),
        (changed(json!({ "amount": null })), Unknown, true),
        (changed(json!({ "amount": CHARGE.to_string() })), Settled, true),
        (changed(json!({ "payer": stranger })), Unknown, true),
        (changed(json!({ "network": "eip155:84532" })), Unknown, true),
        (changed(json!({ "success": false, "errorReason": "permit2_insufficient_balance" })), UnknownNamed, true),
        (failed("permit2_invalid_nonce"), Unknown, true),
        (failed("invalid_upto_evm_transaction_failed"), Unknown, true),
        (failed("settlement_pending"), Unknown, true),
        (failed("upto_of_a_later_version"), Unknown, true),
        (failed("permit2_allowance_required"), Refused, true),
    ];
    for (fault, outcome, moved) in table {
        let facilitator = Facilitator::start(&market).await;
        let settler = settler(&[&facilitator]);
        let payment = permit(&market, PermitScheme::UpTo);
        assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Valid));
        facilitator.fault("settle", fault.clone());
        let settlement = settler.settle_permit(&payment, units(CHARGE), &TransactionRecorder::none()).await;
        let used = used(&market, &payment);
        assert_eq!(used.is_some(), moved, "{fault:?}");
        let seen = match &settlement {
            Settlement::Settled(told) if Some(*told) == used => Settled,
            Settlement::Refused(_) => Refused,
            Settlement::Unknown(None) => Unknown,
            Settlement::Unknown(told) if *told == used => UnknownNamed,
            other => panic!("{fault:?}: {other:?}"),
        };
        assert_eq!(seen, outcome, "{fault:?}: {settlement:?}");
        assert_eq!(facilitator.calls("settle"), 1, "{fault:?}: it is asked once");
        // Again, it moves nothing more.
        facilitator.heal();
        let again = settler.settle_permit(&payment, units(CHARGE), &TransactionRecorder::none()).await;
        let left = market.balance(payment.permit.permit.from);
        assert_eq!(left, units(2 * PRICE - CHARGE), "{fault:?}: {again:?}");
        assert!(!moved || again == Settlement::Unknown(None), "{fault:?}: {again:?}");
    }
}

#[tokio::test]
async fn a_time_out_after_settling_is_found_and_not_settled_again() {
    let market = Market::new();
    let (facilitator, other) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = builder(&[&facilitator, &other]).settle_timeout(SOON).build().unwrap();
    let payment = permit(&market, PermitScheme::UpTo);
    assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Valid));
    facilitator.fault("settle", Fault::HangAfter);
    let none = TransactionRecorder::none();
    assert_eq!(settler.settle_permit(&payment, units(CHARGE), &none).await, Settlement::Unknown(None));
    let moved = async {
        while used(&market, &payment).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.expect("it was sent");
    facilitator.heal();
    assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Used), "that is how it is found");
    assert_eq!(settler.settle_permit(&payment, units(PRICE), &none).await, Settlement::Unknown(None));
    assert_eq!((market.balance(SELLER), other.calls("settle")), (units(CHARGE), 0));
}

/// Refused at first sight, it may be that its own settlement took the money.
#[tokio::test]
async fn a_refusal_after_a_doubt_is_no_refusal() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let (settler, none) = (settler(&[&facilitator]), TransactionRecorder::none());
    let payment = permit(&market, PermitScheme::UpTo);
    facilitator.fault("settle", Fault::ResetAfter);
    assert_eq!(settler.settle_permit(&payment, units(CHARGE), &none).await, Settlement::Unknown(None));
    let broke = |ok: &str| {
        let word = "permit2_insufficient_balance";
        Fault::Says(json!({ ok: false, "errorReason": word, "invalidReason": word, "transaction": "" }))
    };
    facilitator.fault("verify", broke("isValid"));
    assert_eq!(settler.verify_permit(&payment).await, Ok(Validity::Used));
    facilitator.fault("settle", broke("success"));
    assert_eq!(settler.settle_permit(&payment, units(CHARGE), &none).await, Settlement::Unknown(None));
}

#[tokio::test]
async fn twenty_at_once_with_one_nonce_are_one_charge() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let (settler, none) = (settler(&[&facilitator]), TransactionRecorder::none());
    let payment = permit(&market, PermitScheme::UpTo);
    let all = (0..20_u128).map(|n| settler.settle_permit(&payment, units(CHARGE + n), &none));
    let outcomes = futures_util::future::join_all(all).await;
    let settled = outcomes.iter().filter(|outcome| matches!(outcome, Settlement::Settled(_))).count();
    assert!(settled <= 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| !matches!(outcome, Settlement::Refused(_))), "{outcomes:?}");
    let received = market.balance(SELLER);
    assert!((units(CHARGE)..units(CHARGE + 20)).contains(&received), "{received}");
}
