//! Entry points of the benchmarks (feature `bench-internals`). Not part of the public API: they change without notice.

use std::hint::black_box;

use super::{
    Address, Amount, Asset, IntentId, IntentTerms, Network, PriceText, QuoteTemplate, RedeemBy, ScanResult,
    SealingKeys, Seals, scan_body,
};

/// A route's seals, and its quote rendered up to the intent.
#[derive(Debug)]
pub struct Desk {
    terms: IntentTerms,
    seals: Seals,
    template: QuoteTemplate,
    price: PriceText,
}

impl Default for Desk {
    fn default() -> Self {
        let amount = Amount::from_base_units(490_000);
        let terms = IntentTerms { amount, issued: 1_795_280_000, lifetime: 900, digest: None };
        let (recipient, network) = (Address::new([0x5a; 20]), Network::BASE);
        let template = QuoteTemplate::new(recipient, network, "Demand insights", &[Asset::USDC_BASE], false);
        let seals = Seals::new(&SealingKeys::new([7; 32]), "", network, &[recipient], "demand-insights");
        Self { terms, seals, price: PriceText::new(amount, 6), template }
    }
}

impl Desk {
    /// Seals an intent id.
    #[must_use]
    pub fn seal(&self) -> Vec<u8> {
        let mut intent = Vec::with_capacity(192);
        self.seals.seal_into(&self.terms, &mut intent);
        intent
    }

    /// Returns whether an intent id opens.
    #[must_use]
    pub fn open(&self, intent: &IntentId) -> bool {
        black_box(self.seals.open(intent)).is_some()
    }

    /// Renders a quote with this intent, and returns its headers.
    #[must_use]
    pub fn quote(&self, intent: &[u8]) -> http::HeaderMap {
        self.template
            .render(&self.price, self.terms.expiry(), RedeemBy::Any, None, |out| out.extend_from_slice(intent))
            .headers
    }
}

/// Returns whether this body has a proof.
#[must_use]
pub fn has_proof(body: &[u8]) -> bool {
    matches!(scan_body(body), ScanResult::Proof(_))
}
