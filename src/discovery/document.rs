//! `Discovery`: documents about a merchant's offer.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    operation::{Shop, operation, pass_text, price_text},
    storefront::{Described, Storefront},
};

/// Answers programs that look for something to buy: `GET /openapi.json`, `/.well-known/x402`, `/llms.txt` and `/`.
///
/// A tower service over requests of any body; it takes no payment. It answers any other path with 404, so that it can
/// be an axum router's `fallback_service`. Or mount it at single paths by `route_service`. See the
/// [module](crate::discovery) for the documents.
///
/// The URLs in them are the merchant's [`public_url`](crate::MerchantBuilder::public_url), or else the host that the
/// request named. Behind a proxy, set `public_url`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Discovery {
    seller: Arc<dyn Storefront>,
    title: String,
    version: String,
    about: Option<String>,
}

impl Discovery {
    pub(crate) fn new(seller: Arc<dyn Storefront>) -> Self {
        Self { seller, title: "Priced answers".to_owned(), version: "1".to_owned(), about: None }
    }

    /// Sets the title of the service; `Priced answers` by default.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the version of the service's interface; `1` by default.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the description of the service, in CommonMark.
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }

    /// Returns the OpenAPI document, for a service that is reached at this URL, such as `https://shop.example`.
    #[must_use]
    pub fn openapi(&self, url: &str) -> Value {
        let mut info = json!({ "title": self.title, "version": self.version, "x-guidance": self.guidance() });
        if let Some(about) = &self.about {
            info["description"] = about.as_str().into();
        }
        if let Some((kind, contact)) = self.contact() {
            info["contact"] = json!({ kind: contact });
        }
        json!({
            "openapi": "3.1.0",
            "info": info,
            "servers": [{ "url": url.trim_end_matches('/') }],
            "security": [],
            "paths": self.paths(),
        })
    }

    /// Returns only the `paths` of that document, to merge into another one. They refer to nothing outside.
    #[must_use]
    pub fn paths(&self) -> Value {
        let shop = self.shop();
        let (mut paths, mut ids) = (Map::new(), BTreeSet::new());
        for described in self.described() {
            let item = paths.entry(described.endpoint.path.clone()).or_insert_with(|| json!({}));
            let method = described.endpoint.method.as_str().to_ascii_lowercase();
            item[method] = operation(&shop, &described, &mut ids);
        }
        paths.into()
    }

    /// Returns the answer to `/.well-known/x402`, for a service that is reached at this URL.
    #[must_use]
    pub fn well_known(&self, url: &str) -> Value {
        let url = url.trim_end_matches('/');
        let described = self.described();
        let plain = described.iter().filter(|described| described.endpoint.path_parameters().next().is_none());
        let resources: BTreeSet<String> = plain.map(|described| format!("{url}{}", described.endpoint.path)).collect();
        let mut told = json!({
            "version": 1, "resources": resources, "instructions": self.guidance(), "openapi": format!("{url}/openapi.json"),
        });
        let passes = passes(&described);
        if !passes.is_empty() {
            told["passes"] = passes.into_iter().cloned().collect();
        }
        told
    }

    /// Returns the whole offer as Markdown text, for a service that is reached at this URL.
    #[must_use]
    pub fn text(&self, url: &str) -> String {
        let shop = self.shop();
        let mut text = format!("# {}\n\n", self.title);
        if let Some(about) = &self.about {
            text.push_str(&format!("> {}\n\n", about.replace('\n', "\n> ")));
        }
        text.push_str("## Endpoints\n\n");
        for described in self.described() {
            let endpoint = &described.endpoint;
            let summary = endpoint.summary.as_deref().unwrap_or(&described.label);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "- {} {}: {summary}. {}.",
                endpoint.method,
                endpoint.path,
                price_text(&shop, &described)
            );
            for pass in &described.passes {
                let _ = writeln!(text, "  Or by {}.", pass_text(&shop, pass));
            }
            if let Some(example) = &endpoint.example {
                let _ = writeln!(text, "  Example: {example}");
            }
        }
        let url = url.trim_end_matches('/');
        let _ = write!(text, "\n## How to pay\n\n{}\n\nThe same with schemas: {url}/openapi.json\n", self.guidance());
        text
    }

    /// Returns the information that a program needs to buy.
    fn guidance(&self) -> String {
        let shop = self.shop();
        let mut text = String::from(
            "Send the request as it is: the answer is 402, with the price and a quote in its headers. No account is needed.",
        );
        if shop.takes_x402 {
            text.push_str(
                " Clients of x402, version 2, pay by PAYMENT-REQUIRED and PAYMENT-SIGNATURE, and get the answer.",
            );
        }
        if self.seller.takes_transfers() {
            let networks = self.seller.networks();
            let _ = write!(
                text,
                " Or send the {} that the header Pay asks for, on {}, and repeat the request with the header x402-payment: \
                 {{\"intentId\":\"…\",\"txHash\":\"0x…\"}}, where the intent is that of X-Price-Intent. A 409 with Retry-After says when \
                 to ask again.",
                shop.symbol,
                networks.first().map(ToString::to_string).unwrap_or_default()
            );
            if let [_, others @ ..] = &networks[..]
                && !others.is_empty()
            {
                let others: Vec<_> = others.iter().map(ToString::to_string).collect();
                let _ = write!(
                    text,
                    " {} may be paid on {} as well: then x402-payment names the network by a member `chainId`, a number.",
                    shop.symbol,
                    others.join(", ")
                );
            }
        }
        if !passes(&self.described()).is_empty() {
            text.push_str(
                " A pass holds many answers: it is bought like one of them, at its address, and shown with each request in the header x402-pass.",
            );
        }
        if let (Some(required), true) = (shop.names_required, shop.takes_x402) {
            text.push_str(match required {
                true => " A signed payment must name its purchase",
                false => {
                    " A signed payment may name its purchase, which is then charged once, however often it is signed"
                }
            });
            text.push_str(": in the extension payment-identifier");
            text.push_str(if shop.mpp_tokens.is_empty() { "." } else { ", in MPP in the header Idempotency-Key." });
        }
        text
    }

    /// Returns the seller's contact in the form of OpenAPI; `None` if the text is neither a URL nor an email address.
    fn contact(&self) -> Option<(&'static str, &str)> {
        let contact = self.seller.contact()?;
        if contact.starts_with("https://") || contact.starts_with("http://") {
            return Some(("url", contact));
        }
        let (name, host) = contact.split_once('@')?;
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'@');
        (plain(name) && plain(host)).then_some(("email", contact))
    }

    fn described(&self) -> Vec<Described> {
        self.seller.described()
    }

    fn shop(&self) -> Shop<'_> {
        let (symbol, decimals) = (self.seller.symbol(), self.seller.decimals());
        let (takes_x402, mpp_tokens) = (self.seller.takes_x402(), self.seller.mpp_tokens());
        Shop { symbol, decimals, takes_x402, mpp_tokens, names_required: self.seller.names_required() }
    }

    pub(super) fn public_url(&self) -> Option<&str> {
        self.seller.public_url()
    }
}

/// Returns the passes that are valid at any endpoint, each once.
fn passes(described: &[Described]) -> Vec<&Value> {
    let mut passes: Vec<&Value> = Vec::new();
    for pass in described.iter().flat_map(|described| &described.passes) {
        if !passes.contains(&pass) {
            passes.push(pass);
        }
    }
    passes
}
