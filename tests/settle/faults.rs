//! SECURITY row 50: every way in which a facilitator fails or lies, and what is made of it. A payer is charged at most once, and a charge
//! is never called a refusal.

use std::time::Duration;

use serde_json::{Value, json};
use tower_x402::{
    protocol::{Amount, v2::Reason},
    settle::{SettleError, SettleErrorKind, Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
    verify::NonceState,
};

use super::{CANARY, Facilitator, Fault, Market, PATIENCE, SELLER, builder, payment, settler};

/// Short, for what never ends. Nothing else depends on it.
const SOON: Duration = Duration::from_millis(400);

fn state(market: &Market, payment: &SignedPayment) -> NonceState {
    let signed = &payment.authorization.authorization;
    market.nonce(signed.from, signed.nonce)
}

/// What a fault in settling leads to: the transaction that is named is the one that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Settled,
    Refused,
    Unknown,
    UnknownNamed,
}

#[tokio::test]
async fn what_settling_meets_with() {
    use Outcome::{Refused, Settled, Unknown, UnknownNamed};
    let market = Market::new();
    let elsewhere = Facilitator::start(&market).await;
    let stranger = market.account(0).to_string();
    let another = format!("0x{}", "ab".repeat(32));
    let failed = |word: &str| {
        Fault::Says(json!({ "success": false, "errorReason": word, "transaction": "", "network": "eip155:8453" }))
    };
    let changed = Fault::Changed;
    // The fault, what is said, whether the money has moved.
    let table = [
        (Fault::ResetBefore, Unknown, false),
        (Fault::ResetAfter, Unknown, true),
        (Fault::Status(500), Unknown, false),
        (Fault::StatusAfter(500), Unknown, true),
        (Fault::StatusAfter(502), Unknown, true),
        (Fault::StatusAfter(429), Unknown, true),
        (Fault::Status(401), Unknown, false),
        (Fault::Status(404), Unknown, false),
        (Fault::TypedStatus(500), UnknownNamed, true),
        (Fault::TypedStatus(308), Unknown, true),
        (Fault::TypedStatus(201), Settled, true),
        (Fault::Redirect(301, elsewhere.url()), Unknown, false),
        (Fault::Redirect(307, elsewhere.url()), Unknown, false),
        (Fault::Redirect(308, elsewhere.url()), Unknown, false),
        (Fault::Huge { announced: true }, Unknown, true),
        (Fault::Huge { announced: false }, Unknown, true),
        (Fault::Padded(65_000), Settled, true),
        (Fault::Padded(66_000), Unknown, true),
        (Fault::Html, Unknown, false),
        (Fault::Says(json!(null)), Unknown, true),
        (Fault::Says(json!([])), Unknown, true),
        (Fault::Says(json!({})), Unknown, true),
        (Fault::Says(json!({ "success": "yes" })), Unknown, true),
        (Fault::Says(json!({ "success": true })), Unknown, true),
        (Fault::Says(json!({ "success": false })), Unknown, true),
        (changed(json!({ "transaction": "" })), Unknown, true),
        (changed(json!({ "transaction": null })), Unknown, true),
        (changed(json!({ "transaction": "pending" })), Unknown, true),
        (changed(json!({ "network": "eip155:84532" })), Unknown, true),
        (changed(json!({ "network": "base" })), Unknown, true),
        (changed(json!({ "network": "" })), Unknown, true),
        (changed(json!({ "payer": stranger })), Unknown, true),
        (changed(json!({ "payer": "nobody" })), Unknown, true),
        (changed(json!({ "payer": null })), Settled, true),
        (changed(json!({ "amount": "489999" })), Unknown, true),
        (changed(json!({ "amount": "490000" })), Settled, true),
        (changed(json!({ "success": false })), UnknownNamed, true),
        (changed(json!({ "success": false, "errorReason": "settlement_pending" })), UnknownNamed, true),
        (changed(json!({ "success": false, "errorReason": "duplicate_settlement" })), UnknownNamed, true),
        (changed(json!({ "success": false, "errorReason": "insufficient_funds" })), UnknownNamed, true),
        (changed(json!({ "errorReason": "insufficient_funds" })), Unknown, true),
        (failed("insufficient_funds"), Refused, true),
        (failed("invalid_exact_evm_payload_signature"), Refused, true),
        (failed("settlement_pending"), Unknown, true),
        (failed("duplicate_settlement"), Unknown, true),
        (failed("invalid_exact_evm_nonce_already_used"), Unknown, true),
        (failed("invalid_exact_evm_transaction_failed"), Unknown, true),
        (failed("unexpected_settle_error"), Unknown, true),
        (failed("a_word_that_nobody_knows"), Unknown, true),
        (failed("Prose: the node at 10.0.0.7 did not answer."), Unknown, true),
        (changed(json!({ "transaction": another })), Settled, true),
    ];
    for (fault, outcome, moved) in table {
        let facilitator = Facilitator::start(&market).await;
        let settler = settler(&[&facilitator, &elsewhere]);
        let payment = payment(&market);
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
        facilitator.fault("settle", fault.clone());
        let settlement = settler.settle(&payment, &TransactionRecorder::none()).await;
        let used = match state(&market, &payment) {
            NonceState::Used(transaction) => Some(transaction),
            _ => None,
        };
        assert_eq!(used.is_some(), moved, "{fault:?}");
        let seen = match &settlement {
            Settlement::Settled(told) if Some(*told) == used || told.to_string() == another => Settled,
            Settlement::Refused(_) => Refused,
            Settlement::Unknown(None) => Unknown,
            Settlement::Unknown(told) if *told == used => UnknownNamed,
            other => panic!("{fault:?}: {other:?}"),
        };
        assert_eq!(seen, outcome, "{fault:?}: {settlement:?}");
        assert_eq!(facilitator.calls("settle"), 1, "{fault:?}: it is asked once");
        assert!(!format!("{settlement:?}").contains(CANARY), "{settlement:?}");
    }
    assert_eq!(elsewhere.calls("settle"), 0, "no redirect is followed, and nobody else is asked");
}

#[tokio::test]
async fn a_facilitator_that_never_answers_a_settlement() {
    let market = Market::new();
    let (facilitator, other) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = builder(&[&facilitator, &other]).settle_timeout(SOON).build().unwrap();
    for (fault, moves) in [(Fault::HangBefore, false), (Fault::HangAfter, true)] {
        let payment = payment(&market);
        facilitator.heal();
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid));
        facilitator.fault("settle", fault);
        assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
        if moves {
            let moved = async {
                while state(&market, &payment) == NonceState::Unused {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(PATIENCE, moved).await.expect("it was sent");
            facilitator.heal();
            assert_eq!(settler.verify(&payment).await, Ok(Validity::Used), "that is how it is found");
        }
    }
    assert_eq!(other.calls("settle"), 0, "it may be settled already");
}

#[tokio::test]
async fn what_verifying_meets_with() {
    let market = Market::new();
    let elsewhere = Facilitator::start(&market).await;
    let stranger = market.account(0).to_string();
    let unavailable = || Err(SettleError::unavailable());
    let denied = |status| Err(SettleError::new(SettleErrorKind::Denied { status }));
    let refused = |word: &str| Ok(Validity::Refused(word.parse().unwrap()));
    let says = |word: &str| Fault::Says(json!({ "isValid": false, "invalidReason": word }));
    let table = [
        (Fault::TypedStatus(201), Ok(Validity::Valid)),
        (Fault::Padded(65_000), Ok(Validity::Valid)),
        (Fault::Changed(json!({ "payer": null, "news": [1] })), Ok(Validity::Valid)),
        (Fault::ResetBefore, unavailable()),
        (Fault::ResetAfter, unavailable()),
        (Fault::Status(500), unavailable()),
        (Fault::Status(429), unavailable()),
        (Fault::TypedStatus(500), unavailable()),
        (Fault::TypedStatus(308), unavailable()),
        (Fault::Redirect(308, elsewhere.url()), unavailable()),
        (Fault::Huge { announced: true }, unavailable()),
        (Fault::Huge { announced: false }, unavailable()),
        (Fault::Padded(66_000), unavailable()),
        (Fault::Html, unavailable()),
        (Fault::Says(json!({})), unavailable()),
        (Fault::Says(json!({ "isValid": "true" })), unavailable()),
        (Fault::Changed(json!({ "payer": stranger })), unavailable()),
        (Fault::Changed(json!({ "invalidReason": "insufficient_funds" })), unavailable()),
        (Fault::Status(401), denied(401)),
        (Fault::Status(403), denied(403)),
        (Fault::Status(404), denied(404)),
        (says("insufficient_funds"), refused("insufficient_funds")),
        (says("of_a_later_version"), refused("of_a_later_version")),
        // A failure of its own, which tells nothing of the payment.
        (says("Prose: the node at 10.0.0.7 did not answer."), unavailable()),
        (says("unexpected_verify_error"), unavailable()),
        (says("unexpected_settle_error"), unavailable()),
        (says("unexpected_error"), unavailable()),
        (Fault::Says(json!({ "isValid": false, "invalidReason": null })), unavailable()),
        (Fault::Says(json!({ "isValid": false })), unavailable()),
        (says("invalid_exact_evm_nonce_already_used"), Ok(Validity::Used)),
        (says("nonce_already_used"), Ok(Validity::Used)),
        (says("authorization_already_used"), Ok(Validity::Used)),
        (says("duplicate_settlement"), Ok(Validity::Used)),
    ];
    for (fault, outcome) in table {
        let facilitator = Facilitator::start(&market).await;
        facilitator.fault("verify", fault.clone());
        assert_eq!(settler(&[&facilitator]).verify(&payment(&market)).await, outcome, "{fault:?}");
    }
    assert_eq!(elsewhere.calls("verify"), 0, "no redirect is followed");
    assert_eq!(market.balance(SELLER), Amount::ZERO);

    let facilitator = Facilitator::start(&market).await;
    facilitator.fault("verify", Fault::HangBefore);
    let settler = builder(&[&facilitator]).verify_timeout(SOON).build().unwrap();
    assert_eq!(settler.verify(&payment(&market)).await, unavailable());
}

/// The payer is neither billed anew nor turned away while another facilitator can look.
#[tokio::test]
async fn a_facilitator_that_fails_to_look_is_no_refusal_and_the_next_is_asked() {
    for reason in
        [json!("unexpected_verify_error"), json!("unexpected_error"), json!("the node did not answer"), Value::Null]
    {
        let market = Market::new();
        let (failing, other) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
        failing.fault("verify", Fault::Says(json!({ "isValid": false, "invalidReason": reason })));
        let payment = payment(&market);
        let settler = settler(&[&failing, &other]);
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Valid), "{reason}");
        assert_eq!((failing.calls("verify"), other.calls("verify")), (1, 1));
        // The one that looked settles it.
        assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Settled(_)));
        assert_eq!((failing.calls("settle"), other.calls("settle")), (0, 1));
    }
}

#[tokio::test]
async fn a_typed_refusal_counts_with_any_status() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    for status in [400, 402, 403, 500] {
        let mut payment = payment(&market);
        market.cancel(payment.authorization.authorization.from, payment.authorization.authorization.nonce);
        facilitator.fault("verify", Fault::TypedStatus(status));
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Used), "{status}");
        // Another nonce under the same signature.
        payment.authorization.authorization.nonce = market.fresh();
        let refused = "invalid_exact_evm_signature".parse::<Reason>().unwrap();
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Refused(refused.clone())), "{status}");
        facilitator.fault("settle", Fault::TypedStatus(status));
        assert_eq!(
            settler.settle(&payment, &TransactionRecorder::none()).await,
            Settlement::Refused(refused),
            "{status}"
        );
    }
}

/// A payer who has no more money because it was taken is not told to pay again.
#[tokio::test]
async fn a_refusal_after_a_doubt_is_no_refusal() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let payment = payment(&market);
    facilitator.fault("settle", Fault::ResetAfter);
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    let broke = json!({ "isValid": false, "invalidReason": "insufficient_funds" });
    facilitator.fault("verify", Fault::Says(broke));
    assert_eq!(settler.verify(&payment).await, Ok(Validity::Used));
    let broke = json!({ "success": false, "errorReason": "insufficient_funds", "transaction": "" });
    facilitator.fault("settle", Fault::Says(broke));
    assert_eq!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Unknown(None));
    assert!(matches!(state(&market, &payment), NonceState::Used(_)));
}

#[tokio::test]
async fn what_was_not_offered_is_not_even_asked_about() {
    let market = Market::new();
    let facilitator = Facilitator::start(&market).await;
    let settler = settler(&[&facilitator]);
    let mut cheap = payment(&market);
    cheap.requirements.amount = Amount::from_base_units(490_001);
    let mut elsewhere = payment(&market);
    elsewhere.requirements.pay_to = market.account(0);
    for payment in [cheap, elsewhere] {
        assert!(matches!(settler.verify(&payment).await, Ok(Validity::Refused(_))));
        assert!(matches!(settler.settle(&payment, &TransactionRecorder::none()).await, Settlement::Refused(_)));
    }
    assert_eq!(facilitator.calls("verify") + facilitator.calls("settle"), 0);
}

/// The one that may have taken it is gone, and the other knows nothing of it.
#[tokio::test]
async fn a_doubt_outlives_the_facilitator_that_left_it() {
    let market = Market::new();
    let (first, second) = (Facilitator::start(&market).await, Facilitator::start(&market).await);
    let settler = settler(&[&first, &second]);
    let (payment, none) = (payment(&market), TransactionRecorder::none());
    first.fault("settle", Fault::ResetAfter);
    assert_eq!(settler.settle(&payment, &none).await, Settlement::Unknown(None));
    drop(first);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let broke = json!({ "success": false, "errorReason": "insufficient_funds", "transaction": "" });
    second.fault("settle", Fault::Says(broke));
    assert_eq!(settler.settle(&payment, &none).await, Settlement::Unknown(None));
}

/// Two attempts at once: the one that is refused does not speak for the one whose answer is lost, however that ends.
#[tokio::test]
async fn a_refusal_beside_a_doubt_is_no_refusal() {
    let broke = |ok: &str| json!({ ok: false, "errorReason": "insufficient_funds", "invalidReason": "insufficient_funds", "transaction": "" });
    for second in [Fault::ResetAfter, Fault::HangAfter] {
        let market = Market::new();
        let facilitator = Facilitator::start(&market).await;
        let settler = builder(&[&facilitator]).settle_timeout(2 * SOON).build().unwrap();
        let (payment, none) = (payment(&market), TransactionRecorder::none());
        facilitator.fault("settle", Fault::SaysLate(SOON, broke("success")));
        let first = tokio::spawn({
            let (settler, payment, none) = (settler.clone(), payment.clone(), none.clone());
            async move { settler.settle(&payment, &none).await }
        });
        while facilitator.calls("settle") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        facilitator.fault("settle", second.clone());
        let second_attempt = settler.settle(&payment, &none);
        assert_eq!(second_attempt.await, Settlement::Unknown(None), "{second:?}");
        assert_eq!(first.await.unwrap(), Settlement::Unknown(None), "{second:?}: it may be settled");
        facilitator.fault("verify", Fault::Says(broke("isValid")));
        assert_eq!(settler.verify(&payment).await, Ok(Validity::Used), "{second:?}");
        assert!(matches!(state(&market, &payment), NonceState::Used(_)));
    }
}
