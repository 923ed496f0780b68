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

/// The same payment in the words of version 2: its payer accepted the challenge. `seconds`: how long clients are asked to make it valid.
///
/// # Errors
/// If it is not for the challenge that it names, or that was not sent so; if it cannot be known now what the token is.
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
    // An intent that this route did not seal is refused for that.
    let recipient = Opened::open(&request.route, &echoed.id).map_or(signed.authorization.to, |opened| opened.recipient);
    // Decimals and symbol are no part of requirements.
    let accepted = PaymentRequirements::new(&Asset::new(network, token, 0, ""), amount, recipient, seconds);
    let payment = |accepted: PaymentRequirements| PaymentPayload::new(accepted.with_intent(&echoed.id), signed.clone());
    let chain = request.route.merchant.on(network).and_then(|chain| Some((chain, chain.standard.as_ref()?)));
    let Some((chain, standard)) = chain else { return Ok(payment(accepted)) };
    // Without its domain it would be none that is offered, and be billed anew.
    if let Err(error) = chain.ready_for(standard).await {
        return Err(unless_sold(request, &payment(accepted), Problem::from(error).into()).await);
    }
    Ok(payment(match standard.token(token) {
        Some(domain) => accepted.with_token_domain(&domain.name, &domain.version),
        None => accepted,
    }))
}
