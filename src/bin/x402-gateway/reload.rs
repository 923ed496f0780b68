//! SIGHUP: reads routes and prices anew while requests are served.

use std::{collections::BTreeSet, path::PathBuf};

use super::{
    backends::Backends,
    config::{self, Config, Shelf},
    failure::Failure,
    gateway::{Generation, Present},
    log::TARGET,
    proxy::Proxy,
    shop,
};

/// What a reload needs from the start of the program.
#[derive(Debug)]
pub(crate) struct Reloads {
    pub(crate) path: PathBuf,
    pub(crate) config: Config,
    pub(crate) backends: Backends,
    pub(crate) proxy: Proxy,
}

impl Reloads {
    /// Reads the file again at each hangup, for as long as the program runs.
    pub(crate) async fn follow(mut self, mut hangups: Hangups, present: Present) {
        loop {
            hangups.next().await;
            match self.read().await {
                Ok((config, generation)) => {
                    for gone in gone(&self.config.shelf, &config.shelf) {
                        tracing::warn!(target: TARGET, route = gone, "no longer sold: open quotes for it cannot be redeemed");
                    }
                    present.replace(generation);
                    tracing::info!(target: TARGET, routes = config.shelf.routes.len(), "reloaded the configuration");
                    self.config = config;
                }
                Err(failure) => {
                    let reason = failure.reason();
                    tracing::error!(target: TARGET, "the new configuration is not used, the old one stays: {reason}");
                }
            }
        }
    }

    async fn read(&self) -> Result<(Config, Generation), Failure> {
        let config = config::load(&self.path)?;
        let changed = self.config.fixed.changed(&config.fixed);
        if !changed.is_empty() {
            let names = changed.join(", ");
            return Err(Failure::usage(format!(
                "{names} changed; only routes and prices are reloaded, so restart instead"
            )));
        }
        let generation = shop::open(self.backends.merchant(&config.fixed)?, &config.shelf, &self.proxy).await?;
        Ok((config, generation))
    }
}

/// Returns the names that the old shelf sold and the new one does not.
fn gone(old: &Shelf, new: &Shelf) -> impl Iterator<Item = String> {
    let kept: BTreeSet<String> = new.offers().map(|(name, _)| name).collect();
    old.offers().map(|(name, _)| name).filter(move |name| !kept.contains(name))
}

/// Starts listening for SIGHUP; each signal counts from now on.
///
/// # Errors
/// Fails if the system refuses the handler.
#[cfg(unix)]
pub(crate) fn hangups() -> Result<Hangups, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::hangup()).map(Hangups).map_err(Failure::environment)
}

#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Returns a source without any hangups: only Unix has SIGHUP.
///
/// # Errors
/// Never fails.
#[cfg(not(unix))]
pub(crate) fn hangups() -> Result<Hangups, Failure> {
    Ok(Hangups)
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    async fn next(&mut self) {
        std::future::pending().await
    }
}
