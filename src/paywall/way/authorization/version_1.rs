//! A payment of the standard's first version, which names neither its token nor a quote.

use crate::{
    paywall::{
        error::HealthError,
        seller::{chain::SellingChain, inner::MerchantInner, standard::Standard},
    },
    protocol::{
        Address, Asset, Network, TokenDomain, v1,
        v2::{PaymentPayload, PaymentRequirements, SignedAuthorization},
    },
    settle::SignedPayment,
};

/// Converts the payment to version 2: its payer accepted what it signed for, without a quote. `seconds` is how long clients are asked to
/// make a payment valid.
///
/// # Errors
/// If the tokens cannot be learned now.
pub(super) async fn read(
    merchant: &MerchantInner,
    payment: v1::PaymentPayload,
    seconds: u64,
) -> Result<PaymentPayload, HealthError> {
    let v1::PaymentPayload { network, payload: signed } = payment;
    let accepted = match merchant.on(network).and_then(|chain| Some((chain, chain.standard.as_ref()?))) {
        Some((chain, standard)) => match signed_for(chain, standard, &signed, seconds).await? {
            Some(domain) => accepted(network, domain, &signed, seconds),
            None => unknown(network, &signed, seconds),
        },
        None => unknown(network, &signed, seconds),
    };
    Ok(PaymentPayload::new(accepted, signed))
}

/// Returns the token that the payer signed for: the only one, or the one for which the payer's key made the signature. A contract's
/// signature does not show its token, and is taken for one of the first token.
async fn signed_for<'a>(
    chain: &SellingChain,
    standard: &'a Standard,
    signed: &SignedAuthorization,
    seconds: u64,
) -> Result<Option<&'a TokenDomain>, HealthError> {
    // Without its token, the payment would match no offer, and be billed anew.
    chain.ready_for(standard).await?;
    let tokens = standard.tokens().unwrap_or_default();
    let is_for = |domain: &&TokenDomain| {
        let accepted = accepted(chain.network, domain, signed, seconds);
        standard.settler.is_signed_by_key(&SignedPayment::new(signed.clone(), accepted, TokenDomain::clone(domain)))
    };
    Ok(tokens.iter().find(|domain| tokens.len() == 1 || is_for(domain)).or(tokens.first()))
}

fn accepted(network: Network, domain: &TokenDomain, signed: &SignedAuthorization, seconds: u64) -> PaymentRequirements {
    on_token(network, domain.token, signed, seconds).with_token_domain(&domain.name, &domain.version)
}

/// Returns requirements that no merchant offers: the zero address is no token.
fn unknown(network: Network, signed: &SignedAuthorization, seconds: u64) -> PaymentRequirements {
    on_token(network, Address::ZERO, signed, seconds)
}

fn on_token(network: Network, token: Address, signed: &SignedAuthorization, seconds: u64) -> PaymentRequirements {
    // Decimals and symbol are no part of requirements.
    let token = Asset::new(network, token, 0, "");
    PaymentRequirements::new(&token, signed.authorization.value, signed.authorization.to, seconds)
}
