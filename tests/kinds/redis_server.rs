//! Redis servers for tests, and a wire between them and a ledger that a test can cut.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU16, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::OnceCell,
};
use tower_x402::ledger::redis_driver as driver;

use crate::support::servers::{Watched, free_port, installed, listens, missing};

/// A server in which tests may use key prefixes of their own, as a URL.
pub async fn shared() -> Option<&'static str> {
    static FOUND: OnceCell<Option<String>> = OnceCell::const_new();
    let found = FOUND
        .get_or_init(|| async {
            if let Some(url) = std::env::var("REDIS_URL").ok().filter(|url| url.starts_with("redis")) {
                return Some(url);
            }
            if listens(SocketAddr::from(([127, 0, 0, 1], 6379))).await {
                return Some("redis://127.0.0.1:6379".to_owned());
            }
            let server = Private::start(&[]).await?;
            let url = server.url();
            // Its watchdog ends it with this process.
            std::mem::forget(server);
            Some(url)
        })
        .await;
    found.as_deref().or_else(|| missing("redis"))
}

/// Puts one command to a server, as an operator would.
pub async fn command<T: driver::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let client = driver::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = driver::Cmd::new();
    command.arg(words);
    command.query_async(&mut connection).await.unwrap()
}

/// A server of a test's own.
pub struct Private {
    server: Watched,
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<String>,
}

impl Private {
    /// Starts one with these settings; `None`, aloud, where none is installed.
    pub async fn start(settings: &[&str]) -> Option<Self> {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let server = Self::launch(folder.path(), port, &settings).or_else(|| missing("redis"))?;
        let started = Self { server, folder, port, settings };
        started.wait().await;
        Some(started)
    }

    fn launch(folder: &std::path::Path, port: u16, settings: &[String]) -> Option<Watched> {
        let program = installed("redis-server", &[]).or_else(|| installed("valkey-server", &[]))?;
        let mut run = Command::new(program);
        run.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
        run.args(settings);
        Some(Watched::start(&run))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn command<T: driver::FromRedisValue>(&self, words: &[&str]) -> T {
        command(&self.url(), words).await
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    pub async fn restart(&mut self) {
        self.kill();
        self.server = Self::launch(self.folder.path(), self.port, &self.settings).unwrap();
        self.wait().await;
    }

    async fn wait(&self) {
        for _ in 0..200 {
            if let Ok(client) = driver::Client::open(self.url())
                && let Ok(mut connection) = client.get_multiplexed_async_connection().await
                && driver::cmd("PING").query_async::<driver::Value>(&mut connection).await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the private Redis does not answer");
    }
}

/// A sentinel of a test's own.
pub struct Sentinel {
    _program: Watched,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Sentinel {
    pub async fn start(rules: &str) -> Option<Self> {
        let program = installed("redis-server", &[]).or_else(|| installed("valkey-server", &[]));
        let program = program.or_else(|| missing("redis"))?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let settings = folder.path().join("sentinel.conf");
        std::fs::write(&settings, format!("port {port}\nbind 127.0.0.1\n{rules}")).unwrap();
        let mut run = Command::new(program);
        run.arg(&settings).args(["--sentinel", "--dir"]).arg(folder.path());
        let started = Self { _program: Watched::start(&run), _folder: folder, port };
        for _ in 0..200 {
            if listens(SocketAddr::from(([127, 0, 0, 1], port))).await {
                return Some(started);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the sentinel does not answer");
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// What the wire does with what a ledger says from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
pub enum Mood {
    /// It carries everything.
    Carries,
    /// It carries what the ledger says, and ends the connection instead of bringing the answer.
    CutsAnswers,
    /// It carries nothing on the connections that are there, and everything on new ones.
    Hangs,
}

/// A TCP proxy.
pub struct Wire {
    address: SocketAddr,
    mood: Arc<AtomicU8>,
    port: Arc<AtomicU16>,
}

impl Wire {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, mood) = (listener.local_addr().unwrap(), Arc::new(AtomicU8::new(Mood::Carries as u8)));
        let (shared, port) = (Arc::clone(&mood), Arc::new(AtomicU16::new(port)));
        let leads_to = Arc::clone(&port);
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", leads_to.load(Ordering::SeqCst))).await else {
                    continue;
                };
                // Whoever connects now is not in the way of what hung before.
                let _ =
                    shared.compare_exchange(Mood::Hangs as u8, Mood::Carries as u8, Ordering::SeqCst, Ordering::SeqCst);
                let (answers, questions) = (Arc::clone(&shared), near.into_split());
                let (far_in, mut far_out) = far.into_split();
                let (mut near_in, mut near_out) = questions;
                tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
                tokio::spawn(async move {
                    let (mut far_in, mut buffer) = (far_in, [0; 4_096]);
                    loop {
                        let read = far_in.read(&mut buffer).await.unwrap_or(0);
                        match answers.load(Ordering::SeqCst) {
                            mood if mood == Mood::CutsAnswers as u8 => {
                                // Once.
                                answers.store(Mood::Carries as u8, Ordering::SeqCst);
                                return;
                            }
                            mood if mood == Mood::Hangs as u8 => std::future::pending().await,
                            _ => {}
                        }
                        if read == 0 || near_out.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, mood, port }
    }

    /// Connections made from now on lead there.
    pub fn leads_to(&self, port: u16) {
        self.port.store(port, Ordering::SeqCst);
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn becomes(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    pub fn mood(&self) -> u8 {
        self.mood.load(Ordering::SeqCst)
    }
}
