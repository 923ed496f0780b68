//! `Purse`: all passes of a client, in memory and in a file.

use std::{
    collections::HashMap,
    fmt, fs,
    io::{self, Write as _},
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
use crate::client::{PurchaseId, flow::journal::sync_folder};

/// How many such addresses are remembered.
const MOST_LOOKED_AT: usize = 1_000;

/// One purse, for all clones of a layer and their services.
#[derive(Clone, Default)]
pub(super) struct SharedPurse(Arc<Mutex<Purse>>);

impl SharedPurse {
    pub(super) fn lock(&self) -> MutexGuard<'_, Purse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows what is held, without tokens.
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
    /// Which passes of quotes are bought, if any.
    pub(super) wanted: Option<Wanted>,
    /// What was bought since it was opened, and is kept.
    pub(super) bought: Vec<PurchaseId>,
    /// Where no quote named such a pass, by origin and path.
    looked: HashMap<(String, String), Instant>,
}

impl Purse {
    /// Whether what is bought is kept for later processes.
    pub(super) const fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a shop whose address is known.
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

    /// The shop whose passes are bought where this address of a quote is.
    fn of_quotes(&mut self, address: &Address) -> Option<Arc<Shop>> {
        let origin = address.origin()?;
        if self.at(&origin).is_none() {
            self.shops.push(Arc::new(Shop::new(address.clone(), true)?));
        }
        self.at(&origin).filter(|shop| shop.is_quoted).cloned()
    }

    /// The shop to which a request goes, and which passes of quotes are bought there. Neither for the request that buys a pass itself.
    pub(super) fn for_request(&self, uri: &Uri) -> (Option<Arc<Shop>>, Option<Wanted>) {
        let shop = origin(uri).and_then(|origin| self.at(&origin));
        if shop.is_some_and(|shop| shop.address().url.path() == uri.path()) {
            return (None, None);
        }
        (shop.cloned(), self.looks_at(uri))
    }

    /// Whether a quote for this address is asked for first, since it may name a pass.
    fn looks_at(&self, uri: &Uri) -> Option<Wanted> {
        let (wanted, origin) = (self.wanted.clone()?, origin(uri)?);
        let looked = self.looked.get(&(origin, uri.path().to_owned()));
        looked.is_none_or(|looked| looked.elapsed() >= LASTING).then_some(wanted)
    }

    /// There is no such pass at this address.
    pub(super) fn looked(&mut self, uri: &Uri) {
        if self.looked.len() >= MOST_LOOKED_AT {
            self.looked.retain(|_, looked| looked.elapsed() < LASTING);
        }
        if let Some(origin) = origin(uri).filter(|_| self.looked.len() < MOST_LOOKED_AT) {
            self.looked.insert((origin, uri.path().to_owned()), Instant::now());
        }
    }

    /// The shop of a pass that a quote for this address named, and where it is sold: at the same origin, and no other.
    pub(super) fn found(&mut self, uri: &Uri, offered: Offered) -> Option<(Arc<Shop>, Address)> {
        let address = Address::quoted(&origin(uri)?, &offered.url?, offered.name)?;
        // An answer is not bought as a pass.
        let address = (address.url.path() != uri.path()).then_some(address)?;
        Some((self.of_quotes(&address)?, address))
    }

    pub(super) fn held(&self) -> Vec<HeldPass> {
        self.kept().into_iter().filter(|pass| !pass.token.is_empty()).collect()
    }

    fn kept(&self) -> Vec<HeldPass> {
        self.shops.iter().flat_map(|shop| shop.kept()).collect()
    }

    /// Reads the file, if it is there, and writes every change to it from now on.
    pub(super) fn keep_in(&mut self, path: &Path) -> Result<(), PassError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "[]".to_owned(),
            Err(error) => return Err(error.into()),
        };
        let passes: Vec<HeldPass> = serde_json::from_str(&text).map_err(io::Error::from)?;
        for pass in passes {
            let Ok(address) = Address::new(&pass.url, pass.name.clone()) else { continue };
            // Those that quotes named are at any address.
            let quoted = if self.wanted.is_some() { self.of_quotes(&address) } else { None };
            let shop = quoted.or_else(|| self.shops.iter().find(|shop| shop.address().url == address.url).cloned());
            if let Some(shop) = shop {
                shop.restore(pass, address, now());
            }
        }
        // Its folder is needed, which the working directory of a later moment may not have.
        self.file = Some(std::path::absolute(path)?);
        Ok(self.write()?)
    }

    /// Writes the file, whole: a crash leaves the old one or the new one. Tells whether that was done.
    pub(super) fn save(&self) -> bool {
        let written = self.write();
        if let Err(error) = &written {
            tracing::warn!(%error, "the file of passes was not written");
        }
        written.is_ok()
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let beside = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&serde_json::to_vec(&self.kept())?)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        sync_folder(path)
    }
}

/// The time by which a pass expires.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
