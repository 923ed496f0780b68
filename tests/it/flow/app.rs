//! The datasets program in a process of its own, which can be killed: this very program, started again.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;
use tower_x402::protocol::TxHash;

use super::{
    market::SELLER,
    shop::{Answer, INSIGHTS, client},
};
use crate::datasets::run;

/// A machine that is busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(60);

const FLAGS: &str = "X402_TEST_FLAGS";

/// Not a test of its own: the program that the tests below start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(flags) = std::env::var(FLAGS) else { return };
    let flags = ["datasets"].into_iter().chain(flags.split('\n')).map(Into::into);
    let ended = run::run(flags).await;
    let code = ended.as_ref().map_or_else(run::Failure::code, |()| 0);
    run::ending(ended);
    std::process::exit(code.into());
}

fn program(flags: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "flow::app::as_a_child", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("X402_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.env(FLAGS, flags.join("\n")).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// How it ended, and what it said: for flags under which it does not sell.
pub async fn ended(flags: &[&str]) -> (Option<i32>, String) {
    ended_in(&std::env::temp_dir(), flags, &[]).await
}

/// The same, in this folder and with these environment variables beside.
pub async fn ended_in(folder: &std::path::Path, flags: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = program(flags);
    command.current_dir(folder).envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A server that sells, until it is dropped or killed.
pub struct App {
    process: Child,
    url: String,
    http: reqwest::Client,
}

impl App {
    /// Starts one for the seller of these tests.
    pub async fn start(rpc: &str, flags: &[&str]) -> Self {
        Self::start_in(std::env::temp_dir(), rpc, flags).await
    }

    /// The same, in this folder.
    pub async fn start_in(folder: PathBuf, rpc: &str, flags: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", folder, rpc, flags).await
    }

    /// The same, listening there.
    pub async fn start_at(listen: &str, folder: PathBuf, rpc: &str, flags: &[&str]) -> Self {
        let seller = SELLER.to_string();
        let flags = [&["--listen", listen, "--recipient", &seller, "--rpc-url", rpc], flags].concat();
        let mut process = program(&flags).current_dir(folder).stdout(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        let url = tokio::task::spawn_blocking(move || ready(said)).await.unwrap();
        Self { process, url, http: client() }
    }

    /// Where its first endpoint is.
    pub fn insights(&self) -> String {
        format!("{}{INSIGHTS}", self.url)
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    async fn post(&self, body: serde_json::Value) -> Answer {
        let request = self.http.post(self.insights());
        Answer::to(request.json(&body)).await
    }

    /// A quote's.
    pub async fn intent(&self) -> String {
        let answer = self.post(json!({ "query": "pricing" })).await;
        assert_eq!((answer.status, answer.code()), (402, "payment_required"), "{}", answer.body);
        answer.body["intentId"].as_str().unwrap().to_owned()
    }

    /// Asked again for as long as it says so: it runs by the machine's clock, and on a machine that may be busy.
    pub async fn redeem(&self, intent: &str, payment: TxHash) -> Answer {
        let body = json!({ "query": "pricing", "intentId": intent, "txHash": payment.to_string() });
        let mut answer = self.post(body.clone()).await;
        for _ in 0..100 {
            if !matches!(answer.code(), "ledger_unavailable" | "redemption_in_progress" | "tx_not_confirmed") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer = self.post(body.clone()).await;
        }
        answer
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where it listens. What it says later is read, and let go.
fn ready(mut said: BufReader<std::process::ChildStderr>) -> String {
    let mut all = String::new();
    loop {
        let start = all.len();
        assert_ne!(said.read_line(&mut all).unwrap(), 0, "it ended:\n{all}");
        if let Some((_, url)) = all[start..].split_once("listening on ") {
            let url = url.trim().to_owned();
            std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
            return url;
        }
    }
}
