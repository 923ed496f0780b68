//! `DevChainError`: why a development chain does not start, or a call to it fails.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// An error of a [`DevChain`](super::DevChain). Its text says what failed and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DevChainError(#[from] Failure);

/// What failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// No `anvil` was found, and npm was not allowed to install one.
    #[error(
        "no anvil found in $X402_ANVIL, on PATH or in the tools/ of the target folder; \
         either install Foundry (https://getfoundry.sh) or set X402_ANVIL to the path of an anvil, \
         or let npm fetch it: `DevChain::builder().install_with_npm(true)` (needs Node.js)"
    )]
    NotFound,

    /// `X402_ANVIL` names a file that cannot be run as `anvil`.
    #[error("X402_ANVIL names {}, which is not an anvil program", path.display())]
    NotAProgram {
        /// The path that it names.
        path: PathBuf,
    },

    /// The running program is not in a target folder of cargo, so there is no folder for `tools/`.
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

    /// npm is missing or cannot be started.
    #[error("cannot start npm to install anvil: install Node.js, or set X402_ANVIL to the path of an anvil")]
    NpmMissing {
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// npm failed to install `anvil`.
    #[error("`npm install --ignore-scripts {package}` failed ({status}, code {code}); run it by hand to see why")]
    NpmFailed {
        /// The requested package, with its version.
        package: String,
        /// The exit status of npm.
        status: ExitStatus,
        /// npm's error code, or `none`.
        code: String,
    },

    /// The installation, here or in another process that holds the lock, took too long.
    #[error("installing anvil with npm took longer than {} s", limit.as_secs())]
    InstallTimeout {
        /// The time limit.
        limit: Duration,
    },

    /// A file or folder could not be created, moved or locked.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// The program that was found could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// `anvil` ended, or printed nothing for too long, before it listened.
    #[error("anvil did not start listening: {said}")]
    NotListening {
        /// The beginning of its error output.
        said: String,
    },

    /// `anvil` refused a call.
    #[error("anvil refused {method}: {message} ({code})")]
    Refused {
        /// The JSON-RPC method.
        method: String,
        /// Its JSON-RPC error code.
        code: i64,
        /// The beginning of its error message.
        message: String,
    },

    /// `anvil` could not be reached, or its answer is not JSON-RPC. Most likely it is no longer running.
    #[error("anvil does not answer {method}: it has probably ended")]
    Unreachable {
        /// The JSON-RPC method.
        method: String,
        /// The error of the connection.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// `anvil`'s answer is not what the method is documented to return.
    #[error("anvil sent an unexpected answer to {method}")]
    Unexpected {
        /// The JSON-RPC method.
        method: String,
    },

    /// A transaction was not mined in time.
    #[error("the transaction was not mined within {} s", limit.as_secs())]
    NotMined {
        /// The time limit.
        limit: Duration,
    },
}

/// Returns the beginning of foreign text, on one line and without control characters.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}
