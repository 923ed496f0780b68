//! The example programs that pay, each in a process of its own, against the datasets server on a chain.

use std::{
    io,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, header};
use tempfile::TempDir;
use tower_x402::testing::DevChain;

use super::programs::ended;
use crate::served::{
    app::App,
    market::SELLER,
    shop::{client, serve},
};

const EXAMPLE: &str = "X402_TEST_EXAMPLE";
const FLAGS: &str = "X402_TEST_EXAMPLE_FLAGS";
const USUAL: [&str; 2] = ["--price", "0.49"];

/// Not a test of its own: the programs that the tests below start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let (Ok(example), Ok(flags)) = (std::env::var(EXAMPLE), std::env::var(FLAGS)) else { return };
    let [key, rpc_url] = ["X402_BUYER_KEY", "X402_RPC_URL"].map(|name| std::env::var(name).unwrap());
    let code = match example.as_str() {
        "agent" => crate::agent::agent(["agent"].into_iter().chain(flags.split('\n')).map(Into::into)).await,
        "reqwest" => crate::reqwest_example::run(&flags, &key, &rpc_url).await.map_or(1, |()| 0),
        "hyper" => crate::hyper_client::run(&flags, &key, &rpc_url).await.map_or(1, |()| 0),
        _ => unreachable!(),
    };
    std::process::exit(code.into());
}

/// A chain that follows the clock, a server that takes both kinds of payment, and a folder for the buyer.
pub struct Place {
    pub chain: DevChain,
    pub app: App,
    pub folder: TempDir,
}

impl Place {
    /// With these flags for the server.
    pub async fn open(flags: &[&str]) -> Self {
        let every = Duration::from_secs(1);
        let chain = DevChain::builder().install_with_npm(true).mine_every(every).start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("settle.key"), chain.accounts()[3].private_key()).unwrap();
        let app = App::start_in(folder.path().to_owned(), chain.rpc_url(), flags).await;
        Self { chain, app, folder }
    }

    /// With an account that settles what is signed.
    pub async fn open_to_both(flags: &[&str]) -> Self {
        Self::open(&[flags, &["--settle-key", "settle.key"]].concat()).await
    }

    /// What the seller has, in base units.
    pub async fn takings(&self) -> u128 {
        self.chain.usdc_balance(SELLER).await.unwrap().to_string().parse().unwrap()
    }

    /// The program, with the key of an account that has money.
    fn example(&self, name: &str, flags: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "examples::as_a_child", "--nocapture"]).current_dir(self.folder.path());
        command.env(EXAMPLE, name).env(FLAGS, flags.join("\n")).stdin(Stdio::null());
        command.env("X402_BUYER_KEY", self.chain.accounts()[9].private_key());
        command.env("X402_RPC_URL", self.chain.rpc_url());
        command
    }

    /// Runs it to its end; gives what it said.
    async fn runs(&self, name: &str, flags: &[&str]) -> String {
        let (code, stdout, said) = ended(self.example(name, flags)).await;
        assert_eq!(code, Some(0), "{stdout}{said}");
        stdout
    }
}

#[tokio::test]
async fn reqwest_and_hyper_pay() {
    let place = Place::open_to_both(&USUAL).await;
    for (number, example) in ["reqwest", "hyper"].into_iter().enumerate() {
        let said = place.runs(example, &[place.app.url()]).await;
        assert_eq!(said.matches("200 OK").count(), 2, "{said}");
        assert!(said.contains("paid 0.49 by authorization"), "{said}");
        assert_eq!(place.takings().await, 490_000 * (number as u128 + 1));
    }
}

#[tokio::test]
async fn what_is_too_dear_is_not_paid_and_said() {
    let place = Place::open(&["--price", "0.51"]).await;
    for example in ["reqwest", "hyper"] {
        let said = place.runs(example, &[place.app.url()]).await;
        assert!(said.contains("not answered: ") && said.contains("0.51 would exceed"), "{said}");
    }
    assert_eq!(place.takings().await, 0);
}

#[tokio::test]
async fn an_agent_buys_as_long_as_there_is_money() {
    let place = Place::open_to_both(&USUAL).await;
    let said = place.runs("agent", &[place.app.url(), "--budget", "1.00"]).await;
    let rows: Vec<&str> = said.lines().filter(|line| line.starts_with("GET /") || line.starts_with("POST /")).collect();
    assert_eq!(rows.len(), 7, "{said}");
    assert!(rows[0].contains("free") && rows[0].contains(" 200 "), "{said}");
    for (row, left) in [(rows[1], "0.51"), (rows[2], "0.02")] {
        assert!(row.contains("0.49  authorization") && row.contains(left) && row.contains(" 200 "), "{said}");
    }
    assert!(rows[3].contains("declined: 0.49 would exceed the daily limit of 1"), "{said}");
    assert!(rows[4].ends_with("404"), "{said}");
    assert!(said.contains("Spent in the last day: 0.98, of which before this: 0; left: 0.02"), "{said}");
    assert_eq!(place.takings().await, 980_000);

    // It remembers, and a limit for one payment is a limit, too.
    let said = place.runs("agent", &[place.app.url(), "--budget", "100", "--max", "0.48"]).await;
    assert_eq!(said.matches("declined: 0.49 would exceed the limit of 0.48").count(), 5, "{said}");
    assert!(said.contains("of which before this: 0.98"), "{said}");
    assert_eq!(place.takings().await, 980_000);
}

#[tokio::test]
async fn an_agent_asks_first_and_reads_a_list_of_ones_own() {
    let place = Place::open_to_both(&USUAL).await;
    let (url, list) = (place.app.insights(), place.folder.path().join("list"));
    std::fs::write(&list, format!("# mine\nPOST {url} {{\"query\":\"why\"}}\nPOST {url} {{\"query\":\"how\"}}\n"))
        .unwrap();
    let answers = place.folder.path().join("answers");
    std::fs::write(&answers, "yes\nno\n").unwrap();
    let mut command = place.example("agent", &["--list", list.to_str().unwrap(), "--ask"]);
    command.stdin(std::fs::File::open(answers).unwrap());
    let (code, stdout, said) = ended(command).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("Pay 0.49 at 127.0.0.1:").count(), 2, "{said}");
    assert!(stdout.contains("0.49  authorization") && stdout.contains("not approved"), "{stdout}");
    assert_eq!(place.takings().await, 490_000);
}

/// What happens to the bytes of a sold answer on their way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tear {
    /// They end before their end, behind more than a client reads ahead.
    BreaksOff,
    /// They are more than the agent reads.
    TooLong,
}

impl Tear {
    fn body(self, sold: &Bytes) -> (usize, Body) {
        let whole = |length| Bytes::from([&sold[..], &vec![b' '; length - sold.len()]].concat());
        match self {
            Self::BreaksOff => {
                let whole = whole(600_000);
                let begun = stream::iter([Ok(whole.slice(..400_000))]);
                let broken = stream::once(async {
                    // What was written until then arrives.
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    Err(io::Error::other("the connection broke"))
                });
                (whole.len(), Body::from_stream(begun.chain(broken)))
            }
            Self::TooLong => {
                let whole = whole(1_500_000);
                (whole.len(), Body::from(whole))
            }
        }
    }
}

/// A way to the server on which sold answers are torn for as long as that is so.
#[derive(Clone)]
struct Way {
    server: String,
    http: reqwest::Client,
    tear: Tear,
    tears: Arc<AtomicBool>,
}

async fn pass(State(way): State<Way>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut headers = parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    let asked =
        way.http.request(parts.method, format!("{}{}", way.server, parts.uri.path())).headers(headers).body(body);
    let told = asked.send().await.unwrap();
    let mut answer = Response::builder().status(told.status());
    *answer.headers_mut().unwrap() = told.headers().clone();
    let is_sold = told.status() == 200 && told.headers().contains_key("payment-response");
    let bytes = told.bytes().await.unwrap();
    if !is_sold || !way.tears.load(Ordering::SeqCst) {
        return answer.body(Body::from(bytes)).unwrap();
    }
    let (length, body) = way.tear.body(&bytes);
    answer.headers_mut().unwrap().insert(header::CONTENT_LENGTH, length.into());
    answer.body(body).unwrap()
}

/// It says what was paid, and the next run gets that answer for nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_answer_is_told_with_its_cost_and_asked_for_again() {
    for (example, tear) in [("agent", Tear::BreaksOff), ("agent", Tear::TooLong), ("reqwest", Tear::BreaksOff)] {
        let place = Place::open_to_both(&[&USUAL[..], &["--redeliver", "15m"]].concat()).await;
        let tears = Arc::new(AtomicBool::new(true));
        let way = Way { server: place.app.url().to_owned(), http: client(), tear, tears: Arc::clone(&tears) };
        let url = serve(Router::new().fallback(pass).with_state(way)).await;
        let list = place.folder.path().join("list");
        std::fs::write(&list, format!("POST {url}/demand-insights {{\"query\":\"why\"}}\n")).unwrap();
        let list = ["--list", list.to_str().unwrap()];
        let flags: &[&str] = if example == "agent" { &list } else { &[&url] };
        for _ in 0..2 {
            let said = place.runs(example, flags).await;
            let cost = if example == "agent" { "0.49  authorization" } else { "paid 0.49 by authorization" };
            assert!(said.contains(cost) && said.contains("not all here"), "{tear:?}: {said}");
            assert!(example != "agent" || said.contains("Open: 0.49 for "), "{tear:?}: {said}");
            assert_eq!(place.takings().await, 490_000, "{tear:?}: {said}");
        }
        tears.store(false, Ordering::SeqCst);
        let said = place.runs(example, flags).await;
        assert!(said.contains(" 200 ") && !said.contains("not all here") && !said.contains("Open: "), "{said}");
        assert_eq!(place.takings().await, 490_000, "{said}");
        // And the next question is another purchase.
        let said = place.runs(example, flags).await;
        assert!(said.contains(" 200 ") && !said.contains("not all here"), "{said}");
        assert_eq!(place.takings().await, 980_000, "{said}");
    }
}
