//! Many at once: one payment, one intent, one answer.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::Response;
use rand::Rng as _;
use tokio::{sync::Barrier, task::yield_now};
use tower_x402::{
    ledger::MemoryLedger,
    protocol::{Amount, Asset, ChainTime, Network, Transfer, TxHash},
    testing::FakeClock,
};

use crate::{
    support::faults::{failed, handler, ok, quoted},
    support::{NOW, PRICE, Shop, ask, assert_problem, layered, payer, read, recipient, redemption},
};

const TASKS: usize = 64;

/// What one presenter was told.
type Told = (u16, String);

/// A request of a task in a round.
type Round = Arc<dyn Fn(usize) -> (String, TxHash) + Send + Sync>;

/// How many were told what, round by round.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<Vec<BTreeMap<Told, usize>>>>);

impl Tally {
    fn add(&self, round: usize, told: Told) {
        let mut rounds = self.0.lock().unwrap();
        if rounds.len() <= round {
            rounds.resize_with(round + 1, BTreeMap::new);
        }
        *rounds[round].entry(told).or_default() += 1;
    }

    /// Asserts so many deliveries in each round, and nothing but these refusals beside them.
    fn assert(&self, delivered: usize, refusals: &[(u16, &str)]) {
        for (number, round) in self.0.lock().unwrap().iter().enumerate() {
            let sold: usize = round.iter().filter(|((status, _), _)| *status == 200).map(|(_, count)| count).sum();
            assert_eq!(sold, delivered, "round {number}: {round:?}");
            for (status, code) in round.keys().filter(|(status, _)| *status != 200) {
                assert!(refusals.contains(&(*status, code.as_str())), "round {number}: {round:?}");
            }
        }
    }
}

/// A handler of random length: at once, a few polls, or a moment.
async fn work() {
    let (polls, sleeps) = {
        let mut rng = rand::rng();
        (rng.random_range(0..6), rng.random_ratio(1, 64))
    };
    for _ in 0..polls {
        yield_now().await;
    }
    if sleeps {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Presents every round's requests from all tasks at once, all set off by one barrier.
async fn present<S, F>(rounds: Vec<Round>, present_one: S) -> Tally
where
    S: Fn(String, TxHash) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Told> + Send + 'static,
{
    let (tally, barrier, rounds) = (Tally::default(), Arc::new(Barrier::new(TASKS)), Arc::new(rounds));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (tally, barrier, rounds, one) =
                (tally.clone(), Arc::clone(&barrier), Arc::clone(&rounds), present_one.clone());
            tokio::spawn(async move {
                for (number, round) in rounds.iter().enumerate() {
                    let (intent, tx) = round(task);
                    barrier.wait().await;
                    tally.add(number, one(intent, tx).await);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    tally
}

/// A shop with a service of random length, and a way to present to it.
macro_rules! stage {
    ($shop:ident, $service:ident, $present:ident, $runs:ident) => {
        let $shop = Shop::open().await;
        let $runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&$runs);
        let $service = layered(
            &$shop.merchant.charge("answer", PRICE).unwrap(),
            handler(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                async {
                    work().await;
                    ok()
                }
            }),
        );
        let presented = $service.clone();
        let $present = move |intent: String, tx| {
            let service = presented.clone();
            async move {
                let (status, body) =
                    read(tower::ServiceExt::oneshot(service, redemption(&intent, tx)).await.unwrap()).await;
                (status.as_u16(), body["error"].as_str().unwrap_or_default().to_owned())
            }
        };
    };
}

const BUSY: (u16, &str) = (409, "redemption_in_progress");
const CONSUMED: (u16, &str) = (409, "already_consumed");
const USED: (u16, &str) = (409, "tx_already_used");

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_intent_and_one_transaction_presented_64_times_at_once_buy_one_answer() {
    stage!(shop, service, present_one, runs);
    let mut rounds: Vec<Round> = Vec::new();
    for _ in 0..1_000 {
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        rounds.push(Arc::new(move |_| (intent.clone(), tx)));
    }
    present(rounds, present_one).await.assert(1, &[BUSY, CONSUMED]);
    assert_eq!(runs.load(Ordering::SeqCst), 1_000, "no handler ran for nothing");
    let counts = shop.ledger.counts().unwrap();
    assert_eq!((counts.consumed, counts.held), (1_000, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_transaction_presented_for_64_intents_at_once_buys_one_answer() {
    stage!(shop, service, present_one, runs);
    let mut rounds: Vec<Round> = Vec::new();
    let mut intents = Vec::new();
    for _ in 0..TASKS {
        intents.push(quoted(&service).await);
    }
    for _ in 0..200 {
        let mut intents = Vec::new();
        for _ in 0..TASKS {
            intents.push(quoted(&service).await);
        }
        let tx = shop.pay(490_000);
        rounds.push(Arc::new(move |task| (intents[task].clone(), tx)));
    }
    present(rounds, present_one).await.assert(1, &[BUSY, USED]);
    assert_eq!(runs.load(Ordering::SeqCst), 200);
    // An intent that lost is as good as new.
    assert_eq!(ask(&service, redemption(&intents[0], shop.pay(490_000))).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_intent_presented_with_64_payments_at_once_takes_one_of_them() {
    stage!(shop, service, present_one, runs);
    let mut rounds: Vec<Round> = Vec::new();
    let mut payments = Vec::new();
    for _ in 0..200 {
        let intent = quoted(&service).await;
        let paid: Vec<TxHash> = (0..TASKS).map(|_| shop.pay(490_000)).collect();
        payments.extend(paid.clone());
        rounds.push(Arc::new(move |task| (intent.clone(), paid[task])));
    }
    present(rounds, present_one).await.assert(1, &[BUSY, CONSUMED]);
    assert_eq!(runs.load(Ordering::SeqCst), 200);
    // Every payment but one of each round is still good.
    let mut good = 0;
    for tx in payments.iter().take(TASKS) {
        let intent = quoted(&service).await;
        good += usize::from(ask(&service, redemption(&intent, *tx)).await.status() == 200);
    }
    assert_eq!(good, TASKS - 1);
}

fn transfer(position: u32, units: u128) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([0; 32]), position)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(Amount::from_base_units(units))
        .with_block(1, ChainTime::from_unix(NOW))
}

/// Three customers in one bundle: three answers, whoever presents it, and however often.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_payments_in_one_transaction_buy_three_answers_of_64_presenters() {
    stage!(shop, service, present_one, runs);
    let mut rounds: Vec<Round> = Vec::new();
    for number in 0..200_u32 {
        let mut intents = Vec::new();
        for _ in 0..TASKS / 4 {
            intents.push(quoted(&service).await);
        }
        let mut hash = [0xee; 32];
        hash[..4].copy_from_slice(&number.to_be_bytes());
        let tx = TxHash::new(hash);
        shop.chain.mine(tx, [transfer(0, 500_000), transfer(1, 1), transfer(3, 490_000), transfer(7, 490_000)]);
        // Each intent is presented by four at once. Those who find the bundle busy ask again.
        rounds.push(Arc::new(move |task| (intents[task / 4].clone(), tx)));
    }
    let persistent = move |intent: String, tx| {
        let present_one = present_one.clone();
        async move {
            loop {
                let told = present_one(intent.clone(), tx).await;
                if told.1 != "redemption_in_progress" {
                    return told;
                }
                yield_now().await;
            }
        }
    };
    present(rounds, persistent).await.assert(3, &[CONSUMED, USED]);
    assert_eq!(runs.load(Ordering::SeqCst), 600);
}

/// Handlers fail, clients leave, leases run out under their holders and are taken over: still one answer, and
/// at the end of each round the payment bought exactly one, unless its buyer left during the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn failures_departures_and_leases_that_run_out_never_sell_twice() {
    // A clock of the ledger's own: its leases run out, while quotes and payments stay young.
    let leases = FakeClock::new(NOW);
    let ledger = MemoryLedger::with_clock(leases.clone());
    let handle = ledger.clone();
    let shop = Shop::open_with(|builder| builder.ledger(handle)).await;
    let clock = leases.clone();
    let storm = handler(move |_| {
        let clock = clock.clone();
        async move {
            work().await;
            let weather = rand::rng().random_range(0..8);
            match weather {
                // Every lease that is held now runs out, and there is time to take it over.
                0 | 1 => {
                    clock.advance(Duration::from_secs(61));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                2..=4 => return failed(),
                _ => {}
            }
            work().await;
            Response::new(Body::from("the answer"))
        }
    });
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), storm);
    let mut rounds: Vec<Round> = Vec::new();
    let mut pairs = Vec::new();
    for _ in 0..100 {
        let (intents, tx) = ([quoted(&service).await, quoted(&service).await], shop.pay(490_000));
        pairs.push((intents.clone(), tx));
        rounds.push(Arc::new(move |task| (intents[task % 2].clone(), tx)));
    }
    let presented = service.clone();
    let present_or_leave = move |intent: String, tx| {
        let service = presented.clone();
        async move {
            let patience = Duration::from_micros(if rand::rng().random_ratio(1, 4) { 300 } else { 10_000_000 });
            // Who finds the pair busy asks again, and so is there when a lease has run out.
            for _ in 0..20 {
                let answer = tower::ServiceExt::oneshot(service.clone(), redemption(&intent, tx));
                let Ok(answer) = tokio::time::timeout(patience, answer).await else { return (0, "left".to_owned()) };
                let (status, body) = read(answer.unwrap()).await;
                if body["error"] != "redemption_in_progress" {
                    return (status.as_u16(), body["error"].as_str().unwrap_or_default().to_owned());
                }
                yield_now().await;
            }
            (409, "redemption_in_progress".to_owned())
        }
    };
    let tally = present(rounds, present_or_leave).await;
    for (number, round) in tally.0.lock().unwrap().iter().enumerate() {
        let sold = round.get(&(200, String::new())).copied().unwrap_or_default();
        assert!(sold <= 1, "round {number}: {round:?}");
    }
    let tally: Vec<_> = tally.0.lock().unwrap().clone();
    for (round, (intents, tx)) in tally.iter().zip(pairs) {
        let mut sold = round.get(&(200, String::new())).copied().unwrap_or_default();
        for _ in 0..50 {
            let (status, body) = read(ask(&service, redemption(&intents[0], tx)).await).await;
            match (status.as_u16(), body["error"].as_str()) {
                (200, _) => sold += 1,
                (409, Some("already_consumed" | "tx_already_used")) => break,
                _ => leases.advance(Duration::from_secs(16 * 60)),
            }
        }
        // The memory ledger commits in one poll: nobody can leave in the middle of it.
        assert_eq!(sold, 1, "{round:?}");
    }
    let counts = ledger.counts().unwrap();
    assert_eq!(counts.consumed, 100);
    assert!(counts.expired > 20 && counts.released > 50, "too calm: {counts:?}");
}

/// SECURITY 38: what is said of a transaction under one price says nothing under another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cheap_payment_never_answers_a_dear_intent_however_they_race() {
    stage!(shop, cheap, present_cheap, runs);
    let dear = layered(&shop.merchant.charge("dear", "10.00 USDC").unwrap(), handler(|_| async { ok() }));
    let presented = dear.clone();
    let mut rounds: Vec<Round> = Vec::new();
    let mut of_dear = std::collections::HashSet::new();
    for _ in 0..200 {
        let (low, high, tx) = (quoted(&cheap).await, quoted(&dear).await, shop.pay(490_000));
        of_dear.insert(high.clone());
        rounds.push(Arc::new(move |task| (if task % 2 == 0 { low.clone() } else { high.clone() }, tx)));
    }
    let of_dear = Arc::new(of_dear);
    let either = move |intent: String, tx| {
        let (dear, cheap, is_dear) = (presented.clone(), present_cheap.clone(), of_dear.contains(&intent));
        async move {
            if !is_dear {
                return cheap(intent, tx).await;
            }
            let (status, body) = read(tower::ServiceExt::oneshot(dear, redemption(&intent, tx)).await.unwrap()).await;
            assert_eq!((status.as_u16(), body["error"].as_str()), (422, Some("insufficient_amount")));
            assert_eq!((body["paid"].as_str(), body["required"].as_str()), (Some("490000"), Some("10000000")));
            (422, "insufficient_amount".to_owned())
        }
    };
    present(rounds, either).await.assert(1, &[BUSY, CONSUMED, (422, "insufficient_amount")]);
    assert_eq!(runs.load(Ordering::SeqCst), 200);
}

/// SECURITY 18 and 38: a verdict does not outlive the age it was given at.
#[tokio::test]
async fn a_payment_counts_to_the_second_of_its_age_and_not_beyond() {
    let day = 24 * 60 * 60;
    for (age, code) in [(day - 1, None), (day, None), (day + 1, Some("payment_too_old"))] {
        let shop = Shop::open().await;
        let service = layered(
            &shop.merchant.charge("answer", PRICE).unwrap(),
            handler(|run| async move { if run == 1 { failed() } else { ok() } }),
        );
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        // Verified once while it is young, in vain.
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
        shop.chain.set_head(ChainTime::from_unix(NOW + age));
        let answer = ask(&service, redemption(&intent, tx)).await;
        match code {
            None => assert_eq!(answer.status(), 200, "at {age} s"),
            Some(code) => drop(assert_problem(answer, 422, code).await),
        }
    }
}
