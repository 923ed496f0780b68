//! `Route`: the settings of one priced route, as every stage of a checkout reads them.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderName, Method};

use crate::{
    discovery::Bazaar,
    metrics::Quotes,
    paywall::{
        body::arrival::Pace,
        error::BuildError,
        seller::{
            bypass::Bypass,
            catalog::Listing,
            chain::SellingChain,
            consumption::{BodyRule, ConsumeRule},
            demands::{Demands, Offers},
            inner::MerchantInner,
            nested::Nested,
            pass::{terms::PassTerms, ticket::Tickets},
            pricing::{Prices, Tariff},
            quote_page::PageHook,
            redelivery::Redelivery,
            text,
        },
    },
    protocol::{Address, Amount, PriceText, QuoteTemplate, Seals, Terms, delivers, v2::Extensions},
};

/// One priced route: its merchant, its price, and how its requests are read and sold.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) merchant: Arc<MerchantInner>,
    pub(crate) resource: Arc<str>,
    /// What all routes of this name share.
    pub(crate) listing: Listing,
    pub(crate) prices: Prices,
    /// The quote in the crate's own headers, once its label is final.
    template: OnceLock<QuoteTemplate>,
    /// The quote in the formats of x402 and MPP, once the ways to pay are known.
    demands: OnceLock<Demands>,
    /// The same, if the handler sets the charge.
    metered_demands: OnceLock<Demands>,
    /// Ready if the price, or its maximum, is the same for every request.
    price_text: Option<PriceText>,
    pub(crate) seals: Seals,
    pub(crate) bypass: Bypass,
    pub(crate) body_limit: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) body_rate: u32,
    pub(crate) price_timeout: Duration,
    pub(crate) header_only: bool,
    /// Whether the handler sees `Range` and `If-Range`.
    pub(crate) keep_ranges: bool,
    /// Whether the proof is removed from the request before the handler sees it.
    pub(crate) strip_proof: bool,
    pub(crate) bind: bool,
    /// Headers that the digest of a request covers, sorted.
    pub(crate) bound_headers: Vec<HeaderName>,
    pub(crate) consumes: Arc<ConsumeRule>,
    /// Decides about the answers that `consumes` sells, if set.
    pub(crate) consumes_body: Option<BodyRule>,
    /// The longest body that `consumes_body` judges.
    pub(crate) answer_limit: usize,
    /// Whether a signed payment is settled before the handler runs.
    pub(crate) settle_first: bool,
    /// Whether payments of the whole price are offered although the handler sets the charge.
    pub(crate) or_fixed: bool,
    /// Whether the handler may set the charge by a header.
    pub(crate) charge_header: bool,
    /// How answers are kept, if the route sets that itself.
    redelivery: Option<Redelivery>,
    /// The page that people get instead of JSON.
    pub(crate) page: Option<PageHook>,
    /// The descriptions of its calls, if the seller gave any.
    bazaars: Vec<Bazaar>,
    /// Passes that count here, in the order of its quotes.
    pub(crate) passes: Vec<Arc<PassTerms>>,
    /// The pass that is sold here.
    pub(crate) sells_pass: Option<Arc<PassTerms>>,
    /// Issues the tickets for sold answers, if the route has them.
    pub(crate) tickets: Option<Tickets>,
    /// Whether another price was met inside this one.
    pub(crate) nested: Nested,
    pub(crate) quotes: Quotes,
}

impl Route {
    pub(crate) fn new(merchant: Arc<MerchantInner>, resource: Arc<str>, listing: Listing, prices: Prices) -> Self {
        let seals =
            Seals::new(&merchant.keys, &merchant.realm, merchant.first().network, &merchant.recipients, &resource);
        let price_text = match prices {
            Prices::Fixed(amount) | Prices::UpTo(amount) => Some(PriceText::new(amount, merchant.decimals())),
            _ => None,
        };
        let page = merchant.page.clone();
        let quotes = Quotes::of(&resource);
        Self {
            merchant,
            resource,
            listing,
            prices,
            template: OnceLock::new(),
            demands: OnceLock::new(),
            metered_demands: OnceLock::new(),
            price_text,
            seals,
            bypass: Bypass::default(),
            body_limit: 64 * 1024,
            body_timeout: Duration::from_secs(10),
            body_rate: 8 * 1024,
            price_timeout: Duration::from_secs(10),
            header_only: false,
            keep_ranges: false,
            strip_proof: false,
            bind: false,
            bound_headers: Vec::new(),
            consumes: Arc::new(delivers),
            consumes_body: None,
            answer_limit: 1024 * 1024,
            settle_first: false,
            or_fixed: false,
            charge_header: false,
            redelivery: None,
            page,
            bazaars: Vec::new(),
            passes: Vec::new(),
            sells_pass: None,
            tickets: None,
            nested: Nested::default(),
            quotes,
        }
    }

    /// Sets the label of its name, unless there is another.
    pub(crate) fn set_label(&self, label: &str) -> Result<(), BuildError> {
        self.listing.set_label(&self.resource, label)
    }

    /// Returns the quote in the crate's own headers.
    pub(crate) fn template(&self) -> &QuoteTemplate {
        self.template.get_or_init(|| self.template_saying(self.description()))
    }

    pub(crate) fn add_bazaar(&mut self, bazaar: Bazaar) {
        self.bazaars.push(bazaar);
        self.forget_demands();
    }

    /// Offers payments of the whole price, although the handler sets the charge.
    pub(crate) fn offer_fixed(&mut self) {
        self.or_fixed = true;
        self.forget_demands();
    }

    fn forget_demands(&mut self) {
        (self.demands, self.metered_demands) = (OnceLock::new(), OnceLock::new());
    }

    /// Returns the tariff of a price up to which the handler charges.
    pub(crate) const fn up_to(&self) -> Tariff {
        if self.or_fixed { Tariff::UpToOrFixed } else { Tariff::UpTo }
    }

    pub(crate) fn set_redelivery(&mut self, redelivery: Redelivery) {
        self.redelivery = Some(redelivery);
    }

    /// Returns how answers are kept: as the route sets it, else as its page does. `None` if they are not, or the ledger keeps no answers.
    pub(crate) fn redelivery(&self) -> Option<Redelivery> {
        let of_page = || self.page.as_ref().and_then(PageHook::redelivery);
        let redelivery = self.redelivery.or_else(of_page).filter(Redelivery::is_on);
        redelivery.filter(|_| self.merchant.ledger.keeps_answers())
    }

    /// Returns the names of the parameters that its descriptions know, at any depth.
    pub(crate) fn parameters(&self) -> Vec<String> {
        let mut names: Vec<_> = self.bazaars.iter().flat_map(Bazaar::parameters).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns whether every description of requests of this method says what is in the answer, which is then JSON.
    pub(crate) fn answers_json(&self, method: &Method) -> bool {
        let mut described = self.bazaars.iter().filter(|bazaar| bazaar.takes(method)).peekable();
        described.peek().is_some() && described.all(Bazaar::answers_json)
    }

    /// Returns the description of requests of this method, for the settler.
    pub(crate) fn bazaar(&self, method: &Method) -> Extensions {
        let known = self.bazaars.iter().find(|bazaar| bazaar.takes(method));
        known.map(Bazaar::extensions).unwrap_or_default()
    }

    /// Returns whether intents carry a digest of the request, so that its body must be read.
    pub(crate) fn binds(&self) -> bool {
        self.bind || self.prices.depends_on_request()
    }

    /// Returns the terms of a payment to one of the merchant's recipients, on one of its networks.
    pub(crate) fn terms(&self, chain: &SellingChain, recipient: Address, amount: Amount) -> Terms {
        Terms::builder(chain.network, recipient, amount)
            .resource(Arc::clone(&self.resource))
            .assets(Arc::clone(&chain.accepted))
            .max_payment_age(self.merchant.max_payment_age)
            .build()
    }

    /// Returns how fast a body must keep arriving while a payment is held for it.
    pub(crate) fn pace(&self) -> Pace {
        Pace { patience: self.body_timeout, rate: self.body_rate.into() }
    }

    /// Returns the label for a quote: the valid part of this one, or the route's own if that is blank.
    pub(crate) fn fitting<'a>(&'a self, label: &'a str) -> Cow<'a, str> {
        let label = text::fit(label);
        if label.trim().is_empty() { self.description().into() } else { label.trim().to_owned().into() }
    }

    /// Returns the quote with another label.
    pub(crate) fn template_saying(&self, label: &str) -> QuoteTemplate {
        let quote = template(&self.merchant, label);
        if self.passes.is_empty() {
            return quote;
        }
        let decimals = self.merchant.decimals();
        let passes: Vec<_> = self.passes.iter().map(|pass| pass.described(decimals)).collect();
        quote.with_member("passes", &passes.into())
    }

    /// Adds a pass that this route takes.
    pub(crate) fn accept_pass(&mut self, pass: Arc<PassTerms>) {
        self.merchant.catalog.accept_pass(&self.resource, &pass);
        self.passes.push(pass);
        self.template = OnceLock::new();
        self.forget_demands();
    }

    /// Returns whether the header with a pass or a ticket is read. If not, it has no meaning here.
    pub(crate) fn takes_passes(&self) -> bool {
        !self.passes.is_empty() || self.tickets.is_some() || self.merchant.catalog.has_passes()
    }

    pub(crate) fn description(&self) -> &str {
        self.listing.label(&self.resource)
    }

    /// Returns the quote in the formats of x402 and MPP. `offers` returns the ways to pay.
    pub(crate) fn demands(&self, tariff: Tariff, offers: Offers) -> Cow<'_, Demands> {
        let known = if tariff.is_metered() { &self.metered_demands } else { &self.demands };
        let new = || self.demands_saying(self.description(), tariff, offers);
        if known.get().is_none() && !self.merchant.knows_ways_to_pay() {
            return Cow::Owned(new());
        }
        Cow::Borrowed(known.get_or_init(new))
    }

    /// Returns the same with another label.
    pub(crate) fn demands_saying(&self, label: &str, tariff: Tariff, offers: Offers) -> Demands {
        Demands::new(&self.merchant, self.template(), &self.bazaars, label, (tariff, offers))
    }

    /// Returns this amount as a quote writes it.
    pub(crate) fn price_text(&self, amount: Amount) -> Cow<'_, PriceText> {
        match &self.price_text {
            Some(ready) => Cow::Borrowed(ready),
            None => Cow::Owned(PriceText::new(amount, self.merchant.decimals())),
        }
    }
}

fn template(merchant: &MerchantInner, label: &str) -> QuoteTemplate {
    let SellingChain { network, assets, .. } = &**merchant.first();
    QuoteTemplate::new(merchant.recipient(), *network, label, assets, merchant.unbound.refuse)
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("resource", &self.resource)
            .field("listing", &self.listing)
            .field("prices", &self.prices)
            .field("bypass", &self.bypass)
            .field("body_limit", &self.body_limit)
            .field("body_timeout", &self.body_timeout)
            .field("body_rate", &self.body_rate)
            .field("header_only", &self.header_only)
            .field("keep_ranges", &self.keep_ranges)
            .field("strip_proof", &self.strip_proof)
            .field("bind", &self.bind)
            .field("bound_headers", &self.bound_headers)
            .field("consumes_body", &self.consumes_body.is_some())
            .field("answer_limit", &self.answer_limit)
            .field("settle_first", &self.settle_first)
            .field("or_fixed", &self.or_fixed)
            .field("charge_header", &self.charge_header)
            .field("redelivery", &self.redelivery)
            .field("passes", &self.passes)
            .field("tickets", &self.tickets)
            .field("page", &self.page)
            .finish_non_exhaustive()
    }
}
