//! `Purse`: all passes of a client, in memory and in a file.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use http::Uri;

use super::{
    held::{HeldPass, PassError},
    shop::{Shop, origin},
};

/// All passes of a client.
#[derive(Default)]
pub(super) struct Purse {
    shops: Vec<Arc<Shop>>,
    file: Option<PathBuf>,
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

    pub(super) fn held(&self) -> Vec<HeldPass> {
        self.shops.iter().filter_map(|shop| shop.held()).collect()
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
            if let Some(shop) = self.shops.iter().find(|shop| shop.url == *pass.url) {
                shop.hold(pass);
            }
        }
        self.file = Some(path.to_owned());
        Ok(self.write()?)
    }

    /// Writes the file, whole: a crash leaves the old one or the new one.
    pub(super) fn save(&self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, "the file of passes was not written");
        }
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let beside = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&serde_json::to_vec(&self.held())?)?;
        file.sync_all()?;
        fs::rename(beside, path)
    }
}

/// The time by which a pass expires.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
