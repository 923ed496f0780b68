//! The running gateway: connects to what the configuration names, and serves.

use std::{path::PathBuf, time::Duration};

use tokio::net::TcpListener;

use super::{
    backends::{self, Backends},
    check, claim,
    config::Config,
    failure::Failure,
    gateway::{Gateway, Present},
    metrics,
    proxy::Peer,
    reload, serve, shop, status,
};

/// How long the head of a request may take, a connection may be idle, and an answer may stay unread.
const HEAD: Duration = Duration::from_secs(30);
/// How long requests in flight may take once shutdown was requested. With all that follows, it stays below 15
/// seconds.
const ENDING: Duration = Duration::from_secs(14);

/// Sells until shutdown is requested.
///
/// # Errors
/// Fails on a wrong configuration and on errors of the backends.
pub(crate) async fn sell(path: PathBuf, config: Config, listener: TcpListener) -> Result<(), Failure> {
    let proxy = backends::proxy(&config.fixed)?;
    let status = match config.fixed.status {
        Some(address) => Some(status::Status::listen(address, metrics::recorder()?).await?),
        None => None,
    };
    let hangups = reload::hangups()?;
    let backends = Backends::connect(&config.fixed).await?;
    let generation = shop::open(backends.merchant(&config.fixed)?, &config.shelf, &proxy).await?;
    if config.fixed.networks.iter().any(|network| network.channel_key.is_some()) {
        tokio::spawn(claim::merchant(&backends, &config.fixed).await?.claimer().run());
    }
    check::announce(&config);
    let present = Present::new(generation);
    if let Some(status) = status {
        tokio::spawn(status.serve(present.clone()));
    }
    let reloads = reload::Reloads { path, config, backends, proxy: proxy.clone() };
    tokio::spawn(reloads.follow(hangups, present.clone()));

    let patience = serve::Patience { head: HEAD, ending: ENDING };
    let gateway = |peer| Gateway { present: present.clone(), proxy: proxy.clone(), peer: Peer::new(peer) };
    serve::serve(listener, gateway, patience).await.map_err(Failure::environment)
}
