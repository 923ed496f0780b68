//! `Showing`: a pass in a request that is under way.

use std::{mem, sync::Arc};

use http::HeaderValue;

use super::{
    purse::{SharedPurse, now},
    shop::Shop,
    word::Word,
};

/// A pass while a request is under way with it. Dropped without an answer, it leaves open whether the request was charged.
pub(super) struct Showing {
    shop: Arc<Shop>,
    purse: SharedPurse,
    value: HeaderValue,
    is_answered: bool,
}

impl Showing {
    /// Shows the pass that is held there, unless it is over.
    pub(super) fn begin(shop: &Arc<Shop>, purse: &SharedPurse) -> Option<Self> {
        let value = shop.show(now())?;
        Some(Self { shop: Arc::clone(shop), purse: purse.clone(), value, is_answered: false })
    }

    pub(super) fn value(&self) -> HeaderValue {
        self.value.clone()
    }

    /// Learns from the answer to the request, of this method and path; tells whether the pass is over.
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
            let is_news = self.shop.leaves(&self.value, now());
            self.keep(is_news);
        }
    }
}
