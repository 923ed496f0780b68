//! The challenge of MPP that a credential repeats: whether it is the one that was sent.

use crate::{
    paywall::{
        refusal::{Problem, Rejection},
        sale::opened::Opened,
        seller::{mpp::Mpp, route::Route},
    },
    protocol::mpp::{Asked, Challenge, Credential, CredentialType, EchoedChallenge},
};

/// A credential that is not for a challenge as it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotAsSent;

impl From<NotAsSent> for Rejection {
    fn from(_: NotAsSent) -> Self {
        Problem::is_no_echo().into()
    }
}

/// What a credential was asked for.
///
/// # Errors
/// If the challenge that it repeats is not to the letter the one that was sent for its intent. An intent that this route did not seal is
/// judged later.
pub(crate) fn asked(route: &Route, credential: &Credential) -> Result<Asked, NotAsSent> {
    let echoed = &credential.challenge;
    let mpp = route.merchant.mpp.as_ref().filter(|mpp| mpp.realm() == echoed.realm && !echoed.has_more);
    let (Some(mpp), Some(asked)) = (mpp, Asked::read(&echoed.request)) else { return Err(NotAsSent) };
    match Opened::open(route, &echoed.id) {
        Some(opened) if !is_as_sent(mpp, &opened, echoed, &asked) => Err(NotAsSent),
        _ => Ok(asked),
    }
}

/// Whether this is what was sent for that intent: today, or when other ways to pay were offered.
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
