//! `Notes`: the routes where a pass is known not to count.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// How long a note holds, so that one stray answer does not count for the life of the process.
pub(super) const LASTING: Duration = Duration::from_secs(600);
/// How many routes are remembered.
const MOST: usize = 1_000;

#[derive(Default)]
pub(super) struct Notes(BTreeMap<String, Instant>);

impl Notes {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn has(&self, route: &str) -> bool {
        self.0.get(route).is_some_and(is_fresh)
    }

    pub(super) fn add(&mut self, route: &str) {
        if self.0.len() >= MOST {
            self.0.retain(|_, noted| is_fresh(noted));
        }
        if self.0.len() < MOST || self.0.contains_key(route) {
            self.0.insert(route.to_owned(), Instant::now());
        }
    }
}

fn is_fresh(noted: &Instant) -> bool {
    noted.elapsed() < LASTING
}
