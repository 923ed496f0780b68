//! What the server keeps: the seller's book, the mark, and nothing that age has ruled out.

use std::{collections::HashMap, process::Command, sync::Mutex, time::Duration};

use tower_x402::{
    ledger::{
        Ledger, Maintenance as _, RedisLedger, ReserveOutcome,
        conformance::{self, CHECKS, Harness},
    },
    protocol::{Amount, IntentKey, Network},
};

use super::{
    super::{AGE, HEAD, MARK, claim, claim_for, hold, paid, time},
    ledger_at, prefix, sell,
    server::{Private, command, shared},
};
use crate::support::servers::{installed, missing};

async fn begun(url: &str) -> RedisLedger {
    let ledger = ledger_at(url, &prefix()).await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    ledger
}

/// The names of all keys, without the prefix.
async fn keys(url: &str, ledger: &RedisLedger) -> Vec<String> {
    let prefix = format!("{{{}}}:", ledger.key_prefix());
    let mut keys: Vec<String> = command(url, &["KEYS", &format!("{prefix}*")]).await;
    keys.iter_mut().for_each(|key| *key = key.strip_prefix(&prefix).unwrap().to_owned());
    keys.retain(|key| key != "health");
    keys.sort();
    keys
}

/// Lets time pass for the ledgers with this prefix: moves everything they noted into the past.
async fn pass(url: &str, prefix: &str, span: Duration) {
    let script = r"
        local back = tonumber(ARGV[2])
        for _, key in ipairs(redis.call('KEYS', '{' .. ARGV[1] .. '}:*')) do
            if redis.call('TYPE', key).ok == 'hash' then
                for _, field in ipairs({ 'until', 'ended' }) do
                    local at = redis.call('HGET', key, field)
                    if at then redis.call('HSET', key, field, string.format('%.0f', at - back)) end
                end
            elseif string.find(key, ':answer:', 1, true) then
                redis.call('PEXPIRE', key, string.format('%.0f', redis.call('PTTL', key) - back))
            elseif string.sub(key, -5) == ':held' then
                for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -back, id) end
            end
        end";
    let _: Option<u64> = command(url, &["EVAL", script, "0", prefix, &span.as_millis().to_string()]).await;
}

/// Where time is skipped rather than waited for.
struct Skipping {
    url: &'static str,
    prefix: Mutex<String>,
}

impl Harness for Skipping {
    type Ledger = RedisLedger;

    async fn fresh(&self) -> RedisLedger {
        let prefix = prefix();
        self.prefix.lock().unwrap().clone_from(&prefix);
        ledger_at(self.url, &prefix).await
    }

    async fn share(&self, ledger: &RedisLedger) -> RedisLedger {
        ledger_at(self.url, ledger.key_prefix()).await
    }

    async fn pass(&self, span: Duration) {
        let prefix = self.prefix.lock().unwrap().clone();
        pass(self.url, &prefix, span).await;
    }

    fn skips_time(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn it_conforms_over_minutes() {
    let Some(url) = shared().await else { return };
    let harness = Skipping { url, prefix: Mutex::default() };
    for check in CHECKS.iter().filter(|check| check.takes_minutes) {
        assert_eq!(conformance::run_one(&harness, check.name).await, Ok(true));
    }
}

#[tokio::test]
async fn what_was_begun_to_be_settled_is_kept_for_its_intent() {
    let Some(url) = shared().await else { return };
    crate::is_kept_for_its_intent(&Skipping { url, prefix: Mutex::default() }).await;
}

#[tokio::test]
async fn a_sale_is_in_the_book() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    let lease = sell(&ledger, &claim(1, 1)).await;
    let key = format!("{{{}}}:payment:{}", ledger.key_prefix(), lease.payment().id());
    let mut book: HashMap<String, String> = command(url, &["HGETALL", &key]).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for moment in ["reserved_at", "consumed_at"] {
        let at: u128 = book.remove(moment).unwrap().parse().unwrap();
        assert!(now.abs_diff(at) < 60_000, "{moment}");
    }
    let expected = [
        ("amount", "490000"),
        ("block_number", "30000000"),
        ("block_time", "1795280100"),
        ("chain_id", "8453"),
        ("fence", &lease.fencing_token().to_string()),
        ("intent", "00000000000000000000000000000001"),
        ("keep_until", "1795457020"),
        ("log_position", "3"),
        ("payer", "0x6666666666666666666666666666666666666666"),
        ("recipient", "0x7777777777777777777777777777777777777777"),
        ("resource", "demand-insights"),
        ("token", "0x5555555555555555555555555555555555555555"),
        ("tx_hash", &lease.payment().transaction().unwrap().to_string()),
    ];
    let mut book: Vec<_> = book.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
    book.sort_unstable();
    assert_eq!(book, expected);
}

/// Lua's numbers are doubles: none of these may become one.
#[tokio::test]
async fn large_numbers_are_kept_to_the_digit() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    let large = {
        let mut transfer = paid(1);
        transfer.network = Network::eip155(u64::MAX);
        transfer.position = u32::MAX;
        transfer.amount = Amount::MAX;
        transfer.block_number = u64::MAX;
        transfer
    };
    ledger.begin(large.network, time(MARK)).await.unwrap();
    let claim = tower_x402::ledger::Claim::builder("r", IntentKey::new([0xff; 16]))
        .pay_until(time(HEAD))
        .payments(vec![large])
        .head(time(HEAD))
        .max_payment_age(AGE)
        .lease(AGE)
        .build();
    let lease = sell(&ledger, &claim).await;
    let key = format!("{{{}}}:payment:{}", ledger.key_prefix(), lease.payment().id());
    let book: HashMap<String, String> = command(url, &["HGETALL", &key]).await;
    assert_eq!(book["block_number"], u64::MAX.to_string());
    assert_eq!(book["amount"], Amount::MAX.to_string());
}

#[tokio::test]
async fn the_documented_query_tells_what_was_sold_today() {
    let Some(server) = Private::start(&[]).await else { return };
    if installed("redis-cli", &[]).is_none() {
        missing::<()>("redis");
        return;
    }
    let ledger = begun(&server.url()).await;
    for (intent, payment) in [(1, 1), (2, 2)] {
        let _ = sell(&ledger, &claim(intent, payment)).await;
    }
    let _ = hold(&ledger, &claim(3, 3)).await;
    let yesterday = sell(&ledger, &claim(4, 4)).await.payment().id().to_string();
    let sold = format!("{{{}}}:sold", ledger.key_prefix());
    let _: f64 = server.command(&["ZINCRBY", &sold, "-86400000", &yesterday]).await;
    let query = include_str!("../../../../src/ledger/redis/sold_today.sh")
        .replace("{ledger}", &format!("{{{}}}", ledger.key_prefix()))
        .replace("redis-cli", &format!("redis-cli -p {}", server.port()));
    let told = Command::new("sh").args(["-c", &query]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    for n in [1, 2] {
        assert!(told.contains(&paid(n).payment_id().to_string()), "{told}");
    }
    assert!(!told.contains(&paid(3).payment_id().to_string()) && !told.contains(&yesterday), "{told}");
    assert_eq!(told.matches("amount\t490000").count(), 2, "{told}");
    assert_eq!(told.matches("payer\t0x6666666666666666666666666666666666666666").count(), 2, "{told}");
}

#[tokio::test]
async fn the_mark_moves_only_by_name() {
    let Some(url) = shared().await else { return };
    let ledger = ledger_at(url, &prefix()).await;
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(None));
    for head in [MARK, MARK - 50, MARK + 50] {
        ledger.begin(Network::BASE, time(head)).await.unwrap();
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))));
    }
    ledger.raise_mark_to(Network::BASE, time(MARK - 1)).await.unwrap();
    ledger.lower_mark_to(Network::BASE, time(MARK + 1)).await.unwrap();
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))));
    ledger.raise_mark_to(Network::BASE, paid(1).block_time).await.unwrap();
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::BeforeMemory));
    ledger.lower_mark_to(Network::BASE, time(MARK + 99)).await.unwrap();
    let _ = sell(&ledger, &claim(1, 1)).await;
}

#[tokio::test]
async fn a_crowd_is_forgotten_without_a_trace() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    for n in 0..50 {
        let _ = sell(&ledger, &claim(n, n)).await;
    }
    assert_eq!(ledger.counts().await.unwrap().remembered, 50);
    // A second after the last in which it could come back, with the lease of these claims.
    let beyond = HEAD + 2 * 86_400 + 180 + 3_600 + 240 + 1;
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(50));
    let counts = ledger.counts().await.unwrap();
    assert_eq!((counts.remembered, counts.consumed), (0, 50));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(paid(0).block_time)));
    assert_eq!(keys(url, &ledger).await, ["ledger"], "nothing is left behind");
    for head in [beyond, HEAD] {
        let replay = claim_for(7, 7, Duration::from_secs(60), head);
        assert_eq!(ledger.reserve(&replay).await, Ok(ReserveOutcome::BeforeMemory));
    }
}

#[tokio::test]
async fn a_lease_that_nobody_asked_about_is_forgotten() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    for n in 0..3 {
        let _ = hold(&ledger, &claim_for(n, n, Duration::from_secs(60), HEAD)).await;
    }
    pass(url, ledger.key_prefix(), Duration::from_secs(60 + 3_590)).await;
    let _ = sell(&ledger, &claim(9, 9)).await;
    assert_eq!(ledger.sweep(Network::BASE, time(HEAD)).await, Ok(0));
    assert_eq!(ledger.counts().await.unwrap().held, 3, "each of them may still be committed");
    pass(url, ledger.key_prefix(), Duration::from_secs(20)).await;
    let _ = sell(&ledger, &claim(10, 10)).await;
    assert_eq!(ledger.sweep(Network::BASE, time(HEAD)).await, Ok(0));
    let counts = ledger.counts().await.unwrap();
    assert_eq!((counts.held, counts.expired, counts.remembered), (0, 3, 2));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))), "nothing that was sold is forgotten");
}

/// As if the server's clock had been set back by a day since the last grant.
#[tokio::test]
async fn a_fence_is_above_every_earlier_one_whatever_the_clock() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    let first = hold(&ledger, &claim(1, 1)).await.fencing_token();
    let ahead = first + 86_400_000_000;
    let record = format!("{{{}}}:ledger", ledger.key_prefix());
    let _: u64 = command(url, &["HSET", &record, "fence", &ahead.to_string()]).await;
    for name in 2..5 {
        let fence = hold(&ledger, &claim(name, name)).await.fencing_token();
        assert_eq!(fence, ahead + name - 1);
    }
}

#[tokio::test]
async fn a_sweep_by_name_forgets_all_that_may_be() {
    let Some(url) = shared().await else { return };
    let ledger = begun(url).await;
    assert!(ledger.sweep(Network::BASE, time(HEAD)).await.is_ok());
    for name in 0..140 {
        let _ = sell(&ledger, &claim(name, name)).await;
    }
    let _held = hold(&ledger, &claim(150, 150)).await;
    let last = claim(1, 1).keep_until(&paid(1).into());
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0), "it is kept to the second");
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(1))).await, Ok(140));
    let counts = ledger.counts().await.unwrap();
    assert_eq!((counts.remembered, counts.held), (0, 1));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(paid(1).block_time)));
}

#[tokio::test]
async fn two_prefixes_are_two_ledgers() {
    let Some(url) = shared().await else { return };
    let [one, other] = [begun(url).await, begun(url).await];
    let _ = sell(&one, &claim(1, 1)).await;
    let _ = sell(&other, &claim(1, 1)).await;
    let shared = ledger_at(url, one.key_prefix()).await;
    assert_eq!(shared.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
}
