//! Node with the official packages, and Python with its own: taken from npm and PyPI once for all tests of a machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tokio::sync::OnceCell;

use crate::support::{
    servers::missing,
    tools::{filled, found, npm_packages, succeeds, tools},
};

const PACKAGES: [(&str, &str); 2] =
    [("package.json", include_str!("js/package.json")), ("package-lock.json", include_str!("js/package-lock.json"))];
const SCRIPTS: [(&str, &str); 12] = [
    ("buy.mjs", include_str!("js/buy.mjs")),
    ("buy_mpp.mjs", include_str!("js/buy_mpp.mjs")),
    ("buy_v1.mjs", include_str!("js/buy_v1.mjs")),
    ("chain.mjs", include_str!("js/chain.mjs")),
    ("channel.mjs", include_str!("js/channel.mjs")),
    ("circle.mjs", include_str!("js/circle.mjs")),
    ("discovery.mjs", include_str!("js/discovery.mjs")),
    ("express.mjs", include_str!("js/express.mjs")),
    ("express_mpp.mjs", include_str!("js/express_mpp.mjs")),
    ("express_v1.mjs", include_str!("js/express_v1.mjs")),
    ("facilitator.mjs", include_str!("js/facilitator.mjs")),
    ("shop.mjs", include_str!("js/shop.mjs")),
];
const REQUIREMENTS: [(&str, &str); 1] = [("requirements.txt", include_str!("python/requirements.txt"))];
const REQUIREMENTS_MPP: [(&str, &str); 1] = [("requirements.txt", include_str!("python/requirements_mpp.txt"))];
const REQUIREMENTS_V1: [(&str, &str); 1] = [("requirements.txt", include_str!("python/requirements_v1.txt"))];

/// The folder of the scripts, beside which are the packages that they import.
pub async fn node() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || {
        let packages = npm_packages("x402-node", &PACKAGES)?;
        filled(&packages, "scripts", &SCRIPTS, bundle)
    })
    .await
    .or_else(|| missing("node"))
}

/// Puts what each script imports into its own file: it is the packages' code as they bring it, and starts in a third of the time.
fn bundle(scripts: &Path) -> Option<()> {
    // Code that calls `require` is among it, which a module does not have.
    let require = "--banner:js=import { createRequire as requires } from 'node:module'; \
        const require = requires(import.meta.url);";
    let mut command = Command::new("../node_modules/.bin/esbuild");
    command.args(SCRIPTS.map(|(name, _)| name)).args([
        "--bundle",
        "--platform=node",
        "--format=esm",
        "--out-extension:.js=.mjs",
        "--outdir=.",
        "--allow-overwrite",
        "--external:@modelcontextprotocol/sdk",
        require,
    ]);
    succeeds(command.current_dir(scripts))
}

/// The interpreter of an environment that has the packages.
pub async fn python() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || environment("x402-python", &REQUIREMENTS)).await.or_else(|| missing("python"))
}

/// The same with the packages of version 1.
pub async fn python_v1() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || environment("x402-python-v1", &REQUIREMENTS_V1)).await.or_else(|| missing("python"))
}

/// The same with the client of MPP.
pub async fn python_mpp() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || environment("x402-python-mpp", &REQUIREMENTS_MPP)).await.or_else(|| missing("python"))
}

fn environment(name: &str, requirements: &[(&str, &str)]) -> Option<PathBuf> {
    let environment = filled(&tools(), name, requirements, |folder| {
        succeeds(Command::new("python3").args(["-m", "venv", "."]).current_dir(folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement", "requirements.txt"];
        succeeds(Command::new(folder.join("bin/python")).args(pip).current_dir(folder))
    })?;
    Some(environment.join("bin/python"))
}
