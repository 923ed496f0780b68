//! A payment of MPP: its nonce is the hash of the challenge.

use crate::{
    paywall::{
        priced_request::PricedRequest,
        sale::opened::Opened,
        way::echo::{NotAsSent, asked},
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
/// If it is not for the challenge that it names, or that was not sent so.
pub(super) async fn read(
    request: &PricedRequest,
    credential: &Credential,
    signed: &SignedAuthorization,
    seconds: u64,
) -> Result<PaymentPayload, NotAsSent> {
    let Asked { amount, token, network } = asked(&request.route, credential)?;
    let echoed = &credential.challenge;
    if !challenge_hashes(echoed.id.as_str(), &echoed.realm).contains(&signed.authorization.nonce) {
        return Err(NotAsSent);
    }
    // An intent that this route did not seal is refused for that.
    let recipient = Opened::open(&request.route, &echoed.id).map_or(signed.authorization.to, |opened| opened.recipient);
    // Decimals and symbol are no part of requirements.
    let accepted = PaymentRequirements::new(&Asset::new(network, token, 0, ""), amount, recipient, seconds);
    let accepted = match request.route.merchant.on(network).and_then(|chain| Some((chain, chain.standard.as_ref()?))) {
        // If it cannot be known now, the payment is refused for that.
        Some((chain, standard)) if chain.ready_for(standard).await.is_ok() => match standard.token(token) {
            Some(domain) => accepted.with_token_domain(&domain.name, &domain.version),
            None => accepted,
        },
        _ => accepted,
    };
    Ok(PaymentPayload::new(accepted.with_intent(&echoed.id), signed.clone()))
}
