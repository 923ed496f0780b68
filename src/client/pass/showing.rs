//! `Showing`: a pass in a request in progress.

use std::{mem, sync::Arc};

use http::HeaderValue;

use super::{
    order::PassOrder,
    purse::{SharedPurse, now},
    shop::Shop,
    word::Word,
};

/// A pass while a request with it is in progress. If dropped without an answer, whether the request was charged stays
/// open.
pub(super) struct Showing {
    shop: Arc<Shop>,
    purse: SharedPurse,
    value: HeaderValue,
    /// Reports whether an earlier payment of the request was resumed instead.
    order: PassOrder,
    is_answered: bool,
}

impl Showing {
    /// Shows the held pass, unless it is over. Before its first answered call this is saved first, because the process
    /// may be killed.
    pub(super) fn begin(shop: &Arc<Shop>, purse: &SharedPurse) -> Option<Self> {
        let (value, is_news) = shop.show(now())?;
        let order = PassOrder::nothing_new();
        let showing = Self { shop: Arc::clone(shop), purse: purse.clone(), value, order, is_answered: false };
        showing.keep(is_news);
        Some(showing)
    }

    /// Creates the order of one request with it.
    pub(super) fn order(&mut self) -> PassOrder {
        self.order = PassOrder::nothing_new();
        self.order.clone()
    }

    pub(super) fn value(&self) -> HeaderValue {
        self.value.clone()
    }

    /// Evaluates the answer to the request on this route; returns whether the pass is over.
    pub(super) fn learn(mut self, route: &str, word: Word) -> bool {
        self.is_answered = true;
        let learned = self.shop.learn(&self.value, route, word, now());
        self.keep(learned.is_news);
        learned.is_over
    }

    fn keep(&self, is_news: bool) {
        if is_news {
            let _ = self.purse.lock().save();
        }
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        if !mem::replace(&mut self.is_answered, true) {
            let is_news = match self.order.has_resumed() {
                true => self.shop.learn(&self.value, "", Word::Beside, now()).is_news,
                false => self.shop.leaves(&self.value, now()),
            };
            self.keep(is_news);
        }
    }
}
