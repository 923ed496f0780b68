//! Parses a facilitator's answer. Only reason codes are kept; its text is untrusted.

use http::StatusCode;

use super::{question::Question, transport::Answer};
use crate::{
    protocol::{
        permit2::PermitScheme,
        v2::{Reason, SettleResponse, VerifyResponse},
    },
    settle::{Settlement, Validity},
};

/// Reasons that mean that a nonce is used, or that the payment was settled before.
const USED: [&str; 7] = [
    "invalid_exact_evm_nonce_already_used",
    "nonce_already_used",
    "authorization_already_used",
    "duplicate_settlement",
    "nonce_reused",
    "permit2_invalid_nonce",
    "invalid_exact_evm_payload_authorization_nonce_used",
];

/// Beginnings of reasons that facilitators use only for a check, before anything was sent.
const LOOKED_AT: [&str; 8] = [
    "invalid_",
    "insufficient_",
    "unsupported_",
    "missing_",
    "network_mismatch",
    "asset_not_deployed_contract",
    "eip6492_factory_not_allowed",
    "smart_wallet_deployment_failed",
];

/// Reasons about permits that facilitators use only for a check. `permit2_simulation_failed` is not among them, because
/// official facilitators also use it for a used nonce.
const LOOKED_AT_PERMIT: [&str; 17] = [
    "permit2_deadline_expired",
    "permit2_not_yet_valid",
    "permit2_amount_mismatch",
    "permit2_token_mismatch",
    "permit2_allowance_required",
    "permit2_insufficient_balance",
    "permit2_proxy_not_deployed",
    "permit2_invalid_amount",
    "permit2_invalid_destination",
    "permit2_invalid_owner",
    "permit2_2612_amount_mismatch",
    "eip2612_from_mismatch",
    "eip2612_asset_mismatch",
    "eip2612_spender_not_permit2",
    "eip2612_deadline_expired",
    "upto_facilitator_mismatch",
    "upto_amount_exceeds_permitted",
];

/// Endings of such reasons that facilitators also use for sent transactions.
const SENT: [&str; 4] = ["transaction_failed", "transaction_state", "event_mismatch", "settlement_failed"];

/// Reads an answer to `/verify`; returns `None` if it is unusable, or says nothing about the payment.
pub(super) fn validity(answer: &Answer, question: &Question) -> Option<Validity> {
    if answer.status.is_redirection() {
        return None;
    }
    let said = VerifyResponse::from_json(&answer.body).ok()?;
    let another = said.payer.is_some_and(|payer| payer != question.payer);
    match said.invalid_reason {
        _ if said.is_valid => (answer.status.is_success() && !another).then_some(Validity::Valid),
        Some(reason) if is_used(&reason) => Some(Validity::Used),
        reason => stated(reason).map(Validity::Refused),
    }
}

/// Returns the reason of a refusal, if one is stated. Facilitators report their own failures as "unexpected", as a
/// reason or in the prose of an exception, and have specific reasons for all faults of a payment. So such a reason says
/// nothing about the payment.
pub(super) fn stated(reason: Option<Reason>) -> Option<Reason> {
    // Prose is parsed as such a reason, too.
    reason.filter(|reason| !reason.as_str().starts_with("unexpected_"))
}

/// Returns whether the status alone means that the seller may not use the facilitator.
pub(super) const fn is_denial(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
}

/// Reads an answer to `/settle`. A doubtful one is [`Settlement::Unknown`].
pub(super) fn settlement(answer: &Answer, question: &Question) -> Settlement {
    let said = match SettleResponse::from_json(&answer.body) {
        Ok(said) if !answer.status.is_redirection() => said,
        _ => return Settlement::Unknown(None),
    };
    // For `upto`, the standard requires the amount: without it, the maximum may have been charged.
    let is_charged = match (said.amount, question.scheme()) {
        (Some(amount), _) => amount == question.charge,
        (None, scheme) => scheme == PermitScheme::Exact,
    };
    let ours = said.network.is_none_or(|network| network == question.network)
        && said.payer.is_none_or(|payer| payer == question.payer)
        && is_charged;
    match (said.transaction.filter(|_| ours), said.error_reason) {
        (Some(transaction), _) if said.success && answer.status.is_success() => Settlement::Settled(transaction),
        (None, Some(reason)) if !said.success && said.transaction.is_none() && is_final(&reason) => {
            Settlement::Refused(reason)
        }
        (transaction, _) => Settlement::Unknown(transaction),
    }
}

/// Returns whether the reason means a used nonce. It does not say who used it; the chain does.
fn is_used(reason: &Reason) -> bool {
    USED.contains(&reason.as_str())
}

/// Returns whether this reason proves that the payment is not in progress. Some reasons are also used for a time-out of
/// the facilitator's node or for a failed transaction, so they prove nothing. Unknown reasons prove nothing either.
pub(super) fn is_final(reason: &Reason) -> bool {
    let word = reason.as_str();
    (LOOKED_AT.iter().any(|beginning| word.starts_with(beginning)) || LOOKED_AT_PERMIT.contains(&word))
        && !SENT.iter().any(|end| word.ends_with(end))
        && !is_used(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_looked_at_and_not_sent_is_final() {
        let says = |word: &str| is_final(&word.parse().unwrap());
        for looked_at in [
            "insufficient_funds",
            "invalid_exact_evm_insufficient_balance",
            "invalid_exact_evm_transaction_simulation_failed",
            "invalid_exact_evm_payload_signature",
            "invalid_exact_evm_payload_authorization_valid_before",
            "invalid_network",
            "unsupported_scheme",
            "missing_eip712_domain",
            "network_mismatch",
            "invalid_permit2_signature",
            "invalid_upto_evm_payload_settlement_exceeds_amount",
            "permit2_allowance_required",
            "upto_facilitator_mismatch",
        ] {
            assert!(says(looked_at), "{looked_at}");
        }
        for doubtful in USED.into_iter().chain([
            "settlement_pending",
            "unexpected_settle_error",
            "unknown_settlement_error",
            "settle_failed",
            "transaction_failed",
            "invalid_exact_evm_transaction_failed",
            "invalid_exact_evm_transfer_event_mismatch",
            "invalid_upto_evm_transaction_failed",
            "permit2_of_a_later_version",
            "permit2_simulation_failed",
            "upto_unauthorized_facilitator",
            "invalid_transaction_state",
            "settle_exact_node_failure",
            "of_a_later_version",
        ]) {
            assert!(!says(doubtful), "{doubtful}");
        }
    }
}
