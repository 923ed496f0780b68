//! Scripts that run: until they end, or for as long as they are wanted.

use std::process::Stdio;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{PATIENT, tools};

/// A script of Node, not started yet.
pub async fn script(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(tools::node().await.expect("looked for by the world").join(name));
    command
}

/// Runs it to its end, and gives what it printed: lines of JSON.
pub async fn lines(command: &mut Command) -> Vec<Value> {
    let output = timeout(PATIENT * 2, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A script that serves, until this is dropped or this process ends.
pub struct Server {
    pub url: String,
    // Its standard input ends with it, and so does the script.
    process: Child,
}

impl Server {
    pub async fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = piped.kill_on_drop(true).spawn().unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = timeout(PATIENT, printed.next_line()).await.expect("it listens").unwrap().expect("it runs");
        let url = line.strip_prefix("listening on ").expect("where it listens").to_owned();
        Self { url, process }
    }

    /// Ends it at once, whatever it is doing.
    pub async fn kill(&mut self) {
        self.process.kill().await.unwrap();
    }
}
