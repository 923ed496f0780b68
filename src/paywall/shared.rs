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
    layers: u32,
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
    pub(super) fn register(&self, resource: &Arc<str>, price: Option<Amount>) -> Result<Option<Arc<str>>, ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        match resources.get_mut(resource) {
            Some(entry) if price.is_some() && entry.price == price => {
                entry.layers += 1;
                Ok(entry.label.clone())
            }
            Some(_) => Err(conflict(resource)),
            None => {
                resources.insert(Arc::clone(resource), Entry { price, label: None, layers: 1 });
                Ok(None)
            }
        }
    }

    /// Enters a name's label: one for all layers of that name.
    pub(crate) fn register_label(&self, resource: &Arc<str>, label: &Arc<str>) -> Result<(), ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = resources.get_mut(resource).ok_or_else(|| conflict(resource))?;
        match &entry.label {
            Some(known) if known == label => Ok(()),
            None if entry.layers == 1 => {
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
