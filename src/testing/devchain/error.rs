//! Why a development chain does not start or does not do as told.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// What can go wrong with a [`DevChain`](super::DevChain).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevChainError {
    /// There is no `anvil` in any of the places, and npm was not allowed to bring one.
    #[error(
        "no anvil found in $X402_ANVIL, on PATH or in the tools/ of the target folder; \
         either install Foundry (https://getfoundry.sh) or set X402_ANVIL to the path of an anvil, \
         or let npm fetch it: `DevChain::builder().install_with_npm(true)` (needs Node.js)"
    )]
    NotFound,

    /// `X402_ANVIL` is set to something that cannot be run as `anvil`.
    #[error("X402_ANVIL names {}, which is not an anvil program", path.display())]
    NotAProgram {
        /// What it names.
        path: PathBuf,
    },

    /// The running program is not below a target folder of cargo, so there is no place for `tools/`.
    #[error(
        "no target folder of cargo above the running program to install anvil in; \
         name one with `DevChain::builder().tools_dir(…)` or set X402_ANVIL to the path of an anvil"
    )]
    NoToolsFolder,

    /// npm has no `anvil` for this operating system and processor.
    #[error("npm has no anvil for {os} on {arch}; set X402_ANVIL to the path of one")]
    UnsupportedPlatform {
        /// As in [`std::env::consts::OS`].
        os: &'static str,
        /// As in [`std::env::consts::ARCH`].
        arch: &'static str,
    },

    /// npm was asked for, and is not there or cannot be started.
    #[error("cannot start npm to install anvil: install Node.js, or set X402_ANVIL to the path of an anvil")]
    NpmMissing {
        /// What the operating system said.
        #[source]
        source: io::Error,
    },

    /// npm did not install `anvil`.
    #[error("`npm install --ignore-scripts {package}` failed ({status}, code {code}); run it by hand to see why")]
    NpmFailed {
        /// The package that was asked for, with its version.
        package: String,
        /// How npm ended.
        status: ExitStatus,
        /// npm's own error code, `none` if it gave none.
        code: String,
    },

    /// The installation, here or in another process that holds the lock, takes too long.
    #[error("installing anvil with npm took longer than {} s", limit.as_secs())]
    InstallTimeout {
        /// How long it was given.
        limit: Duration,
    },

    /// A file or folder could not be made, moved or locked.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },

    /// The program that was found could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },

    /// `anvil` ended, or stayed silent for too long, before it listened.
    #[error("anvil did not get to listen: {said}")]
    NotListening {
        /// The beginning of what it said about it.
        said: String,
    },

    /// `anvil` refused a call.
    #[error("anvil refused {method}: {message} ({code})")]
    Refused {
        /// The JSON-RPC method.
        method: String,
        /// Its JSON-RPC error code.
        code: i64,
        /// The beginning of its reason.
        message: String,
    },

    /// `anvil` could not be reached, or its answer is not JSON-RPC: most likely it is no longer running.
    #[error("anvil does not answer {method}")]
    Unreachable {
        /// The JSON-RPC method.
        method: String,
        /// What the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// `anvil` answered something else than the method is documented to answer.
    #[error("anvil answered {method} with something unexpected")]
    Unexpected {
        /// The JSON-RPC method.
        method: String,
    },

    /// A transaction that was waited for is not in any block.
    #[error("the transaction was not mined within {} s", limit.as_secs())]
    NotMined {
        /// How long it was given.
        limit: Duration,
    },
}

/// The beginning of foreign text, on one line and without control characters.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}
