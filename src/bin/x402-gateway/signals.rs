//! Requests to shut down, Ctrl-C or SIGTERM, which count also while no task waits for them.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts listening for both signals; each one counts from now on.
#[cfg(unix)]
pub(crate) fn signals() -> io::Result<Endings> {
    Ok(Endings { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
}

#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Endings {
    interrupt: Signal,
    terminate: Signal,
}

#[cfg(unix)]
impl Endings {
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn signals() -> io::Result<Endings> {
    Ok(Endings)
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Endings;

#[cfg(not(unix))]
impl Endings {
    pub(crate) async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
