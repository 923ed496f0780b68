//! `Purse`: all passes of a client, in memory and in a file.

use std::{
    collections::HashMap,
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::Uri;
use tokio::time::Instant;

use super::{
    held::{HeldPass, PassError},
    offered::{Offered, Wanted},
    shop::{Shop, origin},
};
use crate::client::PurchaseId;

/// How long no quote is asked for again where none named a pass that is wanted.
const PAUSE: Duration = Duration::from_secs(600);
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
    pub(super) fn add(&mut self, shop: Shop) -> Result<(), PassError> {
        if self.shops.iter().any(|known| known.origin() == shop.origin()) {
            return Err(PassError::ShopTwice);
        }
        self.shops.push(Arc::new(shop));
        Ok(())
    }

    /// The shop to which a request goes, unless it is the one that buys a pass there.
    pub(super) fn shop_of(&self, uri: &Uri) -> Option<Arc<Shop>> {
        let to = origin(uri)?;
        let shop = self.shops.iter().find(|shop| shop.origin() == to)?;
        (shop.url.path() != uri.path()).then(|| Arc::clone(shop))
    }

    /// Whether a quote for this address is asked for first, since it may name a pass.
    pub(super) fn looks_at(&self, uri: &Uri) -> Option<Wanted> {
        let (wanted, origin) = (self.wanted.clone()?, origin(uri)?);
        let looked = self.looked.get(&(origin, uri.path().to_owned()));
        looked.is_none_or(|looked| looked.elapsed() >= PAUSE).then_some(wanted)
    }

    /// There is no such pass at this address.
    pub(super) fn looked(&mut self, uri: &Uri) {
        if self.looked.len() >= MOST_LOOKED_AT {
            self.looked.retain(|_, looked| looked.elapsed() < PAUSE);
        }
        if let Some(origin) = origin(uri).filter(|_| self.looked.len() < MOST_LOOKED_AT) {
            self.looked.insert((origin, uri.path().to_owned()), Instant::now());
        }
    }

    /// The shop of a pass that a quote of this address named: at the same origin, and no other.
    pub(super) fn found(&mut self, uri: &Uri, offered: Offered) -> Option<Arc<Shop>> {
        let url = match offered.url? {
            // Without the credentials that an address may have: this one is kept, and shown.
            path if path.starts_with('/') => {
                let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
                format!("{}://{}{port}{path}", uri.scheme_str()?, uri.host()?)
            }
            url => url,
        };
        let shop =
            Shop::new(&url, Some(offered.name)).ok().filter(|shop| Some(shop.origin()) == origin(uri).as_deref())?;
        // One that was named before, at another address. Its pass stays, if it holds one by now.
        let is_moved = |known: &Shop| known.is_quoted && known.origin() == shop.origin() && known.url != shop.url;
        self.shops.retain(|known| !is_moved(known) || known.header(now()).is_some());
        let _ = self.add(shop.quoted());
        self.shop_of(uri)
    }

    pub(super) fn held(&self) -> Vec<HeldPass> {
        self.kept().into_iter().filter(|pass| !pass.token.is_empty()).collect()
    }

    fn kept(&self) -> Vec<HeldPass> {
        self.shops.iter().filter_map(|shop| shop.kept()).collect()
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
            // Those that quotes named are at any address.
            if let Some(shop) = Shop::new(&pass.url, pass.name.clone()).ok().filter(|_| self.wanted.is_some()) {
                let _ = self.add(shop.quoted());
            }
            if let Some(shop) = self.shops.iter().find(|shop| shop.url == *pass.url) {
                shop.hold(pass);
            }
        }
        self.file = Some(path.to_owned());
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
        fs::rename(beside, path)
    }
}

/// The time by which a pass expires.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
