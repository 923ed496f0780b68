//! `--check`: what the configuration sells, without contacting anything.

use std::io::{self, Write as _};

use http::Method;

use super::{
    backends,
    config::{Action, Config, Offer, RouteConfig, SettlerConfig, Shelf},
    failure::Failure,
    log::TARGET,
    shop, units,
};

/// Checks everything that needs no network, and prints what would be sold.
///
/// # Errors
/// Fails on the first setting that does not fit.
pub(crate) async fn check(config: &Config) -> Result<(), Failure> {
    let merchant = backends::offline(&config.fixed)?;
    // The MCP endpoint needs a settler to be built; the reader has checked it in full.
    let shelf = Shelf { mcp: None, ..config.shelf.clone() };
    shop::open(merchant, &shelf, &backends::proxy(&config.fixed)?).await?;
    let shown = shown(config).iter().map(|line| format!("{line}\n")).collect::<String>();
    let written = io::stdout().write_all(shown.as_bytes());
    written.map_err(|error| Failure::environment(format!("cannot write: {}", error.kind())))
}

/// Logs at the start what is sold, and who is paid.
pub(crate) fn announce(config: &Config) {
    for line in shown(config) {
        tracing::info!(target: TARGET, "{line}");
    }
}

fn shown(config: &Config) -> Vec<String> {
    let fixed = &config.fixed;
    let mut lines = vec![
        format!("{} is paid; sales are recorded in {}", fixed.recipient, fixed.ledger.name()),
        format!("requests to {} go to {}", fixed.listen, fixed.upstream),
    ];
    for network in &fixed.networks {
        let tokens: Vec<_> =
            network.tokens.iter().map(|token| format!("{} {}", token.symbol(), token.contract())).collect();
        let settled = match network.settler {
            Some(SettlerConfig::Key(_)) => "signed payments, settled with our own key, and transfers",
            Some(SettlerConfig::Facilitator(_)) => "signed payments, settled by a facilitator, and transfers",
            None => "transfers only",
        };
        lines.push(format!("{}: {} ({settled})", network.network, tokens.join(", ")));
    }
    let asset = &fixed.first().tokens[0];
    let action = |action: &Action| match action {
        Action::Free => "free".to_owned(),
        Action::Deny => "404".to_owned(),
        Action::Sell(offer) => {
            let upto = if offer.price.is_metered() { "up to " } else { "" };
            let price = offer.price.most().to_decimal(asset.decimals());
            format!("{upto}{price} {}{}", asset.symbol(), details(offer))
        }
    };
    for route in &config.shelf.routes {
        lines.push(format!("{}: {}{}", route.pattern, action(&route.action), forms(route)));
    }
    if let Some(mcp) = &config.shelf.mcp {
        for (tool, price) in &mcp.tools {
            let price = price.map(|price| format!("{} {}", price.to_decimal(asset.decimals()), asset.symbol()));
            lines.push(format!("tool {tool} at {}: {}", mcp.path, price.as_deref().unwrap_or("free")));
        }
        let others = if mcp.deny_unlisted { "refused" } else { "free" };
        lines.push(format!("all other tools at {}: {others}", mcp.path));
    }
    lines.push(format!("everything else: {}", action(&config.shelf.default)));
    lines
}

/// Returns a note if the page takes over POSTs that the service's own forms may use.
fn forms(route: &RouteConfig) -> &'static str {
    match &route.action {
        Action::Sell(offer) if offer.page && !route.pattern.takes(&Method::POST) => {
            " (forms posted there are taken for the page's, unless a route names their POST)"
        }
        _ => "",
    }
}

fn details(offer: &Offer) -> String {
    let kept = offer.redeliver.filter(|kept| !kept.is_zero());
    let kept = kept.map(|kept| format!(", kept for {}", units::time(kept))).unwrap_or_default();
    let page = if offer.page { ", with a page" } else { "" };
    format!(" for \"{}\"{kept}{page}", offer.label)
}
