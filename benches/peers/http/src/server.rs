//! One route on loopback, served by one thread, and a handle on its process.

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Write as _, stdin},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use axum::Router;
use tokio::{net::TcpListener, runtime::Builder, sync::mpsc};
use tower_x402::ledger::MemoryLedger;

use crate::shop::{self, ROUTE, Shop};

/// Serves until standard input ends. Prints its address on a line; `pay COUNT FILE` writes that many proofs of
/// payment to that file.
pub(crate) fn serve(route: &str) -> Result<(), Box<dyn Error>> {
    let (sender, mut commands) = mpsc::unbounded_channel();
    thread::spawn(move || {
        stdin().lines().map_while(Result::ok).for_each(|line| {
            sender.send(line).ok();
        });
    });
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let shop = Shop::open(MemoryLedger::new()).await?;
        let app = match route {
            "bytes" => Router::new().route(ROUTE, shop::bytes()),
            "json" => Router::new().route(ROUTE, shop::json()),
            "paywall" => shop.app.clone(),
            _ => return Err("a route is one of bytes, json, paywall".into()),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}{ROUTE}", listener.local_addr()?);
        tokio::spawn(async { axum::serve(listener, app).await });
        while let Some(command) = commands.recv().await {
            if let ["pay", count, file] = command.splitn(3, ' ').collect::<Vec<_>>()[..] {
                fs::write(file, shop.proofs(count.parse()?).await?.join("\n"))?;
                println!("paid");
            }
        }
        Ok(())
    })
}

/// A process that [serves](serve) until this is dropped.
pub(crate) struct Server {
    process: Child,
    commands: ChildStdin,
    told: BufReader<ChildStdout>,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(route: &str) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(env::current_exe()?)
            .args(["serve", route])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().ok_or("it has an input")?;
        let told = BufReader::new(process.stdout.take().ok_or("it has an output")?);
        let mut server = Self { process, commands, told, url: String::new() };
        server.url = server.line()?;
        Ok(server)
    }

    /// Writes proofs of payment, one a line.
    pub(crate) fn pay(&mut self, count: usize, file: &Path) -> Result<(), Box<dyn Error>> {
        writeln!(self.commands, "pay {count} {}", file.display())?;
        self.line().map(drop)
    }

    /// Returns the resident memory in KiB, if the system tells.
    pub(crate) fn resident(&self) -> Result<i64, Box<dyn Error>> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Returns the processor time used so far in ticks, user and system together, if the system tells.
    pub(crate) fn ticks(&self) -> Result<f64, Box<dyn Error>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
        fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>())
            .sum::<Result<_, _>>()
            .map_err(Into::into)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        match line.trim_end() {
            "" => Err("the server ended".into()),
            line => Ok(line.to_owned()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
