//! The datasets program in a process of its own, which can be killed: this very program, started again.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tower_x402::protocol::TxHash;

use super::program::run;
use super::{
    market::SELLER,
    shop::{Answer, INSIGHTS, client},
};

/// A machine that is busy with other tests.
pub const PATIENT: Duration = Duration::from_secs(60);

/// Stands after the last word of a program.
const ENDED: &str = "(it ended)";

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

pub fn program(flags: &[&str]) -> Command {
    child("served::app::as_a_child", FLAGS, flags)
}

/// The test of that name, as a program with these settings in that variable, a line each.
pub fn child(test: &str, variable: &str, settings: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("X402_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.env(variable, settings.join("\n")).stdin(Stdio::null()).stderr(Stdio::piped());
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
    said: Said,
    url: String,
    rpc: String,
    http: reqwest::Client,
}

/// What a program said on standard error until now.
type Said = Arc<Mutex<String>>;

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
        Self::begin_at(listen, folder, rpc, flags, &[]).listening().await
    }

    /// Waits until it listens. A new ledger waits for the chain to reach the present: on a chain that mines on demand, one
    /// block after the other is mined, and none once it listens.
    ///
    /// Two blocks of one second may have the same time, and a payment in the second in which the ledger began is refused. So
    /// the next second is waited for.
    pub async fn listening(mut self) -> Self {
        let by_itself = !self.of_chain("anvil_getIntervalMining", json!([])).await.is_null();
        let (deadline, mut is_mined) = (tokio::time::Instant::now() + PATIENT, false);
        let said = loop {
            match tokio::time::timeout(Duration::from_millis(500), self.says("listening on ")).await {
                Ok(said) => break said,
                Err(_) if by_itself => {}
                Err(_) => {
                    self.of_chain("evm_mine", json!([])).await;
                    is_mined = true;
                }
            }
            assert!(tokio::time::Instant::now() < deadline, "does not listen:\n{}", self.said());
        };
        self.url = said.split(['"', '\n']).next().unwrap().to_owned();
        if is_mined {
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else if by_itself {
            let began = self.chain_time().await;
            while self.chain_time().await == began {
                assert!(tokio::time::Instant::now() < deadline, "the chain mines nothing");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self
    }

    async fn chain_time(&self) -> serde_json::Value {
        self.of_chain("eth_getBlockByNumber", json!(["latest", false])).await["timestamp"].take()
    }

    /// What the chain answers to this, `null` where it does not.
    async fn of_chain(&self, method: &str, parameters: serde_json::Value) -> serde_json::Value {
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        let Ok(answer) = self.http.post(&self.rpc).json(&question).send().await else { return json!(null) };
        answer.json::<serde_json::Value>().await.map_or(json!(null), |mut answer| answer["result"].take())
    }

    /// The same with these environment variables, and does not wait until it listens.
    pub fn begin_at(listen: &str, folder: PathBuf, rpc: &str, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let seller = SELLER.to_string();
        // Most tests pay as any wallet does, on a chain that mines nothing by itself, and want to hear what was sold already.
        let usual = [("--recipient", seller.as_str()), ("--hold-unbound", "0s"), ("--redeliver", "0s")];
        let usual = usual.into_iter().filter(|(flag, _)| !flags.contains(flag)).flat_map(|(flag, value)| [flag, value]);
        let flags: Vec<_> =
            ["--listen", listen, "--rpc-url", rpc].into_iter().chain(usual).chain(flags.iter().copied()).collect();
        let mut command = program(&flags);
        command.current_dir(folder).envs(variables.iter().copied());
        Self::run(command, rpc)
    }

    /// Any program that says where it listens, as this one does.
    pub fn run(mut command: Command, rpc: &str) -> Self {
        let mut process = command.stdout(Stdio::null()).spawn().unwrap();
        let said = Said::default();
        std::thread::spawn({
            let (stderr, said) = (BufReader::new(process.stderr.take().unwrap()), Arc::clone(&said));
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    said.lock().unwrap().extend([&line, "\n"]);
                }
                said.lock().unwrap().push_str(ENDED);
            }
        });
        Self { process, said, url: String::new(), rpc: rpc.to_owned(), http: client() }
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it says this; gives the rest of what it has said by then, whole lines.
    pub async fn says(&self, what: &str) -> String {
        let deadline = tokio::time::Instant::now() + PATIENT;
        loop {
            let said = self.said();
            if let Some((_, rest)) = said.split_once(what) {
                return rest.to_owned();
            }
            assert!(!said.ends_with(ENDED) && tokio::time::Instant::now() < deadline, "no {what:?} in\n{said}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::to(self.http.get(format!("{}{path}", self.url))).await
    }

    /// A request without a proof.
    pub async fn ask(&self) -> Answer {
        self.post(json!({ "query": "pricing" })).await
    }

    /// A proof, shown once.
    pub async fn present(&self, intent: &str, payment: TxHash) -> Answer {
        self.post(json!({ "query": "pricing", "intentId": intent, "txHash": payment.to_string() })).await
    }

    /// Asks it to end, as an operator does.
    pub fn ask_to_end(&self) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    }

    /// Waits until it has ended; gives its exit code and how long that took.
    pub async fn ended(mut self) -> (Option<i32>, Duration) {
        let start = std::time::Instant::now();
        tokio::task::spawn_blocking(move || (self.process.wait().unwrap().code(), start.elapsed())).await.unwrap()
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
        let answer = self.ask().await;
        assert_eq!((answer.status, answer.code()), (402, "payment_required"), "{}", answer.body);
        answer.body["intentId"].as_str().unwrap().to_owned()
    }

    /// Asked again for as long as it says so: it runs by the machine's clock, and on a machine that may be busy.
    pub async fn redeem(&self, intent: &str, payment: TxHash) -> Answer {
        let mut answer = self.present(intent, payment).await;
        for _ in 0..100 {
            if !matches!(answer.code(), "ledger_unavailable" | "redemption_in_progress" | "tx_not_confirmed") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer = self.present(intent, payment).await;
        }
        answer
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.end();
    }
}
