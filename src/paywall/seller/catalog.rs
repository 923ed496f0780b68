//! `Catalog`: the resource names of a merchant, each with one price and one label.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    discovery::{Described, Endpoint},
    paywall::{
        error::BuildError,
        seller::{
            pass::terms::PassTerms,
            pricing::Prices,
            sold_hook::{SoldHook, SoldHookCell},
        },
    },
    protocol::Amount,
};

/// Every name that a merchant's layers were made for.
#[derive(Default)]
pub(crate) struct Catalog {
    entries: Mutex<HashMap<Arc<str>, Named>>,
    /// The passes that are sold or taken anywhere, by name.
    passes: Mutex<HashMap<Arc<str>, Arc<PassTerms>>>,
    has_passes: AtomicBool,
    /// The passes that count for each name.
    accepted: Mutex<HashMap<Arc<str>, Vec<Arc<PassTerms>>>>,
    /// In the order in which they were described.
    described: Mutex<Vec<Described>>,
}

struct Named {
    price: Listed,
    listing: Listing,
}

/// The price of a name, as far as it is known before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    Fixed(Amount),
    UpTo(Amount),
    /// A closure decides. It equals no other price.
    OnRequest,
}

impl Listed {
    pub(crate) const fn of(prices: &Prices) -> Self {
        match prices {
            Prices::Fixed(amount) => Self::Fixed(*amount),
            Prices::UpTo(amount) => Self::UpTo(*amount),
            _ => Self::OnRequest,
        }
    }

    /// Returns the price, or its maximum.
    pub(crate) const fn amount(self) -> Option<Amount> {
        match self {
            Self::Fixed(amount) | Self::UpTo(amount) => Some(amount),
            Self::OnRequest => None,
        }
    }
}

/// What all routes of one name share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// What quotes say is sold. Set by the seller, or else by the first quote, to the name itself.
    label: Arc<OnceLock<Arc<str>>>,
    /// The hook of this name.
    pub(crate) on_sold: SoldHookCell,
}

impl Listing {
    /// Sets the label, unless there is another.
    pub(crate) fn set_label(&self, resource: &str, label: &str) -> Result<(), BuildError> {
        if &**self.label.get_or_init(|| label.into()) == label { Ok(()) } else { Err(conflict(resource)) }
    }

    /// Returns the label, which is final from now on.
    pub(crate) fn label<'a>(&'a self, resource: &Arc<str>) -> &'a str {
        self.label.get_or_init(|| Arc::clone(resource))
    }
}

impl Catalog {
    /// Enters a name with its price.
    pub(crate) fn enter(&self, resource: &Arc<str>, price: Listed) -> Result<Listing, BuildError> {
        let mut entries = self.entries();
        match entries.get(resource) {
            Some(entry) if price != Listed::OnRequest && entry.price == price => Ok(entry.listing.clone()),
            Some(_) => Err(conflict(resource)),
            None => {
                let listing = Listing::default();
                entries.insert(Arc::clone(resource), Named { price, listing: listing.clone() });
                Ok(listing)
            }
        }
    }

    /// Enters a pass: one name has one pass.
    pub(crate) fn enter_pass(&self, pass: &Arc<PassTerms>) -> Result<(), BuildError> {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_passes.store(true, Ordering::Relaxed);
        match passes.entry(Arc::clone(&pass.name)) {
            Entry::Occupied(known) if known.get().is_same(pass) => Ok(()),
            Entry::Occupied(_) => Err(conflict(&pass.name)),
            Entry::Vacant(place) => {
                place.insert(Arc::clone(pass));
                Ok(())
            }
        }
    }

    /// Returns the pass of this name, if there is one.
    pub(crate) fn pass(&self, name: &str) -> Option<Arc<PassTerms>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether there is any pass.
    pub(crate) fn has_passes(&self) -> bool {
        self.has_passes.load(Ordering::Relaxed)
    }

    /// Notes that this pass counts for this name.
    pub(crate) fn accept_pass(&self, resource: &Arc<str>, pass: &Arc<PassTerms>) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = accepted.entry(Arc::clone(resource)).or_default();
        if passes.iter().all(|known| known.name != pass.name) {
            passes.push(Arc::clone(pass));
        }
    }

    /// Returns the hook of this name, if it has one.
    pub(crate) fn sold_hook(&self, resource: &str) -> Option<SoldHook> {
        self.entries().get(resource)?.listing.on_sold.get().cloned()
    }

    /// Returns the lowest of all prices; `None` if a closure decides one of them, or nothing is sold.
    pub(crate) fn lowest_price(&self) -> Option<Amount> {
        let entries = self.entries();
        let prices: Option<Vec<_>> = entries.values().map(|entry| entry.price.amount()).collect();
        prices?.into_iter().min()
    }

    /// Enters an endpoint of a name, or describes a known one anew.
    pub(crate) fn describe(
        &self,
        resource: &Arc<str>,
        endpoint: &Endpoint,
        range: Option<(Amount, Amount)>,
    ) -> Result<(), BuildError> {
        let listed = self.entries().get(resource).map(|entry| entry.price);
        let (price, maximum) = match listed {
            Some(Listed::Fixed(amount)) => (Some(amount), None),
            Some(Listed::UpTo(amount)) => (None, Some(amount)),
            Some(Listed::OnRequest) | None => (None, None),
        };
        let (endpoint, resource) = (endpoint.clone(), Arc::clone(resource));
        let new =
            Described { endpoint, label: Arc::clone(&resource), price, maximum, range, resource, passes: Vec::new() };
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

    /// Returns everything described, with the present labels and passes. Amounts have this many decimals.
    pub(crate) fn described(&self, decimals: u8) -> Vec<Described> {
        let mut all = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let entries = self.entries();
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        for described in &mut all {
            let passes = accepted.get(&described.resource).into_iter().flatten();
            described.passes = passes.map(|pass| pass.described(decimals)).collect();
            if let Some(label) = entries.get(&described.resource).and_then(|entry| entry.listing.label.get()) {
                described.label = Arc::clone(label);
            }
        }
        all
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Arc<str>, Named>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conflict(resource: &str) -> BuildError {
    BuildError::ConflictingResource { resource: resource.to_owned() }
}
