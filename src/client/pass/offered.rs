//! `Offered`: the passes that a quote names, and the choice among them.

use std::sync::Arc;

use serde::Deserialize;

use super::promise::Promise;
use crate::protocol::{Amount, Quote};

/// The pass that a client wants.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// The pass of this name.
    Named(Arc<str>),
    /// The cheapest way to make this many calls.
    Calls(u64),
}

/// A pass in a quote.
#[derive(Debug, Deserialize)]
pub(super) struct Offered {
    pub(super) name: String,
    price: String,
    calls: Option<u64>,
    seconds: Option<u64>,
    worth: Option<String>,
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
struct Quoted {
    #[serde(default)]
    passes: Vec<Offered>,
}

impl Wanted {
    /// Chooses a pass in a quote's body; returns `None` if no pass qualifies.
    pub(super) fn choose(&self, body: &[u8], quote: &Quote) -> Option<Offered> {
        let passes = serde_json::from_slice::<Quoted>(body).ok()?.passes.into_iter();
        let mut passes = passes.filter(|pass| pass.url.is_some());
        match self {
            Self::Named(name) => passes.find(|pass| *pass.name == **name),
            Self::Calls(calls) => {
                let single = units(quote.amount)?.checked_mul(u128::from(*calls))?;
                let cost = |pass: &Offered| pass.cost_of(*calls, quote).filter(|cost| *cost < single);
                let priced = passes.filter_map(|pass| Some((cost(&pass)?, pass)));
                priced.min_by_key(|(cost, _)| *cost).map(|(_, pass)| pass)
            }
        }
    }

    /// Returns what a chosen pass must at least provide, if it is bought at this Unix time.
    pub(super) fn promise(&self, offered: &Offered, quote: &Quote, now: u64) -> Promise {
        Promise { saves: matches!(self, Self::Calls(_)), ..offered.promise(quote, now) }
    }
}

impl Offered {
    /// Returns its price, in base units; `None` if it cannot be read.
    pub(super) fn price_in(&self, quote: &Quote) -> Option<Amount> {
        Amount::parse_decimal(&self.price, quote.decimals).ok()
    }

    /// Returns what it must at least provide, if it is bought at this Unix time.
    fn promise(&self, quote: &Quote, now: u64) -> Promise {
        let singly = || self.price_in(quote).and_then(units)?.checked_div(units(quote.amount)?);
        let calls = singly().unwrap_or(0).min(self.holds(quote).unwrap_or(0));
        Promise::new(calls.try_into().unwrap_or(u64::MAX), self.seconds, now)
    }

    /// Returns the cost of this many calls by such passes, in base units; `None` if a pass covers none.
    fn cost_of(&self, calls: u64, quote: &Quote) -> Option<u128> {
        let (price, holds) = (self.price_in(quote).and_then(units)?, self.holds(quote)?);
        let passes = if holds == 0 { return None } else { u128::from(calls).div_ceil(holds) };
        price.checked_mul(passes)
    }

    /// Returns how many calls it covers at the quote's price.
    fn holds(&self, quote: &Quote) -> Option<u128> {
        match (&self.worth, self.calls, self.seconds) {
            (Some(worth), ..) => {
                let worth = Amount::parse_decimal(worth, quote.decimals).ok().and_then(units)?;
                worth.checked_div(units(quote.amount)?)
            }
            (None, Some(held), _) => Some(held.into()),
            // As many as the time allows.
            (None, None, Some(_)) => Some(u128::MAX),
            (None, None, None) => None,
        }
    }
}

fn units(amount: Amount) -> Option<u128> {
    let bytes = amount.to_be_bytes();
    let (high, low) = bytes.split_first_chunk::<16>()?;
    let low = <[u8; 16]>::try_from(low).ok()?;
    (*high == [0; 16]).then(|| u128::from_be_bytes(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Address, Asset, ChainTime, IntentId, Network};

    const QUOTED: &str = r#"{"error":"payment_required","passes":[
        {"name":"ten","label":"Ten","price":"3.9","calls":10,"seconds":null,"url":"/ten"},
        {"name":"hundred","label":"Hundred","price":"25","calls":100,"seconds":null,"url":"/hundred"},
        {"name":"day","label":"A day","price":"12","calls":null,"seconds":86400,"url":"/day"},
        {"name":"purse","label":"A purse","price":"4.5","calls":null,"seconds":null,"worth":"5","url":"/purse"},
        {"name":"nowhere","label":"Not sold by itself","price":"0.01","calls":1000,"seconds":null,"url":null}]}"#;

    fn quote() -> Quote {
        Quote {
            intent: IntentId::new("i").unwrap(),
            recipient: Address::new([1; 20]),
            network: Network::BASE,
            label: String::new(),
            expiry: ChainTime::from_unix(0),
            amount: Amount::from_base_units(490_000),
            decimals: 6,
            symbol: "USDC".to_owned(),
            contracts: vec![Asset::USDC_BASE.contract()],
        }
    }

    #[test]
    fn the_cheapest_way_to_so_many_calls_is_chosen() {
        for (calls, expected) in [
            (0, None),
            (1, None),
            // Seven single answers cost 3.43, and eight 3.92.
            (7, None),
            (8, Some("ten")),
            (10, Some("ten")),
            // Two passes for ten calls cost 7.80. Two of the purse, worth ten answers each, cost 9.00.
            (20, Some("ten")),
            // Four passes for ten calls cost 15.60.
            (31, Some("day")),
            (1_000_000, Some("day")),
            (u64::MAX, Some("day")),
        ] {
            let chosen = Wanted::Calls(calls).choose(QUOTED.as_bytes(), &quote());
            assert_eq!(chosen.as_ref().map(|pass| &*pass.name), expected, "{calls}");
        }
    }

    #[test]
    fn a_name_chooses_its_pass_and_no_other() {
        let named = |name: &str, body: &str| Wanted::Named(name.into()).choose(body.as_bytes(), &quote());
        assert_eq!(named("purse", QUOTED).unwrap().url.as_deref(), Some("/purse"));
        for (name, body) in [("nowhere", QUOTED), ("other", QUOTED), ("ten", "{}"), ("ten", "no JSON"), ("ten", "[]")] {
            assert!(named(name, body).is_none(), "{name} {body}");
        }
    }

    #[test]
    fn an_odd_quote_buys_no_pass() {
        for pass in [
            r#"{"name":"a","price":"","calls":10,"url":"/a"}"#,
            r#"{"name":"a","price":"-1","calls":10,"url":"/a"}"#,
            r#"{"name":"a","price":"0.00000001","calls":10,"url":"/a"}"#,
            r#"{"name":"a","price":"1","calls":0,"url":"/a"}"#,
            r#"{"name":"a","price":"1","url":"/a"}"#,
            r#"{"name":"a","price":"1","worth":"0.48","url":"/a"}"#,
            r#"{"name":"a","price":"1e9","calls":10,"url":"/a"}"#,
        ] {
            let body = format!(r#"{{"passes":[{pass}]}}"#);
            assert!(Wanted::Calls(100).choose(body.as_bytes(), &quote()).is_none(), "{pass}");
        }
    }
}
