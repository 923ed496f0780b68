//! `Bill`: a quote in all formats.

use std::borrow::Cow;

use http::{HeaderMap, Method};

use crate::{
    paywall::{
        dialect::mpp::ask_for_credential,
        seller::{
            demands::{Demands, Offers},
            pricing::Tariff,
            route::Route,
        },
    },
    protocol::{
        Challenged, IntentTerms, ProblemCode, QuoteTemplate, RedeemBy, RenderedQuote, ResourceUrl, channel::Correction,
        mpp::accepts_charge, v2::Reason,
    },
};

/// A quote in all formats, except for what depends on the request.
pub(crate) struct Bill<'a> {
    template: Cow<'a, QuoteTemplate>,
    demands: Cow<'a, Demands>,
    tariff: Tariff,
    /// Whether its reader may pay by MPP.
    mpp: bool,
    pub(crate) label: Cow<'a, str>,
    /// What the payer of a channel has to know, if it lost count.
    correction: Option<&'a Correction>,
}

impl<'a> Bill<'a> {
    pub(crate) fn of(route: &'a Route, tariff: Tariff, offers: Offers) -> Self {
        let (label, demands) = (Cow::Borrowed(route.description()), route.demands(tariff, offers));
        Self { template: Cow::Borrowed(route.template()), demands, tariff, mpp: true, label, correction: None }
    }

    pub(crate) fn saying(route: &'a Route, label: &'a str, tariff: Tariff, offers: Offers) -> Self {
        let label = route.fitting(label);
        let demands = Cow::Owned(route.demands_saying(&label, tariff, offers));
        Self {
            template: Cow::Owned(route.template_saying(&label)),
            demands,
            tariff,
            mpp: true,
            label,
            correction: None,
        }
    }

    /// Adapts the bill to a client that names the payments it can make, if these headers do.
    pub(crate) fn accepted_by(mut self, headers: &HeaderMap) -> Self {
        self.mpp = !self.demands.mpp.is_empty() && accepts_charge(headers);
        self
    }

    /// Adds a correction for the payer of a channel.
    pub(crate) fn correcting(self, correction: Option<&'a Correction>) -> Self {
        Self { correction, ..self }
    }

    /// Returns whether there is any way to pay. A transfer cannot be seen where nothing reads the chain.
    pub(crate) fn can_be_paid(&self, route: &Route) -> bool {
        self.demands.x402.is_some() || self.asks_for_transfer(route)
    }

    /// Returns whether the crate's own headers ask for a transfer.
    fn asks_for_transfer(&self, route: &Route) -> bool {
        self.tariff.offers_fixed() && route.merchant.first().reader().is_some()
    }

    /// Returns the challenges of MPP for a quote of these terms, as JSON.
    #[cfg(feature = "mcp")]
    pub(crate) fn challenges(&self, quote: &RenderedQuote, terms: &IntentTerms) -> Vec<String> {
        let intent = String::from_utf8_lossy(quote.intent());
        self.demands.mpp.iter().map(|challenge| challenge.to_json(&intent, terms.amount, terms.expiry())).collect()
    }

    /// Returns whether it can be paid by the standard.
    #[cfg(feature = "mcp")]
    pub(crate) fn has_standard(&self) -> bool {
        self.demands.x402.is_some()
    }

    /// Seals an intent of these terms, and writes the quote for it, with the reason why a payment was `refused`, if one was.
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
        let standard = self.demands.x402.as_ref().map(|challenge| Challenged {
            challenge,
            method,
            url: url(),
            error: refused.map(Reason::as_str),
            correction: self.correction,
        });
        let seal = |out: &mut Vec<u8>| route.seals.seal_into(terms, out);
        let mut quote = self.template.render(&price, terms.expiry(), redeem_by, standard.as_ref(), seal);
        if !self.asks_for_transfer(route) {
            quote.ask_for_signature();
        }
        let mut code = ProblemCode::PaymentRequired;
        if let Some(reason) = refused {
            code = ProblemCode::AuthorizationRefused;
            quote.explain(code, reason);
        }
        if self.mpp {
            ask_for_credential(&mut quote, &self.demands.mpp, terms, code);
        }
        quote
    }
}
