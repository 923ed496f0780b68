//! The requests to a facilitator about channels, in the standard's form.

use serde_json::{Value, json};

use crate::protocol::{
    Address, Network, TokenDomain,
    channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, Voucher, VoucherClaim},
};

/// The validity of a payment, in seconds.
const TIMEOUT: u64 = 60;

/// Returns the body of `/verify` and `/settle` for a deposit. `domain`: the token's, if it has one.
pub(super) fn deposit(
    network: Network,
    (config, deposit): (&ChannelConfig, &ChannelDeposit),
    voucher: &Voucher,
    domain: Option<&TokenDomain>,
) -> String {
    let mut demanded = demanded(network, config, voucher.max_claimable);
    if let Some(domain) = domain {
        demanded["extra"]["name"] = json!(domain.name);
        demanded["extra"]["version"] = json!(domain.version);
    }
    if let DepositAuthorization::Permit2(_) = deposit.authorization {
        demanded["extra"]["assetTransferMethod"] = json!("permit2");
    }
    let payload = json!({ "type": "deposit", "channelConfig": config, "voucher": voucher, "deposit": deposit });
    body(&demanded, &payload)
}

/// Returns the body of `/settle` for a claim, with rows of one authorizer. The signature is absent if the facilitator
/// signs.
pub(super) fn claim(
    network: Network,
    first: &ChannelConfig,
    claims: &[VoucherClaim],
    signature: Option<String>,
) -> String {
    let mut payload = json!({ "type": "claim", "claims": rows(claims) });
    sign(&mut payload, "claimAuthorizerSignature", signature);
    body(&demanded(network, first, 0), &payload)
}

/// Returns the body of `/settle` for a sweep.
pub(super) fn sweep(network: Network, receiver: Address, token: Address) -> String {
    let demanded = json!({
        "scheme": "batch-settlement",
        "network": network.to_string(),
        "amount": "0",
        "asset": token,
        "payTo": receiver,
        "maxTimeoutSeconds": TIMEOUT,
        "extra": {},
    });
    body(&demanded, &json!({ "type": "settle", "receiver": receiver, "token": token }))
}

/// A refund, after these claims.
pub(super) struct GivesBack<'a> {
    pub(super) config: &'a ChannelConfig,
    pub(super) voucher: &'a Voucher,
    pub(super) amount: u128,
    pub(super) nonce: u64,
    pub(super) claims: &'a [VoucherClaim],
}

/// Returns the body of `/settle` for a refund. The signatures are absent if the facilitator signs.
pub(super) fn refund(network: Network, back: &GivesBack<'_>, [refund, claim]: [Option<String>; 2]) -> String {
    let mut payload = json!({
        "type": "refund",
        "channelConfig": back.config,
        "voucher": back.voucher,
        "amount": back.amount.to_string(),
        "refundNonce": back.nonce.to_string(),
        "claims": rows(back.claims),
    });
    sign(&mut payload, "refundAuthorizerSignature", refund);
    sign(&mut payload, "claimAuthorizerSignature", claim);
    body(&demanded(network, back.config, 0), &payload)
}

fn demanded(network: Network, config: &ChannelConfig, amount: u128) -> Value {
    json!({
        "scheme": "batch-settlement",
        "network": network.to_string(),
        "amount": amount.to_string(),
        "asset": config.token,
        "payTo": config.receiver,
        "maxTimeoutSeconds": TIMEOUT,
        "extra": { "receiverAuthorizer": config.receiver_authorizer, "withdrawDelay": config.withdraw_delay },
    })
}

fn rows(claims: &[VoucherClaim]) -> Vec<Value> {
    let row = |claim: &VoucherClaim| {
        json!({
            "voucher": { "channel": claim.config, "maxClaimableAmount": claim.voucher.max_claimable.to_string() },
            "signature": claim.voucher.signature.to_string(),
            "totalClaimed": claim.total_claimed.to_string(),
        })
    };
    claims.iter().map(row).collect()
}

fn sign(payload: &mut Value, name: &str, signature: Option<String>) {
    if let Some(signature) = signature {
        payload[name] = json!(signature);
    }
}

fn body(demanded: &Value, payload: &Value) -> String {
    json!({
        "x402Version": 2,
        "paymentPayload": { "x402Version": 2, "accepted": demanded, "payload": payload },
        "paymentRequirements": demanded,
    })
    .to_string()
}
