//! Installs `anvil` with npm, once for all processes that need it.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use super::{
    error::{DevChainError, Failure, excerpt},
    locate::{VERSION, installed, platform, version_folder},
};

/// The time limit of an installation, waiting for other processes included.
const LIMIT: Duration = Duration::from_secs(300);

/// Installs the pinned version below `tools` and returns its binary.
pub(super) async fn install(tools: &Path) -> Result<PathBuf, DevChainError> {
    platform()?;
    match tokio::time::timeout(LIMIT, install_locked(tools)).await {
        Ok(result) => result,
        Err(_) => Err(Failure::InstallTimeout { limit: LIMIT }.into()),
    }
}

async fn install_locked(tools: &Path) -> Result<PathBuf, DevChainError> {
    let folder = version_folder(tools);
    fs::create_dir_all(tools).map_err(failed("create", tools))?;
    let _lock = lock(&tools.join(format!("anvil-{VERSION}.lock"))).await?;
    if let Some(binary) = installed(&folder) {
        return Ok(binary);
    }
    // A file under its final name is complete, because it is filled under another name.
    let partial = tools.join(format!("anvil-{VERSION}.partial"));
    remove(&partial)?;
    fs::create_dir(&partial).map_err(failed("create", &partial))?;
    npm_install(&partial).await?;
    remove(&folder)?;
    fs::rename(&partial, &folder).map_err(failed("name", &folder))?;
    installed(&folder).ok_or(Failure::NotFound.into())
}

/// Locks a file until it is closed, at the latest by the end of the process.
async fn lock(path: &Path) -> Result<File, DevChainError> {
    let file = File::create(path).map_err(failed("create", path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(TryLockError::Error(source)) => return Err(failed("lock", path)(source)),
        }
    }
}

async fn npm_install(folder: &Path) -> Result<(), DevChainError> {
    let package = format!("@foundry-rs/anvil@{VERSION}");
    let output = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
        .args(["install", "--ignore-scripts", "--include=optional"])
        .args(["--no-audit", "--no-fund", "--no-update-notifier", "--global=false", "--prefix", "."])
        .arg(&package)
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|source| Failure::NpmMissing { source })?;
    if output.status.success() && installed(folder).is_some() {
        return Ok(());
    }
    let code = code(&String::from_utf8_lossy(&output.stderr));
    Err(Failure::NpmFailed { package, status: output.status, code }.into())
}

/// Returns the code in npm's line `npm error code E404`. The rest may name registries and users, and is not repeated.
fn code(complaint: &str) -> String {
    let mut words = complaint.lines().filter_map(|line| line.split_once(" code "));
    words.next().map_or_else(|| "none".to_owned(), |(_, code)| excerpt(code))
}

fn remove(folder: &Path) -> Result<(), DevChainError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed("remove", folder)(source)),
        _ => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DevChainError {
    move |source| Failure::File { action, path: path.to_owned(), source }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_a_complaint_is_kept() {
        let complaint = "npm error code E404\nnpm error 404 Not Found - GET https://user:pass@example.org/x\n";
        assert_eq!(code(complaint), "E404");
        assert_eq!(code("something else"), "none");
    }
}
