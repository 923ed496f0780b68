//! `Table`: the tools of a server, and what the calls of each cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::json;

use crate::{
    paywall::seller::{inner::MerchantInner, pricing::Prices, redelivery::Redelivery, route::Route},
    protocol::mcp::folded,
};

/// How the ids of sold calls begin, as the server sees them. The server might send the answer to an id of the client's choice by another
/// way.
pub(super) const MARK: &str = "x402/";

/// The settings of an [`McpLayer`](super::McpLayer).
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) merchant: Arc<MerchantInner>,
    pub(super) priced: BTreeMap<String, Arc<Route>>,
    free: BTreeSet<String>,
    pub(super) refuse_unlisted: bool,
    pub(super) limits: Limits,
    redelivery: Option<Redelivery>,
    settle_first: bool,
}

/// How much is read of messages and answers, in bytes, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) message: usize,
    pub(super) timeout: Duration,
    pub(super) answer: usize,
}

/// What a call costs.
#[derive(Clone, Debug)]
pub(super) enum Listed {
    Priced(Arc<Route>),
    Free,
    /// The tool is not offered.
    Refused,
}

impl Table {
    pub(super) fn new(merchant: &Arc<MerchantInner>) -> Self {
        Self {
            merchant: Arc::clone(merchant),
            priced: BTreeMap::new(),
            free: BTreeSet::new(),
            refuse_unlisted: false,
            limits: Limits { message: 1024 * 1024, timeout: Duration::from_secs(10), answer: 1024 * 1024 },
            redelivery: None,
            settle_first: false,
        }
    }

    /// Enters a price. Its intents are bound to the call that they were quoted for.
    pub(super) fn price(&mut self, tool: &str, mut route: Route) {
        route.bind = true;
        route.header_only = true;
        route.page = None;
        self.set(&mut route);
        self.free.remove(tool);
        self.priced.insert(tool.to_owned(), Arc::new(route));
    }

    pub(super) fn make_free(&mut self, tool: &str) {
        self.priced.remove(tool);
        self.free.insert(tool.to_owned());
    }

    pub(super) fn redeliver(&mut self, redelivery: Redelivery) {
        self.redelivery = Some(redelivery);
        self.set_all();
    }

    pub(super) fn settle_first(&mut self) {
        self.settle_first = true;
        self.set_all();
    }

    pub(super) fn listed(&self, tool: &str) -> Listed {
        match self.priced.get(tool) {
            Some(route) => Listed::Priced(Arc::clone(route)),
            None if self.free.contains(tool) => Listed::Free,
            None if self.refuse_unlisted || self.is_almost_priced(tool) => Listed::Refused,
            None => Listed::Free,
        }
    }

    /// Returns whether a server that ignores case, or space around a name, would take this for a tool that has a price.
    fn is_almost_priced(&self, tool: &str) -> bool {
        let name = folded(tool.trim());
        self.priced.keys().any(|priced| folded(priced.trim()) == name)
    }

    /// Returns what the list of tools says about the price of a tool, in JSON.
    pub(super) fn price_of(&self, tool: &str) -> Option<String> {
        let route = self.priced.get(tool)?;
        let mut price = json!({ "name": route.description(), "currency": self.merchant.symbol() });
        if let (Prices::Fixed(amount), Some(members)) = (&route.prices, price.as_object_mut()) {
            members.insert("amount".to_owned(), amount.to_decimal(self.merchant.decimals()).into());
        }
        Some(price.to_string())
    }

    fn set_all(&mut self) {
        let mut priced = std::mem::take(&mut self.priced);
        priced.values_mut().for_each(|route| self.set(Arc::make_mut(route)));
        self.priced = priced;
    }

    fn set(&self, route: &mut Route) {
        if let Some(redelivery) = self.redelivery {
            route.set_redelivery(redelivery);
        }
        route.settle_first = self.settle_first;
    }
}
