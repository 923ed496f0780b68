//! Node with the official packages, and Python with its own: taken from npm and PyPI once for all tests of a machine.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::sync::OnceCell;

use crate::support::servers::missing;

const PACKAGES: [(&str, &str); 2] =
    [("package.json", include_str!("js/package.json")), ("package-lock.json", include_str!("js/package-lock.json"))];
const SCRIPTS: [(&str, &str); 7] = [
    ("buy.mjs", include_str!("js/buy.mjs")),
    ("chain.mjs", include_str!("js/chain.mjs")),
    ("circle.mjs", include_str!("js/circle.mjs")),
    ("express.mjs", include_str!("js/express.mjs")),
    ("express_v1.mjs", include_str!("js/express_v1.mjs")),
    ("facilitator.mjs", include_str!("js/facilitator.mjs")),
    ("shop.mjs", include_str!("js/shop.mjs")),
];
const REQUIREMENTS: [(&str, &str); 1] = [("requirements.txt", include_str!("python/requirements.txt"))];

/// How long an installation may take.
const LIMIT: Duration = Duration::from_secs(300);

/// The folder of the scripts, beside which are the packages that they import.
pub async fn node() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || {
        let packages = filled(&tools(), "x402-node", &PACKAGES, |folder| {
            let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"];
            succeeds(Command::new("npm").args(npm).current_dir(folder))
        })?;
        filled(&packages, "scripts", &SCRIPTS, |_| Some(()))
    })
    .await
    .or_else(|| missing("node"))
}

/// The interpreter of an environment that has the packages.
pub async fn python() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || {
        let environment = filled(&tools(), "x402-python", &REQUIREMENTS, |folder| {
            succeeds(Command::new("python3").args(["-m", "venv", "."]).current_dir(folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement", "requirements.txt"];
            succeeds(Command::new(folder.join("bin/python")).args(pip).current_dir(folder))
        })?;
        Some(environment.join("bin/python"))
    })
    .await
    .or_else(|| missing("python"))
}

async fn found(
    cell: &'static OnceCell<Option<PathBuf>>,
    install: impl FnOnce() -> Option<PathBuf> + Send + 'static,
) -> Option<&'static Path> {
    cell.get_or_init(|| async { tokio::task::spawn_blocking(install).await.unwrap() }).await.as_deref()
}

/// A folder below `parent` that has these files and what `fill` made of them. What is there under its final name is complete.
fn filled(
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
fn succeeds(command: &mut Command) -> Option<()> {
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
fn tools() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("tools")
}
