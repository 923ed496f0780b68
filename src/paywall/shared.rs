//! `Shared`: what every route of a merchant shares, and the register of what it sells.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::start::Start;
use crate::{
    ConfigError,
    clock::Clock,
    ledger::ErasedLedger,
    protocol::{Address, Amount, Asset, Network, SealingKeys},
    verify::ErasedVerifier,
};

/// What every route of a merchant shares.
pub(crate) struct Shared {
    pub(crate) network: Network,
    /// The present one first, then former ones.
    pub(crate) recipients: Vec<Address>,
    /// The tokens that a quote names.
    pub(crate) assets: Vec<Asset>,
    /// Those, and former ones that still count.
    pub(crate) accepted: Arc<[Asset]>,
    pub(crate) realm: String,
    pub(crate) keys: SealingKeys,
    pub(crate) verifier: Arc<dyn ErasedVerifier>,
    pub(crate) ledger: Arc<dyn ErasedLedger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) quote_ttl: Duration,
    pub(crate) quote_grace: Duration,
    pub(crate) max_payment_age: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) lease: Duration,
    pub(crate) contact: Option<String>,
    pub(super) start: Start,
    pub(super) resources: Mutex<HashMap<Arc<str>, Entry>>,
}

/// What one resource name stands for.
pub(super) struct Entry {
    /// `None` where a closure decides, which equals no other.
    price: Option<Amount>,
    label: Option<Arc<str>>,
    namesakes: Arc<()>,
}

/// What a route learns of its name.
pub(crate) struct Registered {
    pub(super) label: Option<Arc<str>>,
    /// Held by every route of this name, and here.
    pub(super) namesakes: Arc<()>,
}

impl Shared {
    pub(crate) fn decimals(&self) -> u8 {
        self.assets.first().map_or(0, Asset::decimals)
    }

    pub(crate) fn symbol(&self) -> &str {
        self.assets.first().map_or("", Asset::symbol)
    }

    pub(crate) fn recipient(&self) -> Address {
        self.recipients.first().copied().unwrap_or(Address::ZERO)
    }

    /// Enters a name with its price; answers the label that it has already.
    pub(super) fn register(&self, resource: &Arc<str>, price: Option<Amount>) -> Result<Registered, ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        match resources.get(resource) {
            Some(entry) if price.is_some() && entry.price == price => {
                Ok(Registered { label: entry.label.clone(), namesakes: Arc::clone(&entry.namesakes) })
            }
            Some(_) => Err(conflict(resource)),
            None => {
                let namesakes = Arc::new(());
                let entry = Entry { price, label: None, namesakes: Arc::clone(&namesakes) };
                resources.insert(Arc::clone(resource), entry);
                Ok(Registered { label: None, namesakes })
            }
        }
    }

    /// Enters a name's label: one for all layers of that name, and so only while whoever gives it is `alone`.
    pub(super) fn register_label(&self, resource: &Arc<str>, label: &Arc<str>, alone: bool) -> Result<(), ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = resources.get_mut(resource).ok_or_else(|| conflict(resource))?;
        match &entry.label {
            Some(known) if known == label => Ok(()),
            None if alone => {
                entry.label = Some(Arc::clone(label));
                Ok(())
            }
            Some(_) | None => Err(conflict(resource)),
        }
    }
}

fn conflict(resource: &str) -> ConfigError {
    ConfigError::ConflictingResource { resource: resource.to_owned() }
}

/// No keys, no backends: nothing in here prints a secret.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant")
            .field("network", &self.network)
            .field("recipients", &self.recipients)
            .field("assets", &self.assets)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}
