//! Programs that tests run and other registries bring: installed once for all tests of a machine.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::sync::OnceCell;

/// How long an installation may take.
const LIMIT: Duration = Duration::from_secs(300);

/// A folder with the packages of this `package.json` and its lock file.
pub fn npm_packages(name: &str, files: &[(&str, &str)]) -> Option<PathBuf> {
    filled(&tools(), name, files, |folder| {
        let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"];
        succeeds(Command::new("npm").args(npm).current_dir(folder))
    })
}

/// What `install` finds or brings, asked once.
pub async fn found(
    cell: &'static OnceCell<Option<PathBuf>>,
    install: impl FnOnce() -> Option<PathBuf> + Send + 'static,
) -> Option<&'static Path> {
    cell.get_or_init(|| async { tokio::task::spawn_blocking(install).await.unwrap() }).await.as_deref()
}

/// A folder below `parent` that has these files and what `fill` made of them. What is there under its final name is complete.
pub fn filled(
    parent: &Path,
    name: &str,
    files: &[(&str, &str)],
    fill: impl FnOnce(&Path) -> Option<()>,
) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    let name = format!("{name}-{:016x}", hasher.finish());
    fs::create_dir_all(parent).unwrap();
    // Held until the end of this function, or of the process.
    let lock = File::create(parent.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let (folder, partial) = (parent.join(&name), parent.join(format!("{name}.partial")));
    if !folder.is_dir() {
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir(&partial).unwrap();
        for (file, content) in files {
            fs::write(partial.join(file), content).unwrap();
        }
        fill(&partial)?;
        fs::rename(&partial, &folder).unwrap();
    }
    Some(folder)
}

/// Whether it ends well, and in time. What it says may name registries, and is not repeated.
pub fn succeeds(command: &mut Command) -> Option<()> {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = process.try_wait().ok()? {
            return status.success().then_some(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

/// `tools/` in cargo's target folder, where `anvil` is as well.
pub fn tools() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("tools")
}

/// Writes a file that its owner alone can read.
pub fn write_secret(path: impl AsRef<std::path::Path>, text: impl AsRef<[u8]>) {
    std::fs::write(&path, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}
