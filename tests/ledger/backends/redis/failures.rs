//! Servers that die, hang, forget, fill up, or are told to follow another.

use std::{
    future::Future,
    time::{Duration, Instant},
};
use tower_x402::protocol::Network;

use tokio::net::TcpListener;
use tower_x402::ledger::{
    CommitOutcome, KeptAnswer, Ledger, LedgerError, LedgerErrorKind, Maintenance as _, RedisLedger, RenewOutcome,
    ReserveOutcome, Sale, redis_driver as driver,
};

use super::{
    super::{HEAD, MARK, claim, claim_for, hold, time},
    prefix, sell,
    server::{Mood, Private, Sentinel, Wire, command, shared},
};

const LOST: LedgerErrorKind = LedgerErrorKind::Unavailable;
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

async fn begun(url: &str) -> RedisLedger {
    let ledger = RedisLedger::builder().key_prefix(prefix()).connect(url).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    ledger
}

/// Awaits something that must not take longer than a ledger may.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let outcome = what.await;
    assert!(start.elapsed() < Duration::from_millis(2_200), "it took {:?}", start.elapsed());
    outcome
}

/// Asks until the ledger answers again.
async fn again(ledger: &RedisLedger) {
    for _ in 0..40 {
        if ledger.health().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it does not recover");
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let Some(mut server) = Private::start(&DURABLE).await else { return };
    let ledger = begun(&server.url()).await;
    let sold = sell(&ledger, &claim(1, 1)).await;
    let held = hold(&ledger, &claim(2, 2)).await;
    let counts = ledger.counts().await.unwrap();
    server.restart().await;
    again(&ledger).await;
    assert_eq!(ledger.counts().await, Ok(counts));
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(ledger.reserve(&claim(3, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert!(matches!(ledger.reserve(&claim(2, 2)).await, Ok(ReserveOutcome::IntentHeld { .. })));
    assert_eq!(ledger.commit(&sold, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.renew(&held).await, Ok(RenewOutcome::Held));
    assert_eq!(ledger.commit(&held, None).await, Ok(CommitOutcome::Done));
}

/// SECURITY 19.
#[tokio::test]
async fn emptied_it_sells_nothing_until_it_begins_anew() {
    let Some(mut server) = Private::start(&[]).await else { return };
    for restarts in [true, false] {
        let ledger = begun(&server.url()).await;
        let sold = sell(&ledger, &claim(1, 1)).await;
        let held = hold(&ledger, &claim(2, 2)).await;
        if restarts {
            server.restart().await;
            // The connection that broke is noticed.
            tokio::time::sleep(Duration::from_millis(300)).await;
        } else {
            let _: () = server.command(&["FLUSHALL"]).await;
        }
        for _ in 0..3 {
            assert_eq!(ledger.reserve(&claim(1, 1)).await, Err(LedgerError::unavailable()));
            assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(LedgerError::unavailable()));
        }
        assert_eq!(ledger.commit(&held, None).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.commit(&sold, None).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.renew(&held).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.release(&held).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.consumed(sold.intent()).await.map(|sale| sale.is_some()), Err(LedgerError::unavailable()));
        assert_eq!(ledger.raise_mark_to(Network::BASE, time(MARK)).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));

        ledger.begin(Network::BASE, time(HEAD)).await.unwrap();
        assert_eq!(ledger.health().await, Ok(()));
        for (intent, payment) in [(1, 1), (2, 2), (3, 3)] {
            assert_eq!(ledger.reserve(&claim(intent, payment)).await, Ok(ReserveOutcome::BeforeMemory));
        }
        assert_eq!(ledger.commit(&held, None).await, Ok(CommitOutcome::LeaseLost));
        let _: () = server.command(&["FLUSHALL"]).await;
    }
}

#[tokio::test]
async fn a_dead_server_is_an_error_in_time() {
    let Some(mut server) = Private::start(&DURABLE).await else { return };
    let ledger = begun(&server.url()).await;
    let (sold, held) = (sell(&ledger, &claim(1, 1)).await, hold(&ledger, &claim(2, 2)).await);
    server.kill();
    for _ in 0..2 {
        assert_eq!(in_time(ledger.reserve(&claim(3, 3))).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.renew(&held)).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.commit(&held, None)).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.release(&held)).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.consumed(sold.intent())).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.begin(Network::BASE, time(HEAD))).await, Err(LedgerError::unavailable()));
        assert_eq!(in_time(ledger.health()).await, Err(LedgerError::unavailable()));
    }
    assert_eq!(in_time(RedisLedger::connect(&server.url())).await.unwrap_err().kind(), LOST);
    server.restart().await;
    again(&ledger).await;
    assert_eq!(ledger.commit(&held, None).await, Ok(CommitOutcome::Done));
}

#[tokio::test]
async fn a_server_that_never_answers_is_an_error_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    assert_eq!(in_time(RedisLedger::connect(&url)).await.unwrap_err().kind(), LOST);
}

/// Behind the same address another server may stand by now: the old connection is given up.
#[tokio::test]
async fn a_connection_that_hangs_is_replaced() {
    let Some(server) = Private::start(&[]).await else { return };
    let wire = Wire::to(server.port()).await;
    let ledger = begun(&wire.url()).await;
    wire.becomes(Mood::Hangs);
    let (claim_a, claim_b) = (claim(1, 1), claim(2, 2));
    let (a, b) = tokio::join!(in_time(ledger.reserve(&claim_a)), in_time(ledger.reserve(&claim_b)));
    assert_eq!([a, b], [const { Err(LedgerError::unavailable()) }; 2]);
    let _ = sell(&ledger, &claim(3, 3)).await;
    // Also where nobody asks but those who look whether it is well.
    wire.becomes(Mood::Hangs);
    assert_eq!(in_time(ledger.health()).await, Err(LedgerError::unavailable()));
    assert_eq!(ledger.health().await, Ok(()));
}

/// SECURITY 43.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_done_when_repeated() {
    let Some(server) = Private::start(&[]).await else { return };
    let wire = Wire::to(server.port()).await;
    let ledger = begun(&wire.url()).await;
    // The server knows the script by then, so that it is its answer that is lost.
    let _ = sell(&ledger, &claim(9, 9)).await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    wire.becomes(Mood::CutsAnswers);
    assert_eq!(in_time(ledger.commit(&lease, None)).await, Err(LedgerError::unavailable()));
    assert_eq!(wire.mood(), Mood::Carries as u8, "the answer was on its way");
    again(&ledger).await;
    assert_eq!(ledger.counts().await.unwrap().consumed, 2, "the server recorded it");
    ledger.release(&lease).await.unwrap();
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.counts().await.unwrap().consumed, 2);
}

#[tokio::test]
async fn a_grant_whose_answer_is_lost_runs_out() {
    let Some(server) = Private::start(&[]).await else { return };
    let wire = Wire::to(server.port()).await;
    let ledger = begun(&wire.url()).await;
    let lease = Duration::from_millis(2_500);
    let brief = claim_for(1, 1, lease, HEAD);
    let _ = sell(&ledger, &claim(9, 9)).await;
    wire.becomes(Mood::CutsAnswers);
    assert_eq!(in_time(ledger.reserve(&brief)).await, Err(LedgerError::unavailable()));
    again(&ledger).await;
    assert!(matches!(ledger.reserve(&brief).await, Ok(ReserveOutcome::IntentHeld { .. })));
    tokio::time::sleep(lease).await;
    let _ = sell(&ledger, &brief).await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    let flush = async || command::<()>(url, &["SCRIPT", "FLUSH"]).await;
    flush().await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    flush().await;
    assert_eq!(ledger.renew(&lease).await, Ok(RenewOutcome::Held));
    flush().await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    let other = hold(&ledger, &claim(2, 2)).await;
    flush().await;
    let answer = KeptAnswer::new("an answer", Duration::from_secs(60));
    assert_eq!(ledger.commit(&other, Some(&answer)).await, Ok(CommitOutcome::Done));
    flush().await;
    assert_eq!(ledger.consumed(lease.intent()).await.map(|sale| sale.is_some()), Ok(true));
    flush().await;
    assert_eq!(ledger.health().await, Ok(()));
}

/// SECURITY 29: a full server grants nothing, and writes down what was granted.
#[tokio::test]
async fn a_full_server_finishes_what_it_granted() {
    let Some(server) = Private::start(&[]).await else { return };
    let ledger = begun(&server.url()).await;
    let [sold, dropped] = [hold(&ledger, &claim(1, 1)).await, hold(&ledger, &claim(2, 2)).await];
    let answered = hold(&ledger, &claim(5, 5)).await;
    let answer = KeptAnswer::new(vec![0; 4_096], Duration::from_secs(60));
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let _: () = server.command(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(LedgerError::unavailable()));
    assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));
    assert_eq!(ledger.renew(&sold).await, Ok(RenewOutcome::Held));
    assert_eq!(ledger.commit(&sold, None).await, Ok(CommitOutcome::Done));
    // The answer has to leave without being kept.
    assert_eq!(ledger.commit(&answered, Some(&answer)).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.consumed(answered.intent()).await, Ok(Some(Sale::new())));
    assert_eq!(ledger.release(&dropped).await, Ok(()));
    assert_eq!(ledger.consumed(sold.intent()).await.map(|sale| sale.is_some()), Ok(true));
    assert_eq!(ledger.reserve(&claim(4, 1)).await, Err(LedgerError::unavailable()));
    let _: () = server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(ledger.reserve(&claim(4, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert_eq!(ledger.commit(&answered, Some(&answer)).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.consumed(answered.intent()).await, Ok(Some(Sale::new())), "it was not kept then");
    let _ = sell(&ledger, &claim(2, 2)).await;
}

/// What a fail-over does to the server that led before it.
#[tokio::test]
async fn a_server_that_follows_is_not_believed() {
    let (Some(server), Some(leader)) = (Private::start(&[]).await, Private::start(&[]).await) else { return };
    let ledger = begun(&server.url()).await;
    let lease = sell(&ledger, &claim(1, 1)).await;
    let port = leader.port().to_string();
    let _: () = server.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    assert_eq!(in_time(ledger.reserve(&claim(2, 2))).await, Err(LedgerError::unavailable()));
    assert_eq!(in_time(ledger.consumed(lease.intent())).await, Err(LedgerError::unavailable()));
    assert_eq!(in_time(RedisLedger::connect(&server.url())).await.unwrap_err().kind(), LOST);
    // It was emptied by the leader, which waits for seconds before it sends anything, and leads again.
    for attempt in 0.. {
        if server.command::<u64>(&["DBSIZE"]).await == 0 {
            break;
        }
        assert!(attempt < 600, "it is not emptied");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _: () = server.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Err(LedgerError::unavailable()));
    assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()));
}

#[tokio::test]
async fn a_commit_waits_for_replicas() {
    let (Some(leader), Some(replica)) = (Private::start(&[]).await, Private::start(&[]).await) else { return };
    let prefix = prefix();
    let wait = Duration::from_millis(200);
    let builder = RedisLedger::builder().key_prefix(prefix.clone()).wait_replicas(1, wait);
    let ledger = builder.connect(&leader.url()).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    for _ in 0..2 {
        assert_eq!(in_time(ledger.commit(&lease, None)).await, Err(LedgerError::unavailable()), "there is no replica");
    }
    assert_eq!(ledger.reserve(&claim(2, 1)).await, Ok(ReserveOutcome::PaymentUsed), "it is recorded all the same");

    let port = leader.port().to_string();
    let follow = async || {
        let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        for _ in 0..200 {
            if replica.command::<String>(&["INFO", "replication"]).await.contains("master_link_status:up") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it does not follow");
    };
    follow().await;
    let _: () = leader.command(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    let second = hold(&ledger, &claim(3, 3)).await;
    let answer = KeptAnswer::new("an answer", Duration::from_secs(600));
    assert_eq!(ledger.commit(&second, Some(&answer)).await, Ok(CommitOutcome::Done));
    let key = format!("{{{prefix}}}:answer:{:032x}", 3);
    let there: Option<String> = replica.command(&["GET", &key]).await;
    assert_eq!(there.as_deref(), Some("an answer"), "the replica has that by then");
    let key = format!("{{{prefix}}}:payment:{}", second.payment().id());
    let there: Option<String> = replica.command(&["HGET", &key, "consumed_at"]).await;
    assert!(there.is_some(), "the replica has it by then");

    // Repeated on a connection that wrote nothing else, it still asks whether the replica has the sale.
    let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(ledger.commit(&second, None).await, Err(LedgerError::unavailable()));
    let other = RedisLedger::builder().key_prefix(prefix).wait_replicas(1, wait).connect(&leader.url()).await.unwrap();
    assert_eq!(other.commit(&second, None).await, Err(LedgerError::unavailable()));
    follow().await;
    assert_eq!(other.commit(&second, None).await, Ok(CommitOutcome::Done));
    assert_eq!(other.commit(&lease, None).await, Ok(CommitOutcome::Done));
}

/// What is repeated on another connection waits for the replicas too, and not for what that connection wrote, which is nothing.
#[tokio::test]
async fn a_repeated_commit_waits_for_a_replica_that_hangs() {
    let debug = ["--enable-debug-command", "yes"];
    let (Some(leader), Some(replica)) = (Private::start(&[]).await, Private::start(&debug).await) else { return };
    let (prefix, wait) = (prefix(), Duration::from_millis(200));
    let connect = async || {
        let builder = RedisLedger::builder().key_prefix(prefix.clone());
        builder.wait_replicas(1, wait).connect(&leader.url()).await.unwrap()
    };
    let port = leader.port().to_string();
    let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    let ledger = connect().await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    let first = hold(&ledger, &claim(2, 2)).await;
    for _ in 0..200 {
        if ledger.commit(&first, None).await == Ok(CommitOutcome::Done) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let url = replica.url();
    tokio::spawn(async move {
        let mut connection = driver::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
        // It answers later than the driver waits.
        let _ = driver::cmd("DEBUG").arg("SLEEP").arg("4").query_async::<driver::Value>(&mut connection).await;
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()));
    let other = connect().await;
    assert_eq!(other.commit(&lease, None).await, Err(LedgerError::unavailable()), "the replica has not received it");
    for _ in 0..200 {
        if other.commit(&lease, None).await == Ok(CommitOutcome::Done) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the replica has it by now");
}

/// Behind one name the server that led is told to follow, and another leads: the old connection is given up.
#[tokio::test]
async fn a_server_that_follows_is_left_for_the_one_that_leads() {
    let (Some(server), Some(leader)) = (Private::start(&[]).await, Private::start(&[]).await) else { return };
    let wire = Wire::to(server.port()).await;
    let ledger = begun(&wire.url()).await;
    let direct = RedisLedger::builder().key_prefix(ledger.key_prefix()).connect(&leader.url()).await.unwrap();
    direct.begin(Network::BASE, time(MARK)).await.unwrap();
    let _: () = server.command(&["REPLICAOF", "127.0.0.1", &leader.port().to_string()]).await;
    wire.leads_to(leader.port());
    assert_eq!(in_time(ledger.reserve(&claim(1, 1))).await, Err(LedgerError::unavailable()));
    let _ = sell(&ledger, &claim(1, 1)).await;
    assert_eq!(direct.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
}

/// A connection of the caller's sells as ours does, and over a restart.
#[tokio::test]
async fn a_connection_of_the_callers_is_used() {
    let Some(mut server) = Private::start(&DURABLE).await else { return };
    let client = driver::Client::open(server.url()).unwrap();
    let connection = driver::aio::ConnectionManager::new(client).await.unwrap();
    let ledger = RedisLedger::builder().key_prefix(prefix()).on(connection).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let _ = sell(&ledger, &claim(1, 1)).await;
    server.restart().await;
    again(&ledger).await;
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
}

/// A real Sentinel: the leader dies, its replica is promoted, and the ledger finds it.
#[tokio::test]
async fn who_leads_is_asked_of_sentinels() {
    let (Some(mut leader), Some(replica)) = (Private::start(&DURABLE).await, Private::start(&DURABLE).await) else {
        return;
    };
    let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &leader.port().to_string()]).await;
    let rules = format!(
        "sentinel monitor shop 127.0.0.1 {} 1\nsentinel down-after-milliseconds shop 500\n\
         sentinel failover-timeout shop 3000\n",
        leader.port()
    );
    let Some(sentinel) = Sentinel::start(&rules).await else { return };
    let nobody = format!("redis://127.0.0.1:{}", crate::support::servers::free_port());
    let ignored = "redis://ignored.invalid";
    let builder = |service: &str| RedisLedger::builder().sentinels([nobody.clone(), sentinel.url()], service);
    assert_eq!(builder("other").connect(ignored).await.unwrap_err().kind(), LOST);
    let ledger = builder("shop").wait_replicas(1, Duration::from_secs(1)).connect(ignored).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    for _ in 0..200 {
        if ledger.commit(&lease, None).await == Ok(CommitOutcome::Done) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The sentinel has to know of the replica before it can promote it.
    for _ in 0..400 {
        let known: Vec<driver::Value> = command(&sentinel.url(), &["SENTINEL", "REPLICAS", "shop"]).await;
        if !known.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    leader.kill();
    for _ in 0..600 {
        if ledger.consumed(lease.intent()).await.map(|sale| sale.is_some()) == Ok(true) && ledger.health().await.is_ok()
        {
            assert_eq!(ledger.reserve(&claim(2, 1)).await, Ok(ReserveOutcome::PaymentUsed));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it does not find who leads");
}

/// A fail-over or a crash may lose the last fences: they are not given out again.
#[tokio::test]
async fn a_fence_that_was_lost_is_not_given_again() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    let old = hold(&ledger, &claim(1, 1)).await;
    let [record, intent, payment] =
        ["ledger".to_owned(), format!("intent:{:032x}", 1), format!("payment:{}", old.payment().id())]
            .map(|name| format!("{{{}}}:{name}", ledger.key_prefix()));
    let _: driver::Value = command(url, &["DEL", &intent, &payment]).await;
    let _: driver::Value = command(url, &["HDEL", &record, "fence"]).await;
    let new = hold(&ledger, &claim(1, 1)).await;
    assert!(new.fencing_token() > old.fencing_token());
    assert_eq!(ledger.commit(&old, None).await, Ok(CommitOutcome::LeaseLost));
    assert_eq!(ledger.commit(&new, None).await, Ok(CommitOutcome::Done));
    // A clock that was set back gives none twice either.
    let _: driver::Value = command(url, &["HSET", &record, "fence", "9000000000000000"]).await;
    assert_eq!(hold(&ledger, &claim(2, 2)).await.fencing_token(), 9_000_000_000_000_001);
}
