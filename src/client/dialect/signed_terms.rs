//! `SignedTerms`: the terms that a signed payment of any kind meets.

use super::{AuthorizationTerms, ChannelTerms, PermitTerms};
use crate::{
    client::JournalEntry,
    protocol::{IntentId, Quote},
};

/// One way to pay by a signature.
#[derive(Clone, Copy)]
pub(crate) enum SignedTerms<'a> {
    Authorization(&'a AuthorizationTerms),
    Permit(&'a PermitTerms),
    Channel(&'a ChannelTerms),
}

impl<'a> SignedTerms<'a> {
    pub(crate) const fn quote(self) -> &'a Quote {
        match self {
            Self::Authorization(terms) => &terms.quote,
            Self::Permit(terms) => &terms.quote,
            Self::Channel(terms) => &terms.quote,
        }
    }

    /// Returns whether the seller names an intent, so that each of its quotes has another one.
    pub(crate) fn has_intent(self) -> bool {
        match self {
            Self::Authorization(terms) => terms.intent.is_some(),
            Self::Permit(terms) => terms.has_intent(),
            Self::Channel(terms) => terms.has_intent(),
        }
    }

    /// Returns the new intent and message under which a purchase's payment is shown; `None` if they stay. Permits and
    /// vouchers are never redeemed by a transaction, so they have no intent.
    pub(crate) fn renewal_of(self, entry: &JournalEntry) -> Option<(Option<&'a IntentId>, String)> {
        match self {
            Self::Authorization(terms) => Some((terms.intent.as_ref(), terms.message_for(entry)?)),
            Self::Permit(terms) => Some((None, terms.message(entry.permit()?, entry.id))),
            Self::Channel(terms) => Some((None, terms.message(&entry.vouched()?.payload, entry.id))),
        }
    }
}
