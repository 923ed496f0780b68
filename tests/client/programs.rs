//! The buyer's program and the seller's, each in a process of its own, which can be killed.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    served::{
        app::App,
        market::{Market, PRICE},
        shop::{client, serve},
    },
    support::servers::free_port,
};

const FLAGS: &str = "X402_TEST_BUYER_FLAGS";
pub const AS_A_CHILD: [&str; 3] = ["--exact", "programs::as_a_child", "--nocapture"];
const QUESTION: &str = r#"{"query":"What stops visitors from paying for a year?"}"#;

/// Not a test of its own: the program that the tests below start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(flags) = std::env::var(FLAGS) else { return };
    let code = crate::buy::buy(["buy"].into_iter().chain(flags.split('\n')).map(Into::into)).await;
    std::process::exit(code.into());
}

pub fn program(market: &Market, folder: &Path, url: &str, flags: &[&str]) -> Command {
    let flags = [&[url, QUESTION, "--rpc-url", market.chain.rpc_url()], flags].concat();
    let mut command = child(folder, &flags);
    command.env("X402_BUYER_KEY", market.chain.accounts()[9].private_key());
    command
}

/// The program with these flags and no key.
pub fn child(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(AS_A_CHILD).current_dir(folder).env(FLAGS, flags.join("\n"));
    command.env_remove("X402_BUYER_KEY").env_remove("X402_RPC_URL").stdin(Stdio::null());
    command
}

/// Runs to its end: exit code, and what it said.
pub async fn run(market: &Market, folder: &Path, url: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    ended(program(market, folder, url, flags)).await
}

pub async fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A buyer under way.
pub struct Buyer {
    process: Child,
    said: BufReader<ChildStderr>,
}

impl Buyer {
    pub fn start(market: &Market, folder: &Path, url: &str, flags: &[&str]) -> Self {
        let mut command = program(market, folder, url, flags);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        Self { process, said }
    }

    /// Waits until it says this.
    pub async fn says(mut self, what: &'static str) -> Self {
        let waiting = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(what) {
                line.clear();
                assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "it ended without saying {what}");
            }
            self
        });
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap()
    }

    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Killed: exit code, and what it wrote.
    async fn killed(mut self) -> (Option<i32>, String) {
        self.process.kill().unwrap();
        self.ends().await
    }

    async fn ends(self) -> (Option<i32>, String) {
        let Self { process, said } = self;
        // Read on, so that it can write on.
        std::thread::spawn(move || said.lines().for_each(drop));
        let output = tokio::task::spawn_blocking(move || process.wait_with_output().unwrap()).await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// What the program wrote between the test harness's own lines.
pub fn json(stdout: &str) -> Value {
    let (start, end) = (stdout.find('{').unwrap(), stdout.rfind('}').unwrap());
    serde_json::from_str(&stdout[start..=end]).unwrap()
}

/// Between the answer's head and its last byte on standard output the buyer is killed, at one moment or another.
#[tokio::test]
async fn killed_at_the_last_step_it_has_the_answer_or_asks_for_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &["--redeliver", "15m"]).await;
    let (folder, url) = (folder.path(), app.insights());
    let (mut paid, mut lost) = (0, 0);
    for kill in 0..16 {
        let flags: &[&str] = if kill % 2 == 0 { &[] } else { &["--json"] };
        let buyer = Buyer::start(&market, folder, &url, flags).says("paying").await;
        mempool_has_a_payment(&market).await;
        market.block().await;
        let buyer = buyer.says("answered").await;
        tokio::time::sleep(Duration::from_micros(200 * kill)).await;
        let (_, stdout) = buyer.killed().await;
        paid += PRICE;
        assert_eq!(market.takings().await, paid);
        let (code, resumed, said) = ended({
            let flags = ["resume", "--rpc-url", market.chain.rpc_url(), "--json"];
            let mut command = child(folder, &flags);
            command.env("X402_BUYER_KEY", market.chain.accounts()[9].private_key());
            command
        })
        .await;
        assert_eq!(code, Some(0), "{said}");
        if said.contains("Nothing is open") {
            assert!(stdout.contains("# "), "closed, and not written: {stdout}");
        } else {
            lost += 1;
            assert!(json(&resumed)["answer"]["reply"].as_str().unwrap().starts_with("# "), "{resumed}");
        }
        assert_eq!(market.takings().await, paid, "kill {kill}");
    }
    println!("{lost} of 16 answers came by `buy resume`");
}

async fn mempool_has_a_payment(market: &Market) {
    for _ in 0..600 {
        let status = market.chain.rpc("txpool_status", serde_json::json!([])).await.unwrap();
        if status["pending"] != "0x0" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing was broadcast");
}

#[tokio::test]
async fn killed_between_broadcast_and_redemption_it_resumes_with_one_transfer_in_all() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]).await;
    let (folder, url) = (folder.path(), app.insights());

    // Nothing is open yet.
    let (code, _, said) = run(&market, folder, &url, &["--resume"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing was paid"), "{said}");

    let buyer = Buyer::start(&market, folder, &url, &[]).says("paying").await;
    mempool_has_a_payment(&market).await;
    buyer.kill();
    market.block().await;
    assert_eq!(market.takings().await, PRICE);

    let (code, stdout, said) = run(&market, folder, &url, &["--resume", "--json"]).await;
    assert_eq!(code, Some(0), "{said}");
    let bought = json(&stdout);
    assert_eq!((&bought["status"], &bought["purchase"]["amount"]), (&200.into(), &"0.49".into()));
    assert!(bought["answer"]["reply"].as_str().unwrap().starts_with("# "));
    assert_eq!(market.takings().await, PRICE);

    // And it is finished.
    let (code, ..) = run(&market, folder, &url, &["--resume"]).await;
    assert_eq!((code, market.takings().await), (Some(1), PRICE));
}

#[tokio::test]
async fn without_resume_the_same_command_finishes_what_is_open_too() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]).await;
    let (folder, url) = (folder.path(), app.insights());
    let buyer = Buyer::start(&market, folder, &url, &[]).says("paying").await;
    mempool_has_a_payment(&market).await;
    buyer.kill();
    market.block().await;
    let (code, _, said) = run(&market, folder, &url, &["--header-redeem"]).await;
    assert_eq!((code, market.takings().await), (Some(0), PRICE), "{said}");
}

#[tokio::test]
async fn a_seller_that_restarts_in_mid_purchase_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let listen = format!("127.0.0.1:{}", free_port());
    let start = || App::start_at(&listen, folder.path().to_owned(), market.chain.rpc_url(), &[]);
    let app = start().await;
    let url = app.insights();
    let buyer = Buyer::start(&market, folder.path(), &url, &["--json"]).says("paying").await;
    mempool_has_a_payment(&market).await;
    app.kill();
    market.block().await;
    let buyer = buyer.says("waiting").await;
    let _app = start().await;
    let (code, stdout) = buyer.ends().await;
    assert_eq!((code, market.takings().await), (Some(0), PRICE), "{stdout}");
    assert!(json(&stdout)["purchase"]["attempts"].as_u64().unwrap() > 1);
}

#[tokio::test]
async fn above_the_limit_nothing_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]).await;
    let (code, stdout, said) = run(&market, folder.path(), &app.insights(), &["--max", "0.48", "--json"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(json(&stdout)["resumable"], false);
    assert!(said.contains("nothing was paid"), "{said}");
    assert_eq!(market.takings().await, 0);
    assert!(std::fs::read_to_string(folder.path().join("x402-purchases.jsonl")).unwrap_or_default().is_empty());
}

#[tokio::test]
async fn what_was_paid_by_hand_is_redeemed_without_a_wallet() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &[]).await;
    let paid = market.pay(PRICE).await.to_string();
    let (code, stdout, said) = run(&market, folder.path(), &app.insights(), &["--paid", &paid, "--json"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(json(&stdout)["purchase"]["transaction"], paid);
    assert_eq!(market.takings().await, PRICE);
}

/// The first command buys it, the next ones show it, and the one after the last call buys another.
#[tokio::test]
async fn a_pass_is_bought_by_its_name_used_up_and_bought_again() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &["--pass", "2:0.90"]).await;
    let (folder, url) = (folder.path(), app.insights());
    let buys = async |flags: &[&str]| {
        let mines = async {
            loop {
                market.block().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::select! {
            ended = run(&market, folder, &url, flags) => ended,
            () = mines => unreachable!("it mines for ever"),
        }
    };
    let listed = async || {
        let (code, listed, said) = ended(child(folder, &["passes"])).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(!listed.contains("x402p_"), "no list has a token");
        listed
    };
    assert!(!listed().await.contains("/pass"), "none is held");
    for (says, spent) in
        [("Pass answers: 1 left", 900_000), ("Pass answers: 0 left", 900_000), ("Pass answers: 1 left", 1_800_000)]
    {
        let (code, stdout, said) = buys(&["--pass", "answers"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(stdout.contains("# ") && said.contains(says), "{stdout} {said}");
        assert!(!said.contains("x402p_"), "{said}");
        assert_eq!(market.takings().await, spent, "{said}");
    }
    let listed = listed().await;
    assert!(listed.contains("answers  1     never          http://127.0.0.1:"), "{listed}");
    let (_, unfinished, said) = ended(child(folder, &["--unfinished"])).await;
    assert!(!unfinished.contains("POST /pass"), "the purchases of passes are closed: {unfinished} {said}");
    // An origin has one pass at a time: the one that is held pays, whatever is asked for.
    let (code, _, said) = buys(&["--pass", "other"]).await;
    assert_eq!((code, market.takings().await), (Some(0), 1_800_000), "{said}");
    // Another pass is not offered, and one that is too dear is not bought: the answer is paid for alone.
    let (code, _, said) = buys(&["--pass", "other"]).await;
    assert_eq!((code, market.takings().await), (Some(0), 1_800_000 + PRICE), "{said}");
    let elsewhere = ["--pass", "answers", "--max", "0.50", "--journal", "other.jsonl"];
    let (code, _, said) = buys(&elsewhere).await;
    assert_eq!((code, market.takings().await), (Some(0), 1_800_000 + 2 * PRICE), "{said}");
    assert!(said.contains("above --max"), "{said}");
}

/// Passes every request on to the seller, but for those that show a payment for a pass.
async fn without_paid_passes(seller: String) -> String {
    let client = client();
    let pass_on = axum::Router::new().fallback(async move |request: axum::extract::Request| {
        let (parts, body) = request.into_parts();
        if parts.uri.path() == "/pass" && parts.headers.contains_key("x402-payment") {
            return (http::StatusCode::SERVICE_UNAVAILABLE, http::HeaderMap::new(), "later".into());
        }
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let request = client.request(parts.method, format!("{seller}{}", parts.uri)).headers(parts.headers);
        let answer = request.body(body).send().await.unwrap();
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        headers.remove(http::header::TRANSFER_ENCODING);
        (status, headers, answer.bytes().await.unwrap())
    });
    serve(pass_on).await
}

/// The pass is paid, and its seller does not give it in time: the answer is there, and the program says what is open.
#[tokio::test]
async fn a_pass_that_was_paid_and_did_not_come_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let market = Market::new().await;
    let app = App::start_in(folder.path().to_owned(), market.chain.rpc_url(), &["--pass", "2:0.90"]).await;
    let proxy = without_paid_passes(app.url().to_owned()).await;
    let folder = folder.path();
    let buys = async |url: &str| {
        let mines = async {
            loop {
                market.block().await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let flags = ["--pass", "answers", "--dialect", "transfer", "--timeout", "15"];
        tokio::select! {
            ended = run(&market, folder, url, &flags) => ended,
            () = mines => unreachable!("it mines for ever"),
        }
    };
    let url = app.insights().replace(app.url(), &proxy);
    for _ in 0..2 {
        let (code, stdout, said) = buys(&url).await;
        assert_eq!(code, Some(4), "{said}");
        assert!(stdout.contains("# ") && said.contains("of pass answers is not finished"), "{stdout} {said}");
        assert!(!said.contains("No pass answers is held"), "{said}");
    }
    assert_eq!(market.takings().await, 900_000 + 2 * PRICE);
    let (_, listed, said) = ended(child(folder, &["--unfinished"])).await;
    assert_eq!(listed.matches("POST /pass").count(), 1, "{listed} {said}");
}
