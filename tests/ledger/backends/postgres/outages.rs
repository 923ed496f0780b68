//! Servers that hang, die, or lose the answer; and that nothing said about it tells a secret.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tower_x402::protocol::Network;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tower_x402::ledger::{
    CommitOutcome, Ledger, LedgerError, PostgresLedger,
    sqlx::{self, postgres::PgPoolOptions},
};
use tracing::instrument::WithSubscriber as _;

use super::{
    super::{MARK, PATIENT, claim, hold, sell, time},
    Database,
};
use crate::support::servers::{self, PrivatePostgres, free_port};

const SOON: Duration = Duration::from_secs(2);

/// A way to a server, on which it can be cut off from being heard.
struct Wire {
    address: SocketAddr,
    deaf: Arc<AtomicBool>,
}

impl Wire {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, deaf) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let muffle = Arc::clone(&deaf);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let muffle = Arc::clone(&muffle);
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                        if !muffle.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, deaf }
    }
}

/// The same URL with another address.
pub(super) fn via(url: &str, address: SocketAddr) -> (String, SocketAddr) {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("postgres", authority));
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:5432") };
    let server = std::net::ToSocketAddrs::to_socket_addrs(&host.as_str()).unwrap().next().unwrap();
    (format!("{scheme}://{user}@{address}/{path}"), server)
}

/// Every question is answered with an error, soon.
async fn all_unavailable(ledger: &PostgresLedger, lease: &tower_x402::ledger::Lease) {
    let start = Instant::now();
    let (rival, unavailable) = (claim(77, 77), LedgerError::unavailable);
    let (begun, reserved, renewed, committed, released, consumed, healthy) = tokio::join!(
        ledger.begin(Network::BASE, time(MARK)),
        ledger.reserve(&rival),
        ledger.renew(lease),
        ledger.commit(lease, None),
        ledger.release(lease),
        ledger.consumed(lease.intent()),
        ledger.health(),
    );
    assert_eq!((begun, released, healthy), (Err(unavailable()), Err(unavailable()), Err(unavailable())));
    assert_eq!((reserved, renewed), (Err(unavailable()), Err(unavailable())));
    assert_eq!((committed, consumed), (Err(unavailable()), Err(unavailable())));
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// SECURITY 43: the answer to a commit is lost, the commit is not.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_repeated() {
    let Some(database) = Database::new(0).await else { return };
    let (_, server) = via(&database.url, SocketAddr::from(([127, 0, 0, 1], 1)));
    let wire = Wire::to(server).await;
    let direct = database.begun().await;
    // One connection, which knows its statements: what is cut off is the answer to one of them.
    let one = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let ledger = PostgresLedger::from(one.connect_lazy(&via(&database.url, wire.address).0).unwrap());
    let ledger = ledger.time_limit(PATIENT);
    let lease = hold(&ledger, &claim(1, 1)).await;
    sell(&ledger, &claim(2, 2)).await;
    assert_eq!(ledger.health().await, Ok(()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let ledger = ledger.time_limit(Duration::from_secs(1));
    wire.deaf.store(true, Ordering::SeqCst);
    let start = Instant::now();
    assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()), "nobody can tell");
    assert!(start.elapsed() < SOON);
    assert_eq!(direct.consumed(lease.intent()).await.map(|sale| sale.is_some()), Ok(true));
    wire.deaf.store(false, Ordering::SeqCst);
    let ledger = ledger.time_limit(PATIENT);
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    ledger.release(&lease).await.unwrap();
    assert_eq!(ledger.consumed(lease.intent()).await.map(|sale| sale.is_some()), Ok(true));
    database.remove().await;
}

#[tokio::test]
async fn a_server_that_stops_answering_is_unavailable_within_two_seconds_until_it_answers_again() {
    let Some(database) = Database::new(0).await else { return };
    let (_, server) = via(&database.url, SocketAddr::from(([127, 0, 0, 1], 1)));
    let wire = Wire::to(server).await;
    database.begun().await;
    let ledger = PostgresLedger::connect(&via(&database.url, wire.address).0).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    wire.deaf.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        all_unavailable(&ledger, &lease).await;
    }
    wire.deaf.store(false, Ordering::SeqCst);
    // The connections that hung are given up, not waited for.
    let ledger = ledger.time_limit(Duration::from_secs(8));
    assert_eq!(ledger.health().await, Ok(()));
    assert_ne!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()));
    database.remove().await;
}

#[tokio::test]
async fn a_server_that_never_answers_or_is_not_there_is_unavailable_within_two_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ports = [silent.local_addr().unwrap().port(), free_port()];
    for port in ports {
        let start = Instant::now();
        let url = format!("postgres://seller@127.0.0.1:{port}/shop");
        assert_eq!(PostgresLedger::connect(&url).await.map(drop), Err(LedgerError::unavailable()));
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        // And with a pool that would wait longer.
        let pool = PgPoolOptions::new().connect_lazy(&url).unwrap();
        let start = Instant::now();
        assert_eq!(PostgresLedger::from(pool).health().await, Err(LedgerError::unavailable()));
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_pool_without_a_free_connection_is_unavailable_within_two_seconds() {
    let Some(database) = Database::new(0).await else { return };
    let begun = database.begun().await;
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy(&database.url).unwrap();
    let ledger = PostgresLedger::from(pool.clone());
    let lease = hold(&begun, &claim(1, 1)).await;
    let taken = pool.acquire().await.unwrap();
    all_unavailable(&ledger, &lease).await;
    drop(taken);
    assert_eq!(ledger.time_limit(PATIENT).commit(&lease, None).await, Ok(CommitOutcome::Done));
    database.remove().await;
}

/// A sale that was confirmed survives the server's death, though the server's own default is to confirm early.
#[tokio::test]
async fn what_is_done_survives_a_server_that_is_killed() {
    let settings = ["synchronous_commit=off", "wal_writer_delay=10000", "autovacuum=off"];
    let Some(mut server) = PrivatePostgres::start(&settings).await.or_else(|| servers::missing("postgres")) else {
        return;
    };
    let ledger = PostgresLedger::connect(&server.url()).await.unwrap();
    ledger.migrate().await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    sell(&ledger, &claim(2, 2)).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    server.kill();
    all_unavailable(&ledger, &lease).await;

    server.restart().await;
    let ledger = ledger.time_limit(PATIENT);
    while ledger.health().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for sold in [1, 2_u64] {
        let key = tower_x402::protocol::IntentKey::new(u128::from(sold).to_be_bytes());
        assert_eq!(ledger.consumed(key).await.map(|sale| sale.is_some()), Ok(true), "{sold}");
    }
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert!(hold(&ledger, &claim(3, 3)).await.fencing_token() > lease.fencing_token() + 1, "no fence comes back");
}

#[derive(Clone, Default)]
pub(super) struct Heard(pub(super) Arc<Mutex<Vec<u8>>>);

impl Write for Heard {
    fn write(&mut self, said: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(said);
        Ok(said.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// SECURITY 10 and 33: no URL, password, statement or driver's message in errors, `Debug` or what is logged.
#[tokio::test]
async fn nothing_said_tells_a_secret() {
    // Tests that run beside this one, and log to nobody, can switch off what is listened to here.
    for _ in 0..5 {
        let heard = Heard::default();
        let writer = heard.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let said = talk().with_subscriber(subscriber).await;
        let logged = String::from_utf8(heard.0.lock().unwrap().clone()).unwrap();
        for line in said.lines().chain(logged.lines()) {
            let tests_own = line.contains("sqlx::query") && (line.contains("SCHEMA") || line.contains("CONSTRAINT"));
            let told = ["canary", "ledger_sales", "password"].iter().any(|secret| line.contains(secret));
            assert!(!told || tests_own, "{line}");
        }
        if logged.lines().filter(|line| line.contains("tower_x402")).count() > 3 {
            return;
        }
    }
    panic!("nothing was logged");
}

/// What is said where everything fails that can.
async fn talk() -> String {
    let closed = format!("postgres://canary-user:canary-word@127.0.0.1:{}/canary-base", free_port());
    let mut said = String::new();
    for url in [&*closed, "postgres://canary-user:canary-word@canary-host.invalid/x", "canary-word"] {
        said += &format!("{0} {0:?}", PostgresLedger::connect(url).await.map(drop).unwrap_err());
    }
    let ledger = PostgresLedger::from(PgPoolOptions::new().connect_lazy(&closed).unwrap());
    said += &format!("{ledger:?} {:?}", ledger.health().await);
    if let Some(database) = Database::new(0).await {
        let wrong = database.url.replacen("postgres@", "canary-user:canary-word@", 1);
        said += &format!("{:?}", PostgresLedger::connect(&wrong).await);
        let ledger = database.connected().await;
        said += &format!("{:?}", ledger.health().await);
        ledger.migrate().await.unwrap();
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        sell(&ledger, &claim(1, 1)).await;
        let broken = "ALTER TABLE ledger_sales ADD CONSTRAINT canary CHECK (resource = 'canary') NOT VALID";
        sqlx::raw_sql(broken).execute(&database.pools[0]).await.unwrap();
        said += &format!("{:?}", ledger.reserve(&claim(2, 2)).await);
        database.remove().await;
    }
    said
}
