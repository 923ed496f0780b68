//! What the benchmarks measure and no user calls: not public, for all that it can be reached.

use std::hint::black_box;

use super::{
    Address, Amount, Asset, IntentId, IntentTerms, Network, PriceText, QuoteTemplate, RedeemBy, ScanResult,
    SealingKeys, Seals, scan_body,
};

/// A route's seals, and its quote with all but the intent written.
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
        let template = QuoteTemplate::new(recipient, network, "Demand insights", &[Asset::USDC_BASE]);
        let seals = Seals::new(&SealingKeys::new([7; 32]), "", network, &[recipient], "demand-insights");
        Self { terms, seals, price: template.price(amount), template }
    }
}

impl Desk {
    /// An intent id.
    #[must_use]
    pub fn seal(&self) -> Vec<u8> {
        let mut intent = Vec::with_capacity(192);
        self.seals.seal_into(&self.terms, &mut intent);
        intent
    }

    /// Whether this is one.
    #[must_use]
    pub fn open(&self, intent: &IntentId) -> bool {
        black_box(self.seals.open(intent)).is_some()
    }

    /// A quote's body and headers, with this for an intent.
    #[must_use]
    pub fn quote(&self, intent: &[u8]) -> http::HeaderMap {
        self.template
            .render(&self.price, self.terms.expiry(), RedeemBy::Any, |out| out.extend_from_slice(intent))
            .headers
    }
}

/// Whether this body has a proof.
#[must_use]
pub fn has_proof(body: &[u8]) -> bool {
    matches!(scan_body(body), ScanResult::Proof(_))
}
