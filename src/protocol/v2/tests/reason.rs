//! The standard's reasons, and texts that are no reason.

use crate::protocol::v2::Reason;

/// The reasons, copied from the standard instead of the code.
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
        "invalid_batch_settlement_evm_authorizer_address_mismatch",
        "invalid_batch_settlement_evm_authorizer_not_configured",
        "invalid_batch_settlement_evm_channel_busy",
        "invalid_batch_settlement_evm_channel_id_invalid",
        "invalid_batch_settlement_evm_channel_id_mismatch",
        "invalid_batch_settlement_evm_channel_not_found",
        "invalid_batch_settlement_evm_charge_exceeds_signed_cumulative",
        "invalid_batch_settlement_evm_claim_simulation_failed",
        "invalid_batch_settlement_evm_claim_transaction_failed",
        "invalid_batch_settlement_evm_cumulative_amount_mismatch",
        "invalid_batch_settlement_evm_cumulative_below_claimed",
        "invalid_batch_settlement_evm_cumulative_exceeds_balance",
        "invalid_batch_settlement_evm_deposit_below_min_deposit",
        "invalid_batch_settlement_evm_deposit_simulation_failed",
        "invalid_batch_settlement_evm_deposit_transaction_failed",
        "invalid_batch_settlement_evm_eip2612_amount_mismatch",
        "invalid_batch_settlement_evm_eip2612_asset_mismatch",
        "invalid_batch_settlement_evm_eip2612_deadline_expired",
        "invalid_batch_settlement_evm_eip2612_owner_mismatch",
        "invalid_batch_settlement_evm_eip2612_spender_mismatch",
        "invalid_batch_settlement_evm_eip6492_factory_not_allowed",
        "invalid_batch_settlement_evm_erc20_approval_unavailable",
        "invalid_batch_settlement_evm_erc3009_authorization_required",
        "invalid_batch_settlement_evm_insufficient_balance",
        "invalid_batch_settlement_evm_missing_channel",
        "invalid_batch_settlement_evm_missing_eip712_domain",
        "invalid_batch_settlement_evm_network_mismatch",
        "invalid_batch_settlement_evm_nothing_to_settle",
        "invalid_batch_settlement_evm_payload_authorization_valid_after",
        "invalid_batch_settlement_evm_payload_authorization_valid_before",
        "invalid_batch_settlement_evm_payload_type",
        "invalid_batch_settlement_evm_permit2_allowance_required",
        "invalid_batch_settlement_evm_permit2_amount_mismatch",
        "invalid_batch_settlement_evm_permit2_authorization_required",
        "invalid_batch_settlement_evm_permit2_deadline_expired",
        "invalid_batch_settlement_evm_permit2_invalid_signature",
        "invalid_batch_settlement_evm_permit2_invalid_spender",
        "invalid_batch_settlement_evm_receive_authorization_signature",
        "invalid_batch_settlement_evm_receiver_authorizer_mismatch",
        "invalid_batch_settlement_evm_receiver_mismatch",
        "invalid_batch_settlement_evm_refund_amount_invalid",
        "invalid_batch_settlement_evm_refund_no_balance",
        "invalid_batch_settlement_evm_refund_payload",
        "invalid_batch_settlement_evm_refund_simulation_failed",
        "invalid_batch_settlement_evm_refund_transaction_failed",
        "invalid_batch_settlement_evm_rpc_read_failed",
        "invalid_batch_settlement_evm_scheme",
        "invalid_batch_settlement_evm_settle_simulation_failed",
        "invalid_batch_settlement_evm_settle_transaction_failed",
        "invalid_batch_settlement_evm_smart_wallet_deployment_failed",
        "invalid_batch_settlement_evm_token_mismatch",
        "invalid_batch_settlement_evm_verification_state_unavailable",
        "invalid_batch_settlement_evm_voucher_signature",
        "invalid_batch_settlement_evm_withdraw_delay_mismatch",
        "invalid_batch_settlement_evm_withdraw_delay_out_of_range",
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
