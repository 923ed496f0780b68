//! The gateway beside its upstream: how many free requests a second pass through it, how many the upstream answers
//! without it, and how many pass through a proxy that does nothing else.
//!
//! `cargo bench --features gateway --bench gateway`
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::{
    convert::Infallible,
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{body::Incoming, client::conn::http1 as client, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 32;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);

fn main() {
    // Upstream, proxy and clients run in their own processes, as in production: this program, started again.
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [role] if role == "upstream" => runtime().block_on(upstream()),
        [role, upstream] if role == "proxy" => runtime().block_on(proxy(upstream)),
        [role, direct, bare, through] if role == "clients" => compare([direct, bare, through]),
        _ => {
            println!("all on the same cores");
            measure(Cores::Shared);
            match Command::new("taskset").arg("-V").output() {
                Ok(_) if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) => {
                    println!("clients and upstream on one core, the gateway on another");
                    measure(Cores::Apart);
                }
                _ => println!("there are no two cores here, or no taskset: the gateway had no core of its own"),
            }
        }
    }
}

/// The cores of the processes. On shared ones, the gateway takes its time from the clients and the upstream.
#[derive(Clone, Copy)]
enum Cores {
    Shared,
    Apart,
}

impl Cores {
    fn command(self, core: &str, program: impl AsRef<OsStr>) -> Command {
        match self {
            Self::Shared => Command::new(program),
            Self::Apart => {
                let mut command = Command::new("taskset");
                command.args(["-c", core]).arg(program);
                command
            }
        }
    }
}

fn measure(cores: Cores) {
    let this = std::env::current_exe().unwrap();
    let (_upstream, direct) = started(cores.command("0", &this).arg("upstream"));
    let folder = tempfile::tempdir().unwrap();
    let (_proxy, bare) = started(cores.command("1", &this).args(["proxy", &direct]));
    let mut gateway = cores.command("1", env!("CARGO_BIN_EXE_x402-gateway"));
    let (_gateway, through) = started(configured(&mut gateway, folder.path(), &direct));
    let ended = cores.command("0", &this).args(["clients", &direct, &bare, &through]).status().unwrap();
    assert!(ended.success());
}

/// Measures all in turns, so that a noisy neighbour slows each one.
fn compare(addresses: [&str; 3]) {
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (rates, address) in rates.iter_mut().zip(addresses) {
            rates.push(runtime().block_on(rate(address)));
        }
    }
    let [direct, bare, through] = rates.map(median);
    println!("direct {direct:.0} a second");
    println!("through a proxy that only passes on {bare:.0} a second: {:.2}", bare / direct);
    println!("through the gateway {through:.0} a second: {:.2}", through / direct);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let answer = service_fn(async |_: Request<Incoming>| {
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(&[b'x'; 200][..])))
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// The minimal proxy with these libraries: it takes a request, forwards it, and passes on the answer.
async fn proxy(upstream: &str) {
    let authority: http::uri::Authority = upstream.parse().unwrap();
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(http);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (client, authority) = (client.clone(), authority.clone());
        tokio::spawn(async move {
            let pass_on = service_fn(|mut request: Request<Incoming>| {
                let mut address = std::mem::take(request.uri_mut()).into_parts();
                (address.scheme, address.authority) = (Some(http::uri::Scheme::HTTP), Some(authority.clone()));
                *request.uri_mut() = address.try_into().unwrap();
                client.request(request)
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), pass_on).await;
        });
    }
}

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(command: &mut Command) -> (Running, String) {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
    let is_ours = command.get_args().any(|argument| argument == "upstream" || argument == "proxy");
    let listening = |line: String| line.split_once("listening on http://").map(|(_, url)| url.trim().to_owned());
    let address = match is_ours {
        true => out.map_while(Result::ok).find_map(listening),
        false => said.by_ref().map_while(Result::ok).find_map(listening),
    };
    std::thread::spawn(move || said.for_each(drop));
    (Running(process), address.expect("it listens"))
}

fn configured<'a>(command: &'a mut Command, folder: &std::path::Path, upstream: &str) -> &'a mut Command {
    let (config, key) = (folder.join("gateway.toml"), folder.join("seal.key"));
    std::fs::write(&key, "07".repeat(32)).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = format!(
        "listen = \"127.0.0.1:0\"\nrecipient = \"0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e\"\n\
         sealing_key_file = \"seal.key\"\nledger = \"memory\"\n[[network]]\nname = \"base\"\nrpc = [\"http://127.0.0.1:9\"]\n\
         [upstream]\nurl = \"http://{upstream}\"\n[[route]]\nmatch = \"GET /paid/{{id}}\"\nprice = \"0.05 USDC\"\n\
         [[route]]\nmatch = \"GET /free/{{id}}\"\nfree = true\n[default]\naction = \"deny\"\n"
    );
    std::fs::write(&config, text).unwrap();
    command.arg("--config").arg(config).env_remove("RUST_LOG")
}

async fn rate(address: &str) -> f64 {
    let (answered, ending) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (address, answered, ending) = (address.to_owned(), Arc::clone(&answered), Arc::clone(&ending));
        clients.spawn(async move {
            let stream = TcpStream::connect(&address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            while !ending.load(Ordering::Relaxed) {
                let request = Request::get("/free/1").header("host", &address).body(Empty::<Bytes>::new()).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                assert_eq!(answer.status(), 200);
                assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 200);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = answered.load(Ordering::Relaxed);
    tokio::time::sleep(ROUND).await;
    let rate = (answered.load(Ordering::Relaxed) - before) as f64 / ROUND.as_secs_f64();
    ending.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    rate
}
