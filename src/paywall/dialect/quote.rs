//! `Bill`: a quote as both dialects say it.

use std::borrow::Cow;

use http::Method;

use crate::{
    paywall::seller::route::{Offers, Route},
    protocol::{
        Challenge, Challenged, IntentTerms, ProblemCode, QuoteTemplate, RedeemBy, RenderedQuote, ResourceUrl,
        v2::Reason,
    },
};

/// A quote in both dialects, but for what hangs on the request.
pub(crate) struct Bill<'a> {
    template: Cow<'a, QuoteTemplate>,
    challenge: Option<Cow<'a, Challenge>>,
    pub(crate) label: Cow<'a, str>,
}

impl<'a> Bill<'a> {
    pub(crate) fn of(route: &'a Route, offers: Offers) -> Self {
        let label = Cow::Borrowed(route.description());
        Self { template: Cow::Borrowed(route.template()), challenge: route.challenge(offers), label }
    }

    pub(crate) fn saying(route: &'a Route, label: &'a str, offers: Offers) -> Self {
        let label = route.fitting(label);
        let challenge = route.challenge_saying(&label, offers).map(Cow::Owned);
        Self { template: Cow::Owned(route.template_saying(&label)), challenge, label }
    }

    /// Whether there is any way to pay: a transfer cannot be seen where nothing reads the chain.
    pub(crate) fn can_be_paid(&self, route: &Route) -> bool {
        self.challenge.is_some() || route.merchant.first().reader().is_some()
    }

    /// Seals an intent of these terms, and writes the quote for it; with the reason why a payment was `refused`, where one was.
    pub(crate) fn render<'u>(
        &self,
        route: &Route,
        terms: &IntentTerms,
        redeem_by: RedeemBy,
        method: &Method,
        refused: Option<&Reason>,
        url: impl FnOnce() -> ResourceUrl<'u>,
    ) -> RenderedQuote {
        let price = route.price_text(terms.amount);
        let standard = self.challenge.as_deref().map(|challenge| Challenged {
            challenge,
            method,
            url: url(),
            error: refused.map(Reason::as_str),
        });
        let seal = |out: &mut Vec<u8>| route.seals.seal_into(terms, out);
        let mut quote = self.template.render(&price, terms.expiry(), redeem_by, standard.as_ref(), seal);
        if route.merchant.first().reader().is_none() {
            quote.ask_for_signature();
        }
        if let Some(reason) = refused {
            quote.explain(ProblemCode::AuthorizationRefused, reason);
        }
        quote
    }
}
