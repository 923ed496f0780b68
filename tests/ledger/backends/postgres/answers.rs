//! Answers are buyers' data: nothing that is said about them tells what is in them, not even a pool that logs its statements.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tower_x402::ledger::{
    CommitOutcome, KeptAnswer, Ledger, LedgerError, PostgresLedger,
    sqlx::{self, postgres::PgPoolOptions},
};
use tracing::instrument::WithSubscriber as _;

use super::{
    super::{PATIENT, claim, hold},
    Database,
    outages::{Heard, via},
};

#[tokio::test]
async fn no_log_tells_an_answer() {
    let Some(database) = Database::new(0).await else { return };
    drop(database.begun().await);
    // Tests that run beside this one, and log to nobody, can switch off what is listened to here.
    for round in 0..5 {
        let heard = Heard::default();
        let writer = heard.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let said = talk(&database, 10 * round).with_subscriber(subscriber).await;
        let logged = String::from_utf8(heard.0.lock().unwrap().clone()).unwrap();
        for line in said.lines().chain(logged.lines()) {
            // As text, in hex, and in the driver's way to show bytes.
            assert!(!["canary", "63616e617279", "99, 97, 110"].iter().any(|secret| line.contains(secret)), "{line}");
        }
        if logged.contains("ledger_commit") && logged.contains("the ledger's database failed") {
            return database.remove().await;
        }
    }
    panic!("nothing was logged");
}

/// What is said where an answer is kept, given back, and cannot be kept.
async fn talk(database: &Database, first: u64) -> String {
    let ledger = PostgresLedger::from(PgPoolOptions::new().connect_lazy(&database.url).unwrap()).time_limit(PATIENT);
    let answer = KeptAnswer::new("canary", Duration::from_secs(60));
    let kept = hold(&ledger, &claim(first + 1, first + 1)).await;
    assert_eq!(ledger.commit(&kept, Some(&answer)).await, Ok(CommitOutcome::Done));
    let sale = ledger.consumed(kept.intent()).await.unwrap().unwrap();
    assert_eq!(sale.answer.as_deref(), Some(&b"canary"[..]));
    let pool = &database.pools[0];
    let full = "ALTER TABLE ledger_answers ADD CONSTRAINT is_full CHECK (kept_until < '2000-01-01') NOT VALID";
    sqlx::raw_sql(full).execute(pool).await.unwrap();
    let refused = hold(&ledger, &claim(first + 2, first + 2)).await;
    let told = ledger.commit(&refused, Some(&answer)).await;
    assert_eq!(told, Err(LedgerError::unavailable()));
    assert_eq!(ledger.consumed(refused.intent()).await, Ok(None), "neither sale nor answer");
    sqlx::raw_sql("ALTER TABLE ledger_answers DROP CONSTRAINT is_full").execute(pool).await.unwrap();
    assert_eq!(ledger.commit(&refused, Some(&answer)).await, Ok(CommitOutcome::Done));
    format!("{answer:?} {sale:?} {told:?} {:?}", told.as_ref().map_err(ToString::to_string))
}

/// A commit is tried again and again while the database fails. Only the answer that is kept in the end takes space.
#[tokio::test]
async fn a_commit_that_fails_takes_no_space() {
    let Some(database) = Database::new(0).await else { return };
    drop(database.begun().await);
    let builder = PostgresLedger::builder().time_limit(PATIENT).answers_up_to(1_000);
    let ledger = builder.on(database.pools[1].clone()).await.unwrap();
    let answer = KeptAnswer::new(vec![7; 1_000 - 256], Duration::from_secs(60));
    let lease = hold(&ledger, &claim(1, 1)).await;
    let pool = &database.pools[0];
    let full = "ALTER TABLE ledger_answers ADD CONSTRAINT is_full CHECK (kept_until < '2000-01-01') NOT VALID";
    sqlx::raw_sql(full).execute(pool).await.unwrap();
    for _ in 0..3 {
        assert_eq!(ledger.commit(&lease, Some(&answer)).await, Err(LedgerError::unavailable()));
    }
    sqlx::raw_sql("ALTER TABLE ledger_answers DROP CONSTRAINT is_full").execute(pool).await.unwrap();
    assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done));
    let kept = ledger.consumed(lease.intent()).await.unwrap().unwrap().answer;
    assert_eq!(kept.as_ref(), Some(answer.content()));
    database.remove().await;
}

/// A line that stands still once so many bytes have gone to the server.
async fn narrow(server: SocketAddr, bytes: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server).await.unwrap();
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(async move {
                let mut some = from_client.take(bytes);
                let copied = tokio::io::copy(&mut some, &mut to_server).await;
                to_server.flush().await.unwrap();
                // Neither end is told that the other has gone.
                std::future::pending::<()>().await;
                drop((some, to_server, copied));
            });
        }
    });
    address
}

/// The sale is recorded without the answer, and need not wait until the server knows that no more of that will come.
#[tokio::test]
async fn an_answer_that_is_too_large_for_the_line_holds_its_sale_up_no_longer_than_the_time_limit() {
    const LIMIT: Duration = Duration::from_millis(1_900);
    let Some(database) = Database::new(0).await else { return };
    let direct = database.begun().await;
    let (_, server) = via(&database.url, SocketAddr::from(([127, 0, 0, 1], 1)));
    let (url, _) = via(&database.url, narrow(server, 100_000).await);
    let ledger = PostgresLedger::from(PgPoolOptions::new().connect_lazy(&url).unwrap());
    let lease = hold(&direct, &claim(1, 1)).await;
    let answer = KeptAnswer::new(vec![7; 16 << 20], Duration::from_secs(60));
    assert_eq!(ledger.time_limit(LIMIT).commit(&lease, Some(&answer)).await, Err(LedgerError::unavailable()));
    // As the paywall does: a moment later, and within the same time.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(direct.clone().time_limit(LIMIT).commit(&lease, None).await, Ok(CommitOutcome::Done));
    let sale = direct.consumed(lease.intent()).await.unwrap().unwrap();
    assert_eq!(sale.answer, None);
    database.remove().await;
}
