//! Networks, tokens and prices of the file.

use std::env;

use tower_x402::protocol::{Address, Amount, Asset, Network};

use super::{
    super::{failure::Failure, secret::Secret, secret_file},
    file::{self, Place, Text},
    source::Source,
    values::{Cost, Fixed, NetworkConfig, SettlerConfig},
};

/// Names that stand for a chain id.
const NAMES: [(&str, Network); 2] = [("base", Network::BASE), ("base-sepolia", Network::BASE_SEPOLIA)];

/// Reads one `[[network]]`.
pub(super) fn network(source: &Source, written: &file::Network, at: &Place) -> Result<NetworkConfig, Failure> {
    let network = chain(source, written, at)?;
    let rpc = endpoints(source, written, at)?;
    let settler = settler(source, written)?;
    let mut tokens = Vec::new();
    for token in &written.token {
        let contract = address(source, "network.token.contract", &token.contract)?;
        tokens.push(Asset::new(network, contract, token.decimals, token.symbol.clone()));
    }
    if tokens.is_empty() {
        let usdc = Asset::usdc_of(network).ok_or_else(|| {
            let id = network.chain_id();
            source.wrong(at, format!("[[network]]: no USDC is known on chain {id}; name a token in [[network.token]]"))
        })?;
        tokens.push(usdc);
    }
    let channel_key = channel_key(source, written, settler.as_ref())?;
    Ok(NetworkConfig { network, rpc, settler, channel_key, tokens })
}

fn chain(source: &Source, written: &file::Network, at: &Place) -> Result<Network, Failure> {
    match (&written.name, &written.chain_id) {
        (Some(name), None) => {
            let known = NAMES.into_iter().find(|(known, _)| known == name.get_ref());
            known.map(|(_, network)| network).ok_or_else(|| {
                source.wrong(
                    &name.span(),
                    "network.name: write \"base\" or \"base-sepolia\", or chain_id = NUMBER instead",
                )
            })
        }
        (None, Some(id)) if *id.get_ref() > 0 => Ok(Network::eip155(*id.get_ref())),
        _ => Err(source.wrong(at, "[[network]]: write either name = \"base\" or chain_id = 8453")),
    }
}

fn endpoints(source: &Source, written: &file::Network, at: &Place) -> Result<Vec<Secret>, Failure> {
    let file::Network { rpc, rpc_file, rpc_env, .. } = written;
    let (urls, at) = match (rpc, rpc_file, rpc_env) {
        (Some(rpc), None, None) => {
            (rpc.get_ref().iter().map(|url| url.get_ref().clone()).collect::<Vec<_>>(), rpc.span())
        }
        (None, Some(file), None) => (lines(&secret(source, "network.rpc_file", file)?), file.span()),
        (None, None, Some(name)) => (lines(&variable(source, "network.rpc_env", name)?), name.span()),
        (None, None, None) => return Err(source.wrong(at, "[[network]]: missing rpc = [\"https://…\"]")),
        _ => return Err(source.wrong(at, "[[network]]: name one of rpc, rpc_file and rpc_env")),
    };
    let is_url = |url: &String| url.starts_with("https://") || url.starts_with("http://");
    if urls.is_empty() || !urls.iter().all(is_url) {
        return Err(source.wrong(&at, "network.rpc: write one or more URLs, such as [\"https://mainnet.base.org\"]"));
    }
    Ok(urls.into_iter().map(Secret::from).collect())
}

fn settler(source: &Source, written: &file::Network) -> Result<Option<SettlerConfig>, Failure> {
    Ok(match (&written.settle_key_file, &written.facilitator) {
        (Some(_), Some(facilitator)) => {
            return Err(source.wrong(&facilitator.span(), "network.facilitator: name it or settle_key_file, not both"));
        }
        (Some(file), None) => Some(SettlerConfig::Key(private_key(source, "network.settle_key_file", file)?)),
        (None, Some(url)) => Some(SettlerConfig::Facilitator(url.get_ref().clone().into())),
        (None, None) => None,
    })
}

fn channel_key(
    source: &Source,
    written: &file::Network,
    settler: Option<&SettlerConfig>,
) -> Result<Option<Secret>, Failure> {
    let Some(file) = &written.channel_key_file else { return Ok(None) };
    match settler {
        Some(SettlerConfig::Key(_)) => private_key(source, "network.channel_key_file", file).map(Some),
        _ => {
            let what = "network.channel_key_file: channels need settle_key_file too, whose account sends the claims";
            Err(source.wrong(&file.span(), what))
        }
    }
}

/// Reads a file with one private key.
fn private_key(source: &Source, key: &str, file: &file::Text) -> Result<Secret, Failure> {
    let text = secret(source, key, file)?;
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        let what = format!("{key}: the file must have one private key, 0x and 64 hexadecimal digits");
        return Err(source.wrong(&file.span(), what));
    }
    Ok(format!("0x{digits}").into())
}

/// Reads the price of an answer, in the first token of the first network.
pub(super) fn cost(
    source: &Source,
    key: &str,
    written: &file::Price,
    at: &Place,
    fixed: &Fixed,
) -> Result<Cost, Failure> {
    let asset = &fixed.first().tokens[0];
    match written {
        file::Price::Fixed(text) => amount(source, key, text, at, asset).map(Cost::Fixed),
        file::Price::UpTo(_) if fixed.networks.iter().all(|network| network.settler.is_none()) => {
            let what =
                "what is metered is paid by signed payments: name settle_key_file or facilitator in a [[network]]";
            Err(source.wrong(at, format!("{key}.up_to: {what}")))
        }
        file::Price::UpTo(text) => amount(source, &format!("{key}.up_to"), text, at, asset).map(Cost::UpTo),
    }
}

/// Parses an amount such as `0.05 USDC`.
pub(super) fn amount(source: &Source, key: &str, text: &str, at: &Place, asset: &Asset) -> Result<Amount, Failure> {
    let (symbol, decimals) = (asset.symbol(), asset.decimals());
    let wrong = || {
        let what = format!("write a price above zero in {symbol}, with at most {decimals} decimals: \"0.05 {symbol}\"");
        source.wrong(at, format!("{key}: {what}"))
    };
    let number = match text.split_once(' ') {
        Some((number, unit)) if unit == symbol => number,
        _ => return Err(wrong()),
    };
    let amount = Amount::parse_decimal(number, decimals).map_err(|_| wrong())?;
    if amount.is_zero() { Err(wrong()) } else { Ok(amount) }
}

pub(super) fn address(source: &Source, key: &str, text: &Text) -> Result<Address, Failure> {
    text.get_ref().parse().map_err(|error| source.wrong(&text.span(), format!("{key}: {error}")))
}

/// Returns the content of a file that only its owner can read.
pub(super) fn secret(source: &Source, key: &str, path: &Text) -> Result<String, Failure> {
    if is_secret(path.get_ref()) {
        return Err(source.wrong(&path.span(), format!("{key}: write the name of a file here, not what is in it")));
    }
    let file = source.beside(path.get_ref());
    secret_file::read("the file", &file).map_err(|why| source.wrong(&path.span(), format!("{key}: {why}")))
}

/// Returns the value of an environment variable.
pub(super) fn variable(source: &Source, key: &str, name: &Text) -> Result<String, Failure> {
    let is_name = name.get_ref().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name || is_secret(name.get_ref()) {
        let what = format!("{key}: write the name of a variable of the environment here, not its value");
        return Err(source.wrong(&name.span(), what));
    }
    let value = env::var(name.get_ref()).ok().filter(|value| !value.trim().is_empty());
    value.ok_or_else(|| {
        source.wrong(&name.span(), format!("{key}: the environment variable {} is not set", name.get_ref()))
    })
}

/// Returns whether the text is a key or a URL itself instead of a name. Errors must not show it.
fn is_secret(text: &str) -> bool {
    let is_key = |word: &str| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        digits.len() >= 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    text.contains("://") || text.split(|c: char| c == ',' || c.is_whitespace()).any(is_key)
}

fn lines(text: &str) -> Vec<String> {
    text.lines()
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}
