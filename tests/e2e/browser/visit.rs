//! One visit in the browser, by a script of Node.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    process::Command,
    sync::{OnceCell, Semaphore},
    time::timeout,
};

use super::shop::Shop;
use crate::support::{
    servers::{installed, missing},
    tools::{filled, found, npm_packages},
};

const PACKAGES: [(&str, &str); 2] =
    [("package.json", include_str!("js/package.json")), ("package-lock.json", include_str!("js/package-lock.json"))];
const SCRIPTS: [(&str, &str); 4] = [
    ("browser.mjs", include_str!("js/browser.mjs")),
    ("faults.mjs", include_str!("js/faults.mjs")),
    ("passes.mjs", include_str!("js/passes.mjs")),
    ("visit.mjs", include_str!("js/visit.mjs")),
];

/// For machines that are busy with other tests.
const PATIENT: Duration = Duration::from_secs(240);

/// Browsers are large: three at a time.
static PLACES: Semaphore = Semaphore::const_new(3);

/// What a visit needs of the machine: a browser, and Node with its packages.
#[derive(Clone, Copy, Debug)]
pub struct Browser {
    program: &'static Path,
    scripts: &'static Path,
}

impl Browser {
    /// The machine's; `None` where there is none.
    pub async fn find() -> Option<Self> {
        Some(Self { program: program().await?, scripts: scripts().await? })
    }

    /// Firefox, which speaks another protocol to its driver.
    pub async fn firefox() -> Option<Self> {
        Some(Self { program: firefox().await?, scripts: scripts().await? })
    }

    /// Goes through a scenario at this address of a shop, and tells what came of it.
    pub async fn visit(&self, shop: &Shop, scenario: &str, url: &str, more: Value) -> Value {
        let _place = PLACES.acquire().await.unwrap();
        let mut settings = json!({
            "program": self.program,
            "url": url,
            "chain": shop.chain.rpc_url(),
            "account": shop.buyer().to_string(),
            "folder": pictures(),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            settings[name] = value.clone();
        }
        let mut command = Command::new("node");
        command.arg(self.scripts.join("visit.mjs")).arg(scenario).arg(settings.to_string());
        let output = timeout(PATIENT, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
        let output = output.expect("it ends").unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario}: {said}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{scenario}: {said}"))
    }
}

/// Where the run leaves its screenshots.
fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    folder
}

async fn program() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    found(&FOUND, move || names.iter().find_map(|name| installed(name, &[]))).await.or_else(|| missing("chromium"))
}

async fn firefox() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    let names = ["firefox-esr", "firefox"];
    found(&FOUND, move || names.iter().find_map(|name| installed(name, &[]))).await.or_else(|| missing("firefox"))
}

async fn scripts() -> Option<&'static Path> {
    static FOUND: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    found(&FOUND, || filled(&npm_packages("x402-browser", &PACKAGES)?, "scripts", &SCRIPTS, |_| Some(())))
        .await
        .or_else(|| missing("node"))
}
