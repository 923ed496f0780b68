//! Checks that a credential of MPP repeats the challenge that was sent.

use crate::{
    paywall::{
        refusal::{Problem, Rejection},
        sale::opened::Opened,
        seller::{mpp::Mpp, route::Route},
    },
    protocol::mpp::{Asked, Challenge, Credential, CredentialType, EchoedChallenge},
};

/// A credential whose challenge differs from the one that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotAsSent;

impl From<NotAsSent> for Rejection {
    fn from(_: NotAsSent) -> Self {
        Problem::is_no_echo().into()
    }
}

/// Returns what the credential's challenge asked for.
///
/// # Errors
/// If the challenge is of another realm, cannot be read, or is not to the letter the one that was sent for its intent. An intent that this
/// route did not seal is judged later.
pub(crate) fn asked(route: &Route, credential: &Credential) -> Result<Asked, NotAsSent> {
    let echoed = &credential.challenge;
    let mpp = route.merchant.mpp.as_ref().filter(|mpp| mpp.realm() == echoed.realm && !echoed.has_more);
    let (Some(mpp), Some(asked)) = (mpp, Asked::read(&echoed.request)) else { return Err(NotAsSent) };
    match Opened::open(route, &echoed.id) {
        Some(opened) if !is_as_sent(mpp, &opened, echoed, &asked) => Err(NotAsSent),
        _ => Ok(asked),
    }
}

/// Returns whether this challenge was sent for that intent, with any list of ways to pay that may have been offered then.
fn is_as_sent(mpp: &Mpp, opened: &Opened<'_>, echoed: &EchoedChallenge, asked: &Asked) -> bool {
    use CredentialType::{Authorization, Hash};
    let merchant = &opened.route.merchant;
    let known = merchant.on(asked.network).is_some_and(|chain| chain.accepts(asked.token));
    let token = (asked.network, asked.token, merchant.decimals());
    let price = opened.terms.amount.to_string();
    let sent = |types: &[CredentialType]| mpp.challenge(token, opened.recipient, types).request(&price);
    known
        && echoed.expires.as_deref() == Some(&*Challenge::expires(opened.terms.expiry()))
        && echoed.header.as_deref().is_none_or(|header| mpp.header() == *header)
        && [&[Authorization, Hash][..], &[Authorization], &[Hash]]
            .into_iter()
            .any(|types| sent(types) == echoed.request)
}
