//! The table of problems, compared with the contract's table, which was copied from the contract instead of the code.

use std::collections::HashSet;

use crate::protocol::{
    ProblemCode,
    RetryRule::{AskAgain, Correct, Investigate, Pay, ProvePayer, RedeemWithFreshIntent},
    ascii_json,
};

#[test]
fn codes_statuses_and_rules_are_the_contracts() {
    let contract = [
        ("payment_required", 402, Pay),
        ("authorization_refused", 402, Pay),
        ("intent_required", 400, RedeemWithFreshIntent),
        ("tx_required", 400, Correct),
        ("invalid_redemption", 400, Correct),
        ("invalid_body", 400, Correct),
        ("body_too_large", 413, Correct),
        ("body_timeout", 408, AskAgain),
        ("unsupported_encoding", 415, Correct),
        ("intent_not_found", 404, RedeemWithFreshIntent),
        ("intent_expired", 410, RedeemWithFreshIntent),
        ("tx_not_confirmed", 409, AskAgain),
        ("transfer_not_found", 422, Investigate),
        ("insufficient_amount", 422, Investigate),
        ("payment_bound", 403, ProvePayer),
        ("payer_proof_required", 403, ProvePayer),
        ("invalid_signature", 403, ProvePayer),
        ("invalid_pass", 401, Correct),
        ("pass_busy", 409, AskAgain),
        ("channel_busy", 409, AskAgain),
        ("payment_too_old", 422, Investigate),
        ("tx_already_used", 409, Investigate),
        ("already_consumed", 409, Investigate),
        ("payment_id_conflict", 409, Investigate),
        ("payment_id_required", 400, Correct),
        ("redemption_in_progress", 409, AskAgain),
        ("too_many_attempts", 429, AskAgain),
        ("price_unavailable", 503, AskAgain),
        ("verification_unavailable", 503, AskAgain),
        ("ledger_unavailable", 503, AskAgain),
        ("outcome_unknown", 503, AskAgain),
        ("answer_timeout", 504, AskAgain),
        ("answer_broken", 502, AskAgain),
        ("answer_too_large", 502, Correct),
        ("upstream_payment_required", 502, AskAgain),
    ];
    let table: Vec<_> =
        ProblemCode::ALL.iter().map(|code| (code.as_str(), code.status().as_u16(), code.retry())).collect();
    assert_eq!(table, contract);
}

#[test]
fn only_who_has_paid_nothing_is_told_to_pay() {
    for code in ProblemCode::ALL {
        let unpaid = [ProblemCode::PaymentRequired, ProblemCode::AuthorizationRefused].contains(code);
        assert_eq!(code.status() == http::StatusCode::PAYMENT_REQUIRED, unpaid, "{code}");
        assert_eq!(code.retry() == Pay, unpaid, "{code}");
    }
}

#[test]
fn whoever_may_be_tempted_to_pay_twice_is_told_not_to() {
    use ProblemCode::{
        IntentExpired, IntentNotFound, IntentRequired, InvalidRedemption, InvalidSignature, PayerProofRequired,
        PaymentBound, RedemptionInProgress, TxNotConfirmed,
    };
    for code in [
        IntentRequired,
        InvalidRedemption,
        IntentNotFound,
        IntentExpired,
        TxNotConfirmed,
        RedemptionInProgress,
        PaymentBound,
        PayerProofRequired,
        InvalidSignature,
    ] {
        assert!(code.detail().contains("Do not pay again."), "{code}");
    }
    use ProblemCode::{LedgerUnavailable, TooManyAttempts, VerificationUnavailable};
    for code in [VerificationUnavailable, LedgerUnavailable, TooManyAttempts] {
        assert!(code.detail().contains("the payment is safe") || code.detail().contains("the payment stays"), "{code}");
    }
}

#[test]
fn texts_are_distinct_and_can_stand_in_json_as_they_are() {
    let all = ProblemCode::ALL;
    for texts in [all.iter().map(|c| c.as_str()).collect::<HashSet<_>>(), all.iter().map(|c| c.title()).collect()] {
        assert_eq!(texts.len(), all.len());
    }
    for code in all {
        assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
        assert_eq!(code.to_string(), code.as_str());
        for text in [code.title(), code.detail()] {
            assert_eq!(ascii_json(text), format!("\"{text}\""));
        }
    }
}

#[test]
fn a_code_and_its_text_name_each_other() {
    for code in ProblemCode::ALL {
        assert_eq!(code.as_str().parse(), Ok(*code));
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        assert_eq!(serde_json::from_value::<ProblemCode>(code.as_str().into()).unwrap(), *code);
    }
    for unknown in ["", "Payment_required", " tx_required", "of_a_later_version"] {
        assert!(unknown.parse::<ProblemCode>().is_err(), "{unknown}");
    }
}
