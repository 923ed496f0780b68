//! The file as written: its keys and their types. [`super::reader`] interprets the values.

use std::{collections::BTreeMap, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use toml::Spanned;

/// A text, and its place in the file.
pub(crate) type Text = Spanned<String>;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) listen: Text,
    pub(crate) status: Option<Text>,
    pub(crate) recipient: Text,
    #[serde(default)]
    pub(crate) former_recipients: Vec<Text>,
    pub(crate) sealing_key_file: Option<Text>,
    pub(crate) sealing_key_env: Option<Text>,
    pub(crate) ledger: Option<Text>,
    pub(crate) ledger_file: Option<Text>,
    pub(crate) ledger_env: Option<Text>,
    pub(crate) public_url: Option<Text>,
    pub(crate) mpp: Option<Text>,
    pub(crate) network: Vec<Spanned<Network>>,
    pub(crate) upstream: Upstream,
    #[serde(default)]
    pub(crate) route: Vec<Spanned<Route>>,
    pub(crate) default: Default,
    pub(crate) mcp: Option<Spanned<Mcp>>,
}

/// `[[network]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    pub(crate) name: Option<Text>,
    pub(crate) chain_id: Option<Spanned<u64>>,
    pub(crate) rpc: Option<Spanned<Vec<Text>>>,
    pub(crate) rpc_file: Option<Text>,
    pub(crate) rpc_env: Option<Text>,
    pub(crate) settle_key_file: Option<Text>,
    pub(crate) facilitator: Option<Text>,
    pub(crate) channel_key_file: Option<Text>,
    #[serde(default)]
    pub(crate) token: Vec<Token>,
}

/// `[[network.token]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub(crate) contract: Text,
    pub(crate) symbol: String,
    pub(crate) decimals: u8,
}

/// `[upstream]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upstream {
    pub(crate) url: Text,
    pub(crate) timeout: Option<Text>,
}

/// `[[route]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    #[serde(rename = "match")]
    pub(crate) pattern: Text,
    pub(crate) price: Option<Spanned<Price>>,
    pub(crate) free: Option<Spanned<bool>>,
    pub(crate) label: Option<Text>,
    pub(crate) redeliver: Option<Text>,
    pub(crate) page: Option<Spanned<bool>>,
}

/// `[default]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Default {
    pub(crate) action: Spanned<Action>,
}

/// `[mcp]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mcp {
    pub(crate) path: Text,
    pub(crate) tools: BTreeMap<String, Spanned<Price>>,
}

/// `"0.05 USDC"`, or `{ up_to = "0.10 USDC" }`.
#[derive(Debug)]
pub(crate) enum Price {
    Fixed(String),
    UpTo(String),
}

/// `"free"`, `"deny"`, or `{ price = "0.01 USDC" }`.
#[derive(Debug)]
pub(crate) enum Action {
    Named(String),
    Price(Price),
}

/// A range of bytes in the file.
pub(crate) type Place = Range<usize>;

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Price;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a price, such as \"0.05 USDC\" or { up_to = \"0.10 USDC\" }")
            }

            fn visit_str<E>(self, text: &str) -> Result<Price, E> {
                Ok(Price::Fixed(text.to_owned()))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Price, M::Error> {
                single(&mut map, &["up_to"]).map(Price::UpTo)
            }
        }
        from.deserialize_any(Form)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Action;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"free\", \"deny\" or { price = \"0.01 USDC\" }")
            }

            fn visit_str<E>(self, text: &str) -> Result<Action, E> {
                Ok(Action::Named(text.to_owned()))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Action, M::Error> {
                single(&mut map, &["price"]).map(Action::Price)
            }
        }
        from.deserialize_any(Form)
    }
}

/// Reads the value of a table that has this key and no other.
fn single<'de, M: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut M,
    name: &'static [&'static str; 1],
) -> Result<T, M::Error> {
    use serde::de::Error as _;
    let mut value = None;
    while let Some(key) = map.next_key::<String>()? {
        if key != name[0] {
            return Err(M::Error::unknown_field(&key, name));
        }
        value = Some(map.next_value()?);
    }
    value.ok_or_else(|| M::Error::missing_field(name[0]))
}
