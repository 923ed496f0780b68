//! Builds the shop that a configuration describes: a merchant, and a layer for each priced route.

use tower_layer::Layer as _;
use tower_x402::{BuildError, HealthError, Merchant, MerchantBuilder, Redelivery, page::Page};

use super::{
    config::{Action, Cost, McpConfig, Offer, Shelf},
    failure::Failure,
    gateway::Generation,
    proxy::Proxy,
    ready::Readiness,
    routes::{Route, Routes, Sold, Target},
};

/// The longest body, in bytes, of a request to a metered route: it is read before the quote.
const METERED_BODY: usize = 1024 * 1024;

/// Builds the whole shop anew. Earlier quotes stay valid, because keys and names of resources persist.
///
/// # Errors
/// Fails if a setting does not fit.
pub(crate) async fn open(merchant: MerchantBuilder, shelf: &Shelf, proxy: &Proxy) -> Result<Generation, Failure> {
    let merchant = built(merchant).await?;
    let mut routes = Vec::new();
    for route in &shelf.routes {
        let target = target(&merchant, &route.action, proxy)?;
        routes.push(Route { pattern: route.pattern.clone(), target });
    }
    let default = target(&merchant, &shelf.default, proxy)?;
    let ready = Readiness::of(&merchant);
    let mcp = shelf.mcp.as_ref().map(|config| tools(&merchant, config, proxy)).transpose();
    let mcp = mcp.map_err(|error| Failure::usage(format!("[mcp]: {error}")))?;
    Ok(Generation { routes: Routes { routes, default, mcp }, ready })
}

/// Builds a merchant.
///
/// # Errors
/// Fails if a setting does not fit, or a backend does not answer.
pub(crate) async fn built(merchant: MerchantBuilder) -> Result<Merchant, Failure> {
    merchant.build().await.map_err(|error| match error {
        BuildError::Health(HealthError::Verifier(error)) if error.is_transient() => Failure::environment(error),
        BuildError::Health(HealthError::Ledger(error)) => Failure::environment(error),
        other => Failure::usage(other),
    })
}

fn tools(merchant: &Merchant, config: &McpConfig, proxy: &Proxy) -> Result<Route, BuildError> {
    let mut layer = merchant.tools();
    for (tool, price) in &config.tools {
        layer = match price {
            Some(price) => layer.charge(tool, *price)?,
            None => layer.free(tool),
        };
    }
    // Agents give a tool little time, then ask again.
    layer = layer.redeliver(Redelivery::default());
    if config.deny_unlisted {
        layer = layer.deny_unlisted();
    }
    Ok(Route { pattern: config.path.clone(), target: Target::Tools(layer.layer(proxy.clone())) })
}

fn target(merchant: &Merchant, action: &Action, proxy: &Proxy) -> Result<Target, Failure> {
    match action {
        Action::Free => Ok(Target::Free),
        Action::Deny => Ok(Target::Deny),
        Action::Sell(offer) => sold(merchant, offer, proxy)
            .map_err(|error| Failure::usage(format!("the route {}: {error}", offer.resource))),
    }
}

fn sold(merchant: &Merchant, offer: &Offer, proxy: &Proxy) -> Result<Target, BuildError> {
    let layer = match offer.price {
        Cost::Fixed(price) => merchant.charge(&offer.resource, price)?,
        Cost::UpTo(most) => {
            merchant.charge_up_to(&offer.resource, most)?.charge_by_header().body_limit(METERED_BODY)?
        }
    };
    let mut layer = layer.label(&offer.label)?.strip_proof();
    if let Some(kept) = offer.redeliver {
        layer = layer.redeliver(Redelivery::lasting(kept));
    }
    if offer.page {
        layer = layer.page(Page::new().title(&offer.label));
    }
    Ok(Target::Sell(Sold { service: layer.layer(proxy.clone()), most: offer.price.most(), page: offer.page }))
}

impl Shelf {
    /// Returns the names and prices of everything that is sold.
    pub(crate) fn offers(&self) -> impl Iterator<Item = (String, Cost)> {
        let actions = self.routes.iter().map(|route| &route.action).chain([&self.default]);
        let routes = actions.filter_map(|action| match action {
            Action::Sell(offer) => Some((offer.resource.clone(), offer.price)),
            Action::Free | Action::Deny => None,
        });
        let tools = self.mcp.iter().flat_map(|mcp| &mcp.tools);
        routes.chain(tools.filter_map(|(tool, price)| Some((format!("mcp/{tool}"), Cost::Fixed((*price)?)))))
    }
}
