//! `Catalog`: the resource names of a merchant, each with one price and one label.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    discovery::{Described, Endpoint},
    paywall::{
        error::BuildError,
        seller::sold_hook::{SoldHook, SoldHookCell},
    },
    protocol::Amount,
};

/// Every name that a merchant's layers were made for.
#[derive(Default)]
pub(crate) struct Catalog {
    entries: Mutex<HashMap<Arc<str>, Entry>>,
    /// In the order in which they were described.
    described: Mutex<Vec<Described>>,
}

struct Entry {
    /// `None` where a closure decides, which equals no other.
    price: Option<Amount>,
    label: Option<Arc<str>>,
    namesakes: Arc<()>,
    on_sold: SoldHookCell,
}

/// What a route learns when it enters its name.
pub(crate) struct Listing {
    /// The label that the name has already.
    pub(crate) label: Option<Arc<str>>,
    /// Held by every route of this name, and by the catalog.
    pub(crate) namesakes: Arc<()>,
    /// The hook of this name.
    pub(crate) on_sold: SoldHookCell,
}

impl Catalog {
    /// Enters a name with its price.
    pub(crate) fn enter(&self, resource: &Arc<str>, price: Option<Amount>) -> Result<Listing, BuildError> {
        let mut entries = self.entries();
        match entries.get(resource) {
            Some(entry) if price.is_some() && entry.price == price => {
                let (namesakes, on_sold) = (Arc::clone(&entry.namesakes), Arc::clone(&entry.on_sold));
                Ok(Listing { label: entry.label.clone(), namesakes, on_sold })
            }
            Some(_) => Err(conflict(resource)),
            None => {
                let (namesakes, on_sold) = (Arc::new(()), SoldHookCell::default());
                let listing = Listing { label: None, namesakes: Arc::clone(&namesakes), on_sold: Arc::clone(&on_sold) };
                entries.insert(Arc::clone(resource), Entry { price, label: None, namesakes, on_sold });
                Ok(listing)
            }
        }
    }

    /// The hook of this name, if it has one.
    pub(crate) fn sold_hook(&self, resource: &str) -> Option<SoldHook> {
        self.entries().get(resource)?.on_sold.get().cloned()
    }

    /// The lowest price of all; `None` where a closure decides of any, or nothing is sold.
    pub(crate) fn lowest_price(&self) -> Option<Amount> {
        let entries = self.entries();
        let prices: Option<Vec<_>> = entries.values().map(|entry| entry.price).collect();
        prices?.into_iter().min()
    }

    /// Sets a name's label: one for all layers of that name, and therefore only while the caller's layer is `alone`.
    pub(crate) fn label(&self, resource: &Arc<str>, label: &Arc<str>, alone: bool) -> Result<(), BuildError> {
        let mut entries = self.entries();
        let entry = entries.get_mut(resource).ok_or_else(|| conflict(resource))?;
        match &entry.label {
            Some(known) if known == label => Ok(()),
            None if alone => {
                entry.label = Some(Arc::clone(label));
                Ok(())
            }
            Some(_) | None => Err(conflict(resource)),
        }
    }

    /// Enters an endpoint of a name; one that is known is described anew.
    pub(crate) fn describe(
        &self,
        resource: &Arc<str>,
        endpoint: &Endpoint,
        range: Option<(Amount, Amount)>,
    ) -> Result<(), BuildError> {
        let price = self.entries().get(resource).and_then(|entry| entry.price);
        let (endpoint, resource) = (endpoint.clone(), Arc::clone(resource));
        let new = Described { endpoint, label: Arc::clone(&resource), price, range, resource };
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&mut Described| {
            known.endpoint.path == new.endpoint.path && known.endpoint.method == new.endpoint.method
        };
        match described.iter_mut().find(same) {
            Some(known) if known.resource == new.resource => *known = new,
            Some(known) => return Err(BuildError::ConflictingEndpoint { path: known.endpoint.path.clone() }),
            None => described.push(new),
        }
        Ok(())
    }

    /// All that is described, with the present labels.
    pub(crate) fn described(&self) -> Vec<Described> {
        let mut all = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let entries = self.entries();
        for described in &mut all {
            if let Some(label) = entries.get(&described.resource).and_then(|entry| entry.label.as_ref()) {
                described.label = Arc::clone(label);
            }
        }
        all
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conflict(resource: &str) -> BuildError {
    BuildError::ConflictingResource { resource: resource.to_owned() }
}
