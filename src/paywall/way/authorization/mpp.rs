//! A payment of MPP: its nonce is the hash of the challenge.

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::{Problem, Rejection},
        sale::opened::Opened,
        way::{
            authorization::shown::unless_sold,
            echo::{NotAsSent, asked},
        },
    },
    protocol::{
        Asset,
        mpp::{Asked, Credential, challenge_hashes},
        v2::{PaymentPayload, PaymentRequirements, SignedAuthorization},
    },
};

/// Converts the payment to version 2: its payer accepted the challenge. `seconds` is how long clients are asked to make a payment valid.
///
/// # Errors
/// If the payment is not for the challenge that it names, that challenge was not sent so, or the token's domain cannot be learned now.
pub(super) async fn read(
    request: &PricedRequest,
    credential: &Credential,
    signed: &SignedAuthorization,
    seconds: u64,
) -> Result<PaymentPayload, Rejection> {
    let Asked { amount, token, network } = asked(&request.route, credential)?;
    let echoed = &credential.challenge;
    if !challenge_hashes(echoed.id.as_str(), &echoed.realm).contains(&signed.authorization.nonce) {
        return Err(NotAsSent.into());
    }
    // An intent that this route did not seal is refused later, for that reason.
    let recipient = Opened::open(&request.route, &echoed.id).map_or(signed.authorization.to, |opened| opened.recipient);
    // Decimals and symbol are no part of requirements.
    let accepted = PaymentRequirements::new(&Asset::new(network, token, 0, ""), amount, recipient, seconds);
    let payment = |accepted: PaymentRequirements| PaymentPayload::new(accepted.with_intent(&echoed.id), signed.clone());
    let chain = request.route.merchant.on(network).and_then(|chain| Some((chain, chain.standard.as_ref()?)));
    let Some((chain, standard)) = chain else { return Ok(payment(accepted)) };
    // Without the token's domain, it would match no offer, and be billed anew.
    if let Err(error) = chain.ready_for(standard).await {
        return Err(unless_sold(request, &payment(accepted), Problem::from(error).into()).await);
    }
    Ok(payment(match standard.token(token) {
        Some(domain) => accepted.with_token_domain(&domain.name, &domain.version),
        None => accepted,
    }))
}
