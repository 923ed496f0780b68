//! The words of the standard, and what is no word.

use crate::protocol::v2::Reason;

/// The words, copied from the standard and not from the code.
#[test]
fn reasons_are_the_standards() {
    let words = [
        "insufficient_funds",
        "invalid_exact_evm_payload_signature",
        "invalid_exact_evm_payload_recipient_mismatch",
        "invalid_exact_evm_payload_authorization_valid_after",
        "invalid_exact_evm_payload_authorization_valid_before",
        "invalid_exact_evm_payload_authorization_value_mismatch",
        "invalid_exact_evm_nonce_already_used",
        "invalid_network",
        "invalid_payload",
        "invalid_payment_requirements",
        "invalid_scheme",
        "unsupported_scheme",
        "invalid_x402_version",
        "invalid_permit2_signature",
        "invalid_permit2_spender",
        "invalid_permit2_recipient_mismatch",
        "permit2_deadline_expired",
        "permit2_not_yet_valid",
        "permit2_amount_mismatch",
        "permit2_token_mismatch",
        "permit2_allowance_required",
        "permit2_insufficient_balance",
        "permit2_invalid_nonce",
        "permit2_invalid_amount",
        "permit2_proxy_not_deployed",
        "permit2_simulation_failed",
        "permit2_2612_amount_mismatch",
        "eip2612_from_mismatch",
        "eip2612_asset_mismatch",
        "eip2612_spender_not_permit2",
        "eip2612_deadline_expired",
        "invalid_eip2612_extension_format",
        "upto_facilitator_mismatch",
        "invalid_upto_evm_payload_settlement_exceeds_amount",
        "invalid_transaction_state",
        "unexpected_verify_error",
        "unexpected_settle_error",
        "settlement_pending",
        "duplicate_settlement",
    ];
    assert_eq!(Reason::KNOWN.iter().map(Reason::as_str).collect::<Vec<_>>(), words);
    for (word, reason) in words.iter().zip(Reason::KNOWN) {
        assert_eq!(word.parse().as_ref(), Ok(reason));
        assert_eq!(reason.to_string(), *word);
    }
    let longest = "a".repeat(128);
    for word in ["x", "Facilitator:E-1.5", &longest] {
        assert_eq!(word.parse::<Reason>().unwrap().as_str(), word);
    }
    let longer = "a".repeat(129);
    for prose in ["", " ", "two words", "a\n", "a/b", "\"", "é", &longer] {
        assert!(prose.parse::<Reason>().is_err(), "{prose}");
    }
}
