//! Converts the file as written to a [`Config`].

use std::{net::SocketAddr, path::Path, time::Duration};

use http::{Method, Uri};
use toml::Spanned;

use super::{
    super::{failure::Failure, keys, ledger::LedgerArg, routes::pattern::Pattern, secret::Secret, units},
    file::{self, File, Place, Text},
    money::{address, amount, cost, network, secret, variable},
    source::Source,
    values::{Action, Config, Fixed, McpConfig, NetworkConfig, Offer, RouteConfig, Shelf},
};

/// The default time that an upstream may take to begin its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The name under which requests without a matching route are sold.
const DEFAULT: &str = "default";

/// Reads and checks the file. Nothing is contacted.
///
/// # Errors
/// Fails with one line: the file, the line in it, the key, and what to write instead.
pub(crate) fn load(path: &Path) -> Result<Config, Failure> {
    read(&Source::read(path)?)
}

/// Checks the whole file.
///
/// # Errors
/// Fails with one line about the first error.
fn read(source: &Source) -> Result<Config, Failure> {
    let file: File = toml::from_str(source.text()).map_err(|error| source.unparsed(&error))?;
    let fixed = fixed(source, &file)?;
    let mut shelf = shelf(source, &file, &fixed)?;
    if let Some(written) = &file.mcp {
        let mcp = mcp(source, written, &fixed, &shelf.default)?;
        let hidden = shelf.routes.iter().position(|route| mcp.path.shadows(&route.pattern));
        if let Some(hidden) = hidden {
            let what = "route.match: [mcp] matches all of its requests, and goes before all routes; take it out";
            return Err(source.wrong(&file.route[hidden].get_ref().pattern.span(), what));
        }
        if mcp.path.is_root() && matches!(shelf.default, Action::Sell(_)) {
            let what = "mcp.path: where all paths may be the endpoint's, [default] cannot have a price; name what is sold in routes";
            return Err(source.wrong(&written.get_ref().path.span(), what));
        }
        shelf.mcp = Some(mcp);
    }
    Ok(Config { fixed, shelf })
}

fn fixed(source: &Source, file: &File) -> Result<Fixed, Failure> {
    let mut networks = Vec::new();
    for written in &file.network {
        let read = network(source, written.get_ref(), &written.span())?;
        if networks.iter().any(|known: &NetworkConfig| known.network == read.network) {
            return Err(source.wrong(&written.span(), "[[network]]: this network is named twice"));
        }
        networks.push(read);
    }
    if networks.is_empty() {
        return Err(source.wrong(&(0..0), "network: name at least one [[network]]"));
    }
    let former = file.former_recipients.iter().map(|text| address(source, "former_recipients", text));
    Ok(Fixed {
        listen: socket(source, "listen", &file.listen)?,
        status: file.status.as_ref().map(|text| socket(source, "status", text)).transpose()?,
        recipient: address(source, "recipient", &file.recipient)?,
        former_recipients: former.collect::<Result<_, _>>()?,
        sealing_keys: sealing_keys(source, file)?,
        ledger: ledger(source, file)?,
        public_url: file.public_url.as_ref().map(|url| public_url(source, url)).transpose()?,
        mpp: file.mpp.as_ref().map(|realm| realm.get_ref().clone()),
        networks,
        upstream: upstream(source, &file.upstream.url)?,
        timeout: file.upstream.timeout.as_ref().map_or(Ok(TIMEOUT), |text| {
            units::some_time(text.get_ref())
                .map_err(|why| source.wrong(&text.span(), format!("upstream.timeout: {why}")))
        })?,
    })
}

fn socket(source: &Source, key: &str, text: &Text) -> Result<SocketAddr, Failure> {
    let wrong =
        |_| source.wrong(&text.span(), format!("{key}: write an address and a port, such as \"127.0.0.1:4021\""));
    text.get_ref().parse().map_err(wrong)
}

fn sealing_keys(source: &Source, file: &File) -> Result<Secret, Failure> {
    let (text, key, at) = match (&file.sealing_key_file, &file.sealing_key_env) {
        (Some(path), None) => (secret(source, "sealing_key_file", path)?, "sealing_key_file", path.span()),
        (None, Some(name)) => {
            (variable(source, "sealing_key_env", name)?.replace(',', "\n"), "sealing_key_env", name.span())
        }
        (None, None) => {
            let what =
                "sealing_key_file: missing; make a key with `openssl rand -hex 32`, or let `x402-gateway init` do it";
            return Err(source.wrong(&(0..0), what));
        }
        (Some(_), Some(name)) => {
            return Err(source.wrong(&name.span(), "sealing_key_env: name it or sealing_key_file, not both"));
        }
    };
    keys::lines(&text).map_err(|why| source.wrong(&at, format!("{key}: {why}")))?;
    Ok(text.into())
}

fn ledger(source: &Source, file: &File) -> Result<LedgerArg, Failure> {
    let (text, key, at) = match (&file.ledger, &file.ledger_file, &file.ledger_env) {
        (Some(text), None, None) => (text.get_ref().clone(), "ledger", text.span()),
        (None, Some(path), None) => (secret(source, "ledger_file", path)?, "ledger_file", path.span()),
        (None, None, Some(name)) => (variable(source, "ledger_env", name)?, "ledger_env", name.span()),
        (None, None, None) => {
            let what = "ledger: missing; write where sales are recorded, such as \"sqlite:ledger.db\"";
            return Err(source.wrong(&(0..0), what));
        }
        _ => return Err(source.wrong(&(0..0), "ledger: name one of ledger, ledger_file and ledger_env")),
    };
    let ledger = LedgerArg::parse(text.trim()).map_err(|why| source.wrong(&at, format!("{key}: {why}")))?;
    match ledger {
        LedgerArg::Postgres(url) | LedgerArg::Redis(url) if key == "ledger" && has_password(&url) => {
            let what = "a password does not belong into this file: put the URL into a file or a variable of the \
                        environment, and name it by ledger_file or ledger_env";
            Err(source.wrong(&at, format!("ledger: {what}")))
        }
        LedgerArg::Sqlite(path) => Ok(LedgerArg::Sqlite(source.beside(&path.to_string_lossy()))),
        other => Ok(other),
    }
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || url.contains("password=")
}

fn public_url(source: &Source, text: &Text) -> Result<String, Failure> {
    let is_url = text.get_ref().parse::<Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.query().is_none() && url.authority().is_some()
    });
    if is_url {
        return Ok(text.get_ref().trim_end_matches('/').to_owned());
    }
    Err(source
        .wrong(&text.span(), "public_url: write an http or https URL without query, such as \"https://shop.example\""))
}

fn upstream(source: &Source, text: &Text) -> Result<Uri, Failure> {
    let wrong =
        || source.wrong(&text.span(), "upstream.url: write an http or https URL, such as \"http://127.0.0.1:9000\"");
    let url: Uri = text.get_ref().parse().map_err(|_| wrong())?;
    let has_user = url.authority().is_none_or(|authority| authority.as_str().contains('@'));
    if !matches!(url.scheme_str(), Some("http" | "https")) || has_user || url.query().is_some() {
        return Err(wrong());
    }
    Ok(url)
}

fn shelf(source: &Source, file: &File, fixed: &Fixed) -> Result<Shelf, Failure> {
    let mut routes: Vec<RouteConfig> = Vec::new();
    for written in &file.route {
        let route = route(source, written, fixed)?;
        if routes.iter().any(|known| known.pattern.shadows(&route.pattern)) {
            let what =
                "route.match: an earlier route matches all of its requests, and the first match wins; move it up";
            return Err(source.wrong(&written.get_ref().pattern.span(), what));
        }
        routes.push(route);
    }
    let action = &file.default.action;
    let default = match action.get_ref() {
        file::Action::Named(name) if name == "free" => Action::Free,
        file::Action::Named(name) if name == "deny" => Action::Deny,
        file::Action::Named(_) => {
            let what = "default.action: write \"free\", \"deny\" or { price = \"0.01 USDC\" }";
            return Err(source.wrong(&action.span(), what));
        }
        file::Action::Price(written) => Action::Sell(Box::new(Offer {
            resource: DEFAULT.to_owned(),
            price: cost(source, "default.action.price", written, &action.span(), fixed)?,
            label: "An answer".to_owned(),
            redeliver: None,
            page: false,
        })),
    };
    Ok(Shelf { routes, default, mcp: None })
}

fn route(source: &Source, written: &Spanned<file::Route>, fixed: &Fixed) -> Result<RouteConfig, Failure> {
    let file::Route { pattern: text, price: charged, free, label, redeliver, page } = written.get_ref();
    let at = text.span();
    let pattern = Pattern::parse(text.get_ref()).map_err(|why| source.wrong(&at, format!("route.match: {why}")))?;
    if let (Some(written), Some(method)) = (charged, pattern.never_sold()) {
        let what = format!("route.price: the answer to a {method} is never sold; price another method of the path");
        return Err(source.wrong(&written.span(), what));
    }
    let price = match (charged, free.as_ref().map(|free| (*free.get_ref(), free.span()))) {
        (Some(written), None | Some((false, _))) => {
            cost(source, "route.price", written.get_ref(), &written.span(), fixed)?
        }
        (None, Some((true, _))) => {
            let sold = [
                label.as_ref().map(Spanned::span),
                redeliver.as_ref().map(Spanned::span),
                page.as_ref().map(Spanned::span),
            ];
            if let Some(at) = sold.into_iter().flatten().next() {
                return Err(source.wrong(&at, "route: a free route has neither label, redeliver nor page"));
            }
            return Ok(RouteConfig { pattern, action: Action::Free });
        }
        (Some(_), Some((true, at))) => return Err(source.wrong(&at, "route.free: a route with a price is not free")),
        (None, _) => return Err(source.wrong(&at, "route: write price = \"0.05 USDC\" or free = true")),
    };
    let page = match page {
        Some(page) if *page.get_ref() && !pattern.takes(&Method::GET) => {
            return Err(
                source.wrong(&page.span(), "route.page: browsers open pages by GET; this route has another method")
            );
        }
        Some(page) if *page.get_ref() && price.is_metered() => {
            return Err(
                source.wrong(&page.span(), "route.page: the page pays fixed prices, and this route has { up_to }")
            );
        }
        Some(page) => *page.get_ref(),
        None => false,
    };
    let resource = checked(source, "route.match", pattern.to_string(), &at)?;
    let label = match label {
        Some(label) => checked(source, "route.label", label.get_ref().clone(), &label.span())?,
        None => resource.clone(),
    };
    let redeliver = match redeliver {
        Some(text) => Some(
            units::duration(text.get_ref())
                .map_err(|why| source.wrong(&text.span(), format!("route.redeliver: {why}")))?,
        ),
        None => None,
    };
    Ok(RouteConfig { pattern, action: Action::Sell(Box::new(Offer { resource, price, label, redeliver, page })) })
}

/// Checks that a text fits a quote.
fn checked(source: &Source, key: &str, text: String, at: &Place) -> Result<String, Failure> {
    let fits = !text.trim().is_empty() && text.chars().count() <= 100 && !text.chars().any(char::is_control);
    if fits {
        Ok(text)
    } else {
        Err(source.wrong(at, format!("{key}: write 1 to 100 characters, no control characters")))
    }
}

/// Reads `[mcp]`. Unnamed tools follow the default: free if everything else is free, refused otherwise.
fn mcp(source: &Source, mcp: &Spanned<file::Mcp>, fixed: &Fixed, default: &Action) -> Result<McpConfig, Failure> {
    let file::Mcp { path: text, tools: written } = mcp.get_ref();
    let wrong = |why: &str| source.wrong(&text.span(), format!("mcp.path: {why}"));
    let path = Pattern::parse(text.get_ref()).map_err(|why| wrong(&why))?;
    if !text.get_ref().starts_with('/') || text.get_ref().contains('{') {
        return Err(wrong("write the path of the endpoint alone, such as \"/mcp\""));
    }
    let mut tools = Vec::new();
    for (name, written) in written {
        let key = format!("mcp.tools.{name}");
        // The name must fit a quote together with the prefix of its resource.
        checked(source, &key, format!("mcp/{name}"), &written.span())?;
        let price = match written.get_ref() {
            file::Price::Fixed(text) if text == "free" => None,
            file::Price::Fixed(text) => Some(amount(source, &key, text, &written.span(), &fixed.first().tokens[0])?),
            file::Price::UpTo(_) => {
                let what = "tools have fixed prices, such as \"0.10 USDC\", or \"free\"";
                return Err(source.wrong(&written.span(), format!("{key}.up_to: {what}")));
            }
        };
        tools.push((name.clone(), price));
    }
    let is_sold = tools.iter().any(|(_, price)| price.is_some());
    if is_sold && fixed.networks.iter().all(|network| network.settler.is_none()) {
        let what = "tools are paid by signed payments: name settle_key_file or facilitator in a [[network]]";
        return Err(source.wrong(&mcp.span(), format!("[mcp]: {what}")));
    }
    Ok(McpConfig { path, tools, deny_unlisted: !matches!(default, Action::Free) })
}
