//! What is refused when connecting, and what is never said.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};
use tower_x402::protocol::Network;

use tower_x402::ledger::{Durability, Ledger, LedgerError, LedgerErrorKind, RedisLedger};

use super::{
    super::{MARK, claim, time},
    ledger_at, prefix, sell,
    server::{Private, command, shared},
};
use crate::support::servers::{free_port, missing};

fn refuses(error: &LedgerError, kind: LedgerErrorKind, says: &str) {
    assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let Some(server) = Private::start(&["--maxmemory-policy", "allkeys-lru"]).await else { return };
    let refused = RedisLedger::connect(&server.url()).await.unwrap_err();
    refuses(&refused, LedgerErrorKind::Unsafe, "may evict");
    let frank = RedisLedger::builder().allow_eviction_to_sell_twice().connect(&server.url()).await.unwrap();
    assert_eq!(frank.health().await, Ok(()));

    let _: () = server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    let ledger = RedisLedger::connect(&server.url()).await.unwrap();
    assert_eq!(ledger.health().await, Ok(()));
    // Somebody changes it, before and after the ledger begins.
    for _ in 0..2 {
        let _: () = server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).await;
        assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));
        let _: () = server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
        assert_eq!(ledger.health().await, Ok(()));
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_forgets_is_taken_with_a_warning_and_refused_by_a_setting() {
    let settings: [(&[&str], Durability); 5] = [
        (&["--appendonly", "yes", "--appendfsync", "always"], Durability::EveryWrite),
        (&["--appendonly", "yes", "--appendfsync", "everysec"], Durability::EverySecond),
        (&["--appendonly", "yes", "--appendfsync", "no"], Durability::Sometimes),
        (&["--save", "3600 1"], Durability::Snapshots),
        (&[], Durability::Nothing),
    ];
    for (settings, durability) in settings {
        let Some(server) = Private::start(settings).await else { return };
        let ledger = RedisLedger::connect(&server.url()).await.unwrap();
        assert_eq!(ledger.durability().await, Ok(durability));
        assert_eq!(ledger.health().await, Ok(()), "it is taken, with a warning");
        let strict = RedisLedger::builder().require_durability(true).connect(&server.url()).await;
        if !durability.is_durable() {
            refuses(&strict.unwrap_err(), LedgerErrorKind::Unsafe, "may lose");
            continue;
        }
        let strict = strict.unwrap();
        strict.begin(Network::BASE, time(MARK)).await.unwrap();
        assert_eq!(strict.health().await, Ok(()));
        let _: () = server.command(&["CONFIG", "SET", "appendonly", "no"]).await;
        assert_eq!(strict.health().await, Err(LedgerError::unavailable()), "somebody changed it since");
        // Where CONFIG is forbidden, INFO tells half of it.
        let rules = ["ACL", "SETUSER", "hosted", "on", ">secret", "~{ledger}:*", "+@all", "-config"];
        let _: () = server.command(&rules).await;
        let hosted = RedisLedger::connect(&format!("redis://hosted:secret@127.0.0.1:{}", server.port())).await.unwrap();
        assert_eq!(hosted.durability().await, Ok(Durability::Snapshots));
        let _: () = server.command(&["CONFIG", "SET", "appendonly", "yes"]).await;
        assert_eq!(hosted.durability().await, Ok(Durability::Sometimes));
    }
}

#[tokio::test]
async fn where_config_is_forbidden_info_tells() {
    let Some(server) = Private::start(&[]).await else { return };
    let user = async |name: &str, rules: &[&str]| {
        let words = [&["ACL", "SETUSER", name, "on", ">secret", "~{ledger}:*", "+@all"], rules].concat();
        let _: () = server.command(&words).await;
        format!("redis://{name}:secret@127.0.0.1:{}", server.port())
    };
    let hosted = user("hosted", &["-config"]).await;
    let mute = user("mute", &["-config", "-info"]).await;
    let ledger = RedisLedger::connect(&hosted).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let _ = sell(&ledger, &claim(1, 1)).await;
    refuses(&RedisLedger::connect(&mute).await.unwrap_err(), LedgerErrorKind::Unsafe, "does not tell");
    assert!(RedisLedger::builder().allow_eviction_to_sell_twice().connect(&mute).await.is_ok());
    let _: () = server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).await;
    refuses(&RedisLedger::connect(&hosted).await.unwrap_err(), LedgerErrorKind::Unsafe, "may evict");
    // A user without the keys.
    let stranger = RedisLedger::builder().key_prefix("other").allow_eviction_to_sell_twice().connect(&hosted).await;
    assert_eq!(stranger.unwrap_err().kind(), LedgerErrorKind::Unavailable);
}

#[tokio::test]
async fn settings_are_checked_before_the_server_is_asked() {
    let (builder, nowhere) = (RedisLedger::builder, "redis://127.0.0.1:1");
    let long = "a".repeat(33);
    for bad in ["", "Shop", "a:b", "a}", "ä", "a b", &long] {
        refuses(
            &builder().key_prefix(bad).connect(nowhere).await.unwrap_err(),
            LedgerErrorKind::Setting,
            "a key prefix",
        );
    }
    let second = Duration::from_secs(1);
    for (replicas, wait) in [(0, second), (1, Duration::ZERO), (1, second * 2)] {
        let refused = builder().wait_replicas(replicas, wait).connect(nowhere).await.unwrap_err();
        refuses(&refused, LedgerErrorKind::Setting, "a commit waits");
    }
    for bad in ["", "127.0.0.1:6379", "http://127.0.0.1", "redis://127.0.0.1/first", "redis://127.0.0.1:port"] {
        refuses(&RedisLedger::connect(bad).await.unwrap_err(), LedgerErrorKind::Setting, "not a URL");
    }
    #[cfg(not(feature = "redis-tls"))]
    refuses(&RedisLedger::connect("rediss://127.0.0.1").await.unwrap_err(), LedgerErrorKind::Setting, "not a URL");
    assert_eq!(RedisLedger::connect("rediss://127.0.0.1:1").await.unwrap_err().kind(), LedgerErrorKind::Unavailable);
}

#[tokio::test]
async fn tls_is_spoken_with_a_certificate_that_is_trusted() {
    use tower_x402::ledger::redis_driver::{Client, TlsCertificates};
    let folder = tempfile::tempdir().unwrap();
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| folder.path().join(name).display().to_string());
    // An empty configuration: the usual one makes it an authority, which is no server's certificate.
    let empty = folder.path().join("openssl.cnf");
    std::fs::write(&empty, "[req]\ndistinguished_name = name\n[name]\n").unwrap();
    let made = std::process::Command::new("openssl")
        .args(["req", "-config"])
        .arg(&empty)
        .args(["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        missing::<()>("openssl");
        return;
    }
    let tls = free_port().to_string();
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-auth-clients", "no"];
    let Some(_server) = Private::start(&[&["--tls-port", &tls], &files[..]].concat()).await else { return };
    let url = format!("rediss://127.0.0.1:{tls}");
    let stranger = RedisLedger::connect(&url).await.unwrap_err();
    assert_eq!(stranger.kind(), LedgerErrorKind::Unavailable, "nobody vouches for it");
    let root_cert = Some(std::fs::read(&certificate).unwrap());
    let client = Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert }).unwrap();
    let ledger = RedisLedger::builder().connect_client(client).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let _ = sell(&ledger, &claim(1, 1)).await;
}

#[tokio::test]
async fn contents_of_another_version_are_left_alone() {
    let Some(url) = shared().await else { return };
    let prefix = prefix();
    let ledger = ledger_at(url, &prefix).await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let lease = sell(&ledger, &claim(1, 1)).await;
    let record = format!("{{{prefix}}}:ledger");
    let _: u64 = command(url, &["HSET", &record, "schema", "1"]).await;
    assert_eq!(ledger.reserve(&claim(2, 2)).await, Err(LedgerError::incompatible()));
    assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::incompatible()));
    assert_eq!(ledger.begin(Network::BASE, time(MARK)).await, Err(LedgerError::incompatible()));
    assert_eq!(ledger.counts().await, Err(LedgerError::incompatible()));
    let other = RedisLedger::builder().key_prefix(prefix.clone()).connect(url).await.unwrap_err();
    assert_eq!(other.kind(), LedgerErrorKind::Incompatible);
    // Somebody else's key.
    let _: u64 = command(url, &["DEL", &record]).await;
    let _: () = command(url, &["SET", &record, "mine"]).await;
    assert_eq!(ledger.consumed(lease.intent()).await.map(|sale| sale.is_some()), Err(LedgerError::incompatible()));
    let _: u64 = command(url, &["DEL", &record]).await;
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// SECURITY 33.
#[tokio::test]
async fn neither_errors_nor_logs_tell_where_the_server_is() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut said = String::new();
    let mut tell = |what: &dyn std::fmt::Debug| said += &format!("{what:?}\n");
    let dead = "redis://canary_user:canary_password@127.0.0.1:1/7";
    for url in [dead, "redis://canary_user:canary_password@canary_host.invalid", "canary://canary_host"] {
        let builder = RedisLedger::builder().sentinels([url], "shop");
        tell(&builder);
        let error = RedisLedger::connect(url).await.unwrap_err();
        tell(&error);
        tell(&error.to_string());
        tell(&std::error::Error::source(&error).map(ToString::to_string));
    }
    if let Some(mut server) = Private::start(&[]).await {
        let _: () = server.command(&["CONFIG", "SET", "requirepass", "canary_password"]).await;
        let wrong = RedisLedger::connect(&format!("redis://:canary_wrong@127.0.0.1:{}", server.port())).await;
        tell(&wrong.unwrap_err());
        let url = format!("redis://:canary_password@127.0.0.1:{}", server.port());
        let ledger = RedisLedger::connect(&url).await.unwrap();
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        let _ = sell(&ledger, &claim(1, 1)).await;
        tell(&ledger);
        server.kill();
        tell(&ledger.reserve(&claim(2, 2)).await);
        tell(&ledger.health().await);
        assert!(!said.contains(&server.port().to_string()));
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the ledger's server failed"), "{log}");
    for text in [&said, &log] {
        assert!(!text.contains("canary") && !text.contains("127.0.0.1"), "{text}");
    }
}
