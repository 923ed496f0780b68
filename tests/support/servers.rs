//! Database servers for tests: the one named in the environment, else a private one started from installed binaries, else the one on the
//! standard port. Without any a test says aloud that it was skipped; `X402_TEST_REQUIRE=postgres,…`
//! makes that a failure.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{net::TcpStream, sync::OnceCell, time::timeout};

/// A PostgreSQL database in which tests may create schemas, as a URL without query.
pub async fn postgres() -> Option<&'static str> {
    static FOUND: OnceCell<Option<String>> = OnceCell::const_new();
    let found = FOUND
        .get_or_init(|| async {
            if let Some(url) = std::env::var("DATABASE_URL").ok().filter(|url| url.starts_with("postgres")) {
                return Some(url);
            }
            if let Some(server) = PrivatePostgres::start(&[]).await {
                let url = server.url();
                // Its watchdog ends it with this process.
                std::mem::forget(server);
                return Some(url);
            }
            let standard = "postgres://postgres@127.0.0.1:5432/test";
            let listens = listens(SocketAddr::from(([127, 0, 0, 1], 5432))).await;
            (listens && postgres_answers(standard).await).then(|| standard.to_owned())
        })
        .await;
    found.as_deref().or_else(|| missing("postgres"))
}

/// Says that a test is skipped for want of a server; fails where that server is required.
pub fn missing<T>(server: &str) -> Option<T> {
    let required = std::env::var("X402_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == server), "{server} is required and was not found");
    // Past the capture of the test harness.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: no {server} found\n").as_bytes());
    None
}

pub async fn listens(address: SocketAddr) -> bool {
    matches!(timeout(Duration::from_secs(1), TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An installed program: on the path, or in one of these folders.
pub fn installed(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(program));
    folders.iter().map(|folder| folder.join(program)).chain(on_path).find(|file| file.is_file())
}

/// A server that ends with this process, however that ends: a shell waits for the end of its input, then kills it.
pub struct Watched(Child);

impl Watched {
    pub fn start(run: &Command) -> Self {
        let script =
            r#"exec 3<&0; "$@" </dev/null & server=$!; (read -r _; kill -9 "$server") <&3 & wait "$server"; kill "$!""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(run.get_program()).args(run.get_args());
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }

    /// Kills it at once, as a power cut would.
    pub fn kill(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A PostgreSQL server of a test's own.
pub struct PrivatePostgres {
    server: Watched,
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<&'static str>,
}

impl PrivatePostgres {
    /// Starts one with these settings; `None` where it is not installed.
    pub async fn start(settings: &[&'static str]) -> Option<Self> {
        let initdb = installed("initdb", &postgres_folders())?;
        let folder = tempfile::tempdir().unwrap();
        own(folder.path());
        let data = folder.path().join("data");
        let mut create = as_server(&initdb);
        create.args(["--auth=trust", "--username=postgres", "--no-sync", "--pgdata"]).arg(&data);
        assert!(create.stdout(Stdio::null()).status().unwrap().success(), "initdb failed");
        let (port, settings) = (free_port(), settings.to_vec());
        let server = Self::launch(&data, port, &settings)?;
        let started = Self { server, folder, port, settings };
        started.wait().await;
        Some(started)
    }

    fn launch(data: &Path, port: u16, settings: &[&str]) -> Option<Watched> {
        let mut run = as_server(&installed("postgres", &postgres_folders())?);
        run.arg("-D").arg(data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        run.args(["-c", "unix_socket_directories="]);
        // A kill of its processes loses nothing that the kernel has, and a slow disk makes the tests many times slower.
        run.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        for setting in settings {
            run.args(["-c", setting]);
        }
        Some(Watched::start(&run))
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills every process of it at once.
    pub fn kill(&mut self) {
        let pid_file = self.folder.path().join("data/postmaster.pid");
        let pid = std::fs::read_to_string(pid_file).unwrap().lines().next().unwrap().to_owned();
        let signal =
            |signal: &str, pids: &[&str]| Command::new("kill").arg(signal).args(pids).status().unwrap().success();
        // Stopped it has no more children, which would write a little longer than it lives.
        assert!(signal("-STOP", &[&pid]));
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        assert!(signal("-9", &[&pid]));
        let children: Vec<_> = children.split_whitespace().collect();
        if !children.is_empty() {
            let _ = signal("-9", &children);
        }
        self.server.kill();
    }

    pub async fn restart(&mut self) {
        let data = self.folder.path().join("data");
        let _ = std::fs::remove_file(data.join("postmaster.pid"));
        self.server = Self::launch(&data, self.port, &self.settings).unwrap();
        self.wait().await;
    }

    /// A standby that streams what this one writes; `None` where the program for that is not installed.
    pub async fn standby(&self) -> Option<Self> {
        let copy = installed("pg_basebackup", &postgres_folders())?;
        let folder = tempfile::tempdir().unwrap();
        own(folder.path());
        let data = folder.path().join("data");
        let mut copy = as_server(&copy);
        copy.args([
            "--host=127.0.0.1",
            "--username=postgres",
            "--no-sync",
            "--write-recovery-conf",
            "--checkpoint=fast",
        ]);
        copy.arg(format!("--port={}", self.port)).arg("--pgdata").arg(&data);
        assert!(copy.stdout(Stdio::null()).status().unwrap().success(), "pg_basebackup failed");
        let (port, settings) = (free_port(), self.settings.clone());
        let server = Self::launch(&data, port, &settings)?;
        let started = Self { server, folder, port, settings };
        started.wait().await;
        Some(started)
    }

    /// Ends, and goes on where that one was.
    pub async fn take_the_place_of(&mut self, other: &Self) {
        self.kill();
        self.port = other.port;
        self.restart().await;
    }

    async fn wait(&self) {
        for _ in 0..600 {
            if postgres_answers(&self.url()).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the private PostgreSQL does not answer");
    }
}

fn postgres_folders() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

fn unprivileged() -> &'static str {
    let there = Command::new("id").arg("postgres").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) { "postgres" } else { "nobody" }
}

/// Gives this to the user that servers run as: they refuse to run as root.
pub fn own(folder: &Path) {
    if is_root() {
        assert!(Command::new("chown").arg("-R").arg(unprivileged()).arg(folder).status().unwrap().success());
    }
}

pub fn as_server(program: &Path) -> Command {
    let mut command = Command::new(if is_root() { Path::new("setpriv") } else { program });
    if is_root() {
        let user = unprivileged();
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(program);
    }
    command.current_dir("/");
    command
}

async fn postgres_answers(url: &str) -> bool {
    use tower_x402::ledger::sqlx::{Connection as _, PgConnection};
    match timeout(Duration::from_secs(2), PgConnection::connect(url)).await {
        Ok(Ok(connection)) => connection.close().await.is_ok(),
        _ => false,
    }
}

#[cfg(not(feature = "postgres"))]
async fn postgres_answers(_: &str) -> bool {
    false
}
