//! `Purse`: all passes of a client, in memory and optionally in a file.

use std::{
    collections::HashMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use http::Uri;
use tokio::time::Instant;

use super::{
    address::{Address, origin},
    held::{HeldPass, PassError},
    notes::LASTING,
    offered::{Offered, Wanted},
    shop::Shop,
};
use crate::client::{
    PurchaseId,
    flow::journal::{replace, sync_folder, write_beside},
};

/// How many addresses without a wanted pass are remembered.
const MOST_LOOKED_AT: usize = 1_000;

/// One purse, shared by all clones of a layer and their services.
#[derive(Clone, Default)]
pub(super) struct SharedPurse(Arc<Mutex<Purse>>);

impl SharedPurse {
    pub(super) fn lock(&self) -> MutexGuard<'_, Purse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the held passes, without tokens.
impl fmt::Debug for SharedPurse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().held().fmt(f)
    }
}

/// All passes of a client.
#[derive(Default)]
pub(super) struct Purse {
    shops: Vec<Arc<Shop>>,
    file: Option<PathBuf>,
    /// Which passes of quotes to buy, if any.
    pub(super) wanted: Option<Wanted>,
    /// The purchases since it was created whose passes are kept.
    pub(super) bought: Vec<PurchaseId>,
    /// The addresses where no quote named a wanted pass, by origin and path.
    looked: HashMap<(String, String), Instant>,
}

impl Purse {
    /// Returns whether passes are kept for later processes.
    pub(super) const fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a shop with a known address.
    pub(super) fn add(&mut self, address: Address) -> Result<(), PassError> {
        let shop = Shop::new(address, false).ok_or(PassError::Url)?;
        if self.at(shop.origin()).is_some() {
            return Err(PassError::ShopTwice);
        }
        self.shops.push(Arc::new(shop));
        Ok(())
    }

    fn at(&self, origin: &str) -> Option<&Arc<Shop>> {
        self.shops.iter().find(|shop| shop.origin() == origin)
    }

    /// Returns the shop for an address that a quote named, if passes of quotes are bought there.
    fn of_quotes(&mut self, address: &Address) -> Option<Arc<Shop>> {
        let origin = address.origin()?;
        if self.at(&origin).is_none() {
            self.shops.push(Arc::new(Shop::new(address.clone(), true)?));
        }
        self.at(&origin).filter(|shop| shop.is_quoted).cloned()
    }

    /// Returns the shop of a request, and which passes of quotes to buy there. Returns neither for the request that
    /// buys a pass itself.
    pub(super) fn for_request(&self, uri: &Uri) -> (Option<Arc<Shop>>, Option<Wanted>) {
        let shop = origin(uri).and_then(|origin| self.at(&origin));
        if shop.is_some_and(|shop| shop.address().url.path() == uri.path()) {
            return (None, None);
        }
        (shop.cloned(), self.looks_at(uri))
    }

    /// Returns the wanted pass if a quote for this address must be requested first, because it may name a pass.
    fn looks_at(&self, uri: &Uri) -> Option<Wanted> {
        let (wanted, origin) = (self.wanted.clone()?, origin(uri)?);
        let looked = self.looked.get(&(origin, uri.path().to_owned()));
        looked.is_none_or(|looked| looked.elapsed() >= LASTING).then_some(wanted)
    }

    /// Notes that this address offers no wanted pass.
    pub(super) fn looked(&mut self, uri: &Uri) {
        if self.looked.len() >= MOST_LOOKED_AT {
            self.looked.retain(|_, looked| looked.elapsed() < LASTING);
        }
        if let Some(origin) = origin(uri).filter(|_| self.looked.len() < MOST_LOOKED_AT) {
            self.looked.insert((origin, uri.path().to_owned()), Instant::now());
        }
    }

    /// Returns the shop and the address of a pass that a quote for this address named. It must be at the same origin.
    pub(super) fn found(&mut self, uri: &Uri, offered: Offered) -> Option<(Arc<Shop>, Address)> {
        let address = Address::quoted(&origin(uri)?, &offered.url?, offered.name)?;
        // The address of the answer itself cannot sell its pass.
        let address = (address.url.path() != uri.path()).then_some(address)?;
        Some((self.of_quotes(&address)?, address))
    }

    pub(super) fn held(&self) -> Vec<HeldPass> {
        self.kept().into_iter().filter(|pass| !pass.token.is_empty()).collect()
    }

    fn kept(&self) -> Vec<HeldPass> {
        self.shops.iter().flat_map(|shop| shop.kept()).collect()
    }

    /// Reads the file, if it exists, and writes every change to it from now on.
    pub(super) fn keep_in(&mut self, path: &Path) -> Result<(), PassError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "[]".to_owned(),
            Err(error) => return Err(error.into()),
        };
        let passes: Vec<HeldPass> = serde_json::from_str(&text).map_err(io::Error::from)?;
        for pass in passes {
            let Ok(address) = Address::new(&pass.url, pass.name.clone()) else { continue };
            // A pass that a quote named may be at any address.
            let quoted = if self.wanted.is_some() { self.of_quotes(&address) } else { None };
            let shop = quoted.or_else(|| self.shops.iter().find(|shop| shop.address().url == address.url).cloned());
            if let Some(shop) = shop {
                shop.restore(pass, address, now());
            }
        }
        // Make it absolute: its folder is needed, and the working directory may change later.
        self.file = Some(std::path::absolute(path)?);
        Ok(self.write()?)
    }

    /// Writes the whole file: a crash leaves either the old or the new one. Returns whether that succeeded.
    pub(super) fn save(&self) -> bool {
        let written = self.write();
        if let Err(error) = &written {
            tracing::warn!(%error, "the file of passes was not written");
        }
        written.is_ok()
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        write_beside(path, &serde_json::to_vec(&self.kept())?)?;
        replace(path)?;
        sync_folder(path)
    }
}

/// Returns the Unix time, by which passes expire.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
