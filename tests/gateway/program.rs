//! The gateway and its upstream, each in a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tower_x402::protocol::Address;

use crate::support::tools::write_secret;

/// Nobody that a chain begins with.
pub const SELLER: Address = Address::new([0x5e; 20]);
/// For machines that are busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(60);
/// Where no node listens.
pub const NOWHERE: &str = "http://127.0.0.1:9";
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A program that ends with this value, and what it said until now.
pub struct Running {
    process: Child,
    said: Arc<Mutex<String>>,
    pub url: String,
}

impl Running {
    /// Starts it, and waits until it says where it listens.
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        collect(process.stdout.take().unwrap(), Arc::clone(&said));
        collect(process.stderr.take().unwrap(), Arc::clone(&said));
        let mut running = Self { process, said, url: String::new() };
        let line = running.says("listening on ");
        running.url = line.split(['"', '\n', ' ']).next().unwrap().to_owned();
        running
    }

    /// Waits for this text, and gives what follows it.
    pub fn says(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let said = self.said();
            if let Some((_, rest)) = said.split_once(text).filter(|(_, rest)| rest.contains('\n')) {
                return rest.to_owned();
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < PATIENT, "does not say {text:?} ({ended:?}):\n{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it this signal.
    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.id().to_string()]).status().unwrap().success());
    }

    /// Waits until it has ended; its exit code, and how long that took.
    pub fn ended(&mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return (status.code(), start.elapsed());
            }
            assert!(start.elapsed() < PATIENT, "does not end:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn collect(from: impl Read + Send + 'static, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap();
            said.push_str(&line);
            said.push('\n');
        }
    });
}

/// A Python program that serves.
pub fn python(script: &str, arguments: &[&str]) -> Running {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    Running::start(Command::new("python3").arg(script).args(arguments))
}

/// The upstream of most tests.
pub fn upstream() -> Running {
    python("tests/gateway/upstream.py", &[])
}

/// What arrived at it.
pub async fn seen(upstream: &Running) -> Vec<Value> {
    let answer = reqwest::get(format!("{}/seen", upstream.url)).await.unwrap();
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// A folder with a configuration and its keys.
pub struct Shop {
    pub folder: TempDir,
    rpc: String,
    upstream: String,
}

impl Shop {
    pub fn new(rpc: &str, upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_secret(folder.path().join("seal.key"), format!("{KEY}\n"));
        Self { folder, rpc: rpc.to_owned(), upstream: upstream.to_owned() }
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("gateway.toml")
    }

    /// Writes the configuration: what all have, and this.
    pub fn write(&self, top: &str, network: &str, rest: &str) {
        let (rpc, upstream) = (&self.rpc, &self.upstream);
        let text = format!(
            "listen = \"127.0.0.1:0\"\nrecipient = \"{SELLER}\"\nsealing_key_file = \"seal.key\"\n\
             ledger = \"sqlite:ledger.db\"\n{top}\n[[network]]\nname = \"base\"\nrpc = [\"{rpc}\"]\n{network}\n\
             [upstream]\nurl = \"{upstream}\"\ntimeout = \"2s\"\n{rest}\n"
        );
        std::fs::write(self.config(), text).unwrap();
    }

    /// The program with this configuration.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_x402-gateway"));
        command.arg("--config").arg(self.config()).args(arguments).current_dir(std::env::temp_dir());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("X402_") || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        command
    }

    pub fn start(&self) -> Running {
        Running::start(&mut self.command(&[]))
    }

    /// Runs to its end: exit code, what it printed, and what it complained of.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

/// A free gateway: nothing is for sale, and no chain is needed.
pub fn free(upstream: &Running) -> (Shop, Running) {
    let shop = Shop::new(NOWHERE, &upstream.url);
    shop.write("", "", "[default]\naction = \"free\"");
    let gateway = shop.start();
    (shop, gateway)
}
