//! Finds an installed `anvil`.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use super::error::{DevChainError, Failure};

/// The version that npm installs.
pub(super) const VERSION: &str = "1.7.1";

/// The places that are searched, in this order.
#[derive(Debug)]
pub(super) struct Places {
    named: Option<OsString>,
    path: Option<OsString>,
    /// The folder that tools are installed into, if there is one.
    pub(super) tools: Option<PathBuf>,
}

impl Places {
    pub(super) fn of_this_process(tools: Option<PathBuf>) -> Self {
        Self {
            named: env::var_os("X402_ANVIL").filter(|name| !name.is_empty()),
            path: env::var_os("PATH"),
            tools: tools.or_else(tools_of_target_folder),
        }
    }

    pub(super) fn find(&self) -> Result<Option<PathBuf>, DevChainError> {
        if let Some(named) = &self.named {
            // The operating system would search PATH for a bare name.
            let path = std::path::absolute(named).unwrap_or_else(|_| named.into());
            return native(&path).map(Some).ok_or(Failure::NotAProgram { path }.into());
        }
        Ok(self.on_path().or_else(|| installed(&version_folder(self.tools.as_deref()?))))
    }

    fn on_path(&self) -> Option<PathBuf> {
        let name = format!("anvil{}", env::consts::EXE_SUFFIX);
        env::split_paths(self.path.as_ref()?).find_map(|folder| native(&folder.join(&name)))
    }
}

/// Returns the folder of the pinned version below `tools`.
pub(super) fn version_folder(tools: &Path) -> PathBuf {
    tools.join(format!("anvil-{VERSION}"))
}

/// Returns the binary inside a folder that npm installed into.
pub(super) fn installed(folder: &Path) -> Option<PathBuf> {
    let path = folder.join("node_modules/@foundry-rs").join(platform_binary().ok()?);
    path.is_file().then_some(path)
}

/// Returns `tools/` in the target folder of cargo that the running program is in.
fn tools_of_target_folder() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let is_target =
        |folder: &&Path| [".rustc_info.json", "CACHEDIR.TAG"].iter().any(|mark| folder.join(mark).is_file());
    Some(program.ancestors().skip(1).find(is_target)?.join("tools"))
}

/// Returns the program itself, or `None`. A script is npm's wrapper, which would leave `anvil` running when killed: its binary
/// is returned instead.
fn native(path: &Path) -> Option<PathBuf> {
    let mut start = [0; 2];
    File::open(path).ok()?.read_exact(&mut start).ok()?;
    if start != *b"#!" {
        return Some(path.to_owned());
    }
    let wrapper = path.canonicalize().ok()?;
    let package = wrapper.parent()?;
    let beside = package.parent()?.join(platform_binary().ok()?);
    if beside.is_file() { Some(beside) } else { installed(package) }
}

/// Returns the binary in the folder `@foundry-rs`: npm has one package per platform.
fn platform_binary() -> Result<PathBuf, DevChainError> {
    let name = platform()?;
    Ok(PathBuf::from(format!("anvil-{name}/bin/anvil{}", env::consts::EXE_SUFFIX)))
}

/// Returns this platform's name among npm's packages.
pub(super) fn platform() -> Result<&'static str, DevChainError> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-amd64"),
        ("linux", "aarch64") => Ok("linux-arm64"),
        ("macos", "x86_64") => Ok("darwin-amd64"),
        ("macos", "aarch64") => Ok("darwin-arm64"),
        ("windows", "x86_64") => Ok("win32-amd64"),
        (os, arch) => Err(Failure::UnsupportedPlatform { os, arch }.into()),
    }
}
