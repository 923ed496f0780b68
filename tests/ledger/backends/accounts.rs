//! Accounts on each ledger over a database: the conformance suite, and processes that race for one account, some of which are
//! killed (`kill -9`).
//!
//! A process is this program again, told by its environment to be a customer's server.

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tower_x402::{
    ledger::{
        AccountId, AccountLedger as _, ChargeOutcome, Draw, DrawOutcome, OpenOutcome, Opening,
        conformance::{self, Harness},
    },
    protocol::Amount,
};

use super::book::Books;
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

const ID: AccountId = AccountId::new([0x26; 16]);
/// Short, so that what a dead process held is soon free.
const LEASE: Duration = Duration::from_millis(700);
/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

on_each_kind! {
    it_keeps_accounts_as_it_should
    twenty_calls_in_two_processes_on_three_that_are_left
    no_more_is_spent_than_was_paid_for_whoever_is_killed
    an_account_is_restored_as_it_was
}

/// The same ledgers, with fewer rounds of each race: every round takes a server many questions.
struct Fewer(Books);

impl Harness for Fewer {
    type Ledger = AnyLedger;

    async fn fresh(&self) -> AnyLedger {
        self.0.fresh().await
    }

    async fn share(&self, ledger: &AnyLedger) -> AnyLedger {
        self.0.share(ledger).await
    }

    async fn pass(&self, span: Duration) {
        self.0.pass(span).await;
    }

    fn skips_time(&self) -> bool {
        self.0.skips_time()
    }

    fn rounds(&self) -> usize {
        10
    }
}

fn units(units: u64) -> Amount {
    Amount::from_base_units(units.into())
}

async fn it_keeps_accounts_as_it_should(kind: Kind) {
    let Some(books) = Books::new(kind).await else { return };
    let fewer = Fewer(books);
    let report = conformance::run_accounts(&fewer).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
    fewer.0.remove().await;
}

/// What an older copy of a ledger holds is spent again at most: nothing else changes.
async fn an_account_is_restored_as_it_was(kind: Kind) {
    if kind != Kind::Sqlite {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let charge = async |ledger: &tower_x402::ledger::SqliteLedger, times| {
        let mut charged = 0;
        for _ in 0..times {
            match ledger.draw(&Draw::new(ID, units(1), LEASE)).await.unwrap() {
                DrawOutcome::Granted(lease) => {
                    let outcome = ledger.charge(&lease, units(1), None).await.unwrap();
                    assert!(matches!(outcome, ChargeOutcome::Done { .. }));
                    charged += 1;
                }
                DrawOutcome::UsedUp { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        charged
    };
    let ledger = tower_x402::ledger::SqliteLedger::open(&path).await.unwrap();
    let _ = ledger.open_account(&Opening::new(ID, units(10))).await.unwrap();
    assert_eq!(charge(&ledger, 4).await, 4);
    ledger.close().await;
    let copy = folder.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    let ledger = tower_x402::ledger::SqliteLedger::open(&path).await.unwrap();
    assert_eq!(charge(&ledger, 99).await, 6, "all that was left");
    ledger.close().await;
    let restored = tower_x402::ledger::SqliteLedger::open(&copy).await.unwrap();
    assert_eq!(charge(&restored, 99).await, 6, "what was spent since the copy is spent again, and no more");
}

async fn twenty_calls_in_two_processes_on_three_that_are_left(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let mut crew = Crew::new(&place);
    let _ = ledger.open_account(&Opening::new(ID, units(3))).await.unwrap();
    for _ in 0..2 {
        crew.start("rush", "");
    }
    crew.until(|crew| crew.members.iter().all(|member| member.story().contains("ready")));
    fs::write(crew.folder.join("go"), "").unwrap();
    crew.until(|crew| crew.members.iter_mut().all(Member::ended));
    let stories: Vec<_> = crew.members.iter().map(Member::story).collect();
    let count =
        |what: &str| stories.iter().flat_map(|story| story.lines()).filter(|line| line.starts_with(what)).count();
    assert_eq!((count("charged"), count("refused")), (3, 17), "{stories:?}");
    let account = ledger.account(ID).await.unwrap().unwrap();
    assert_eq!((account.spent, account.held), (units(3), Amount::ZERO));
    place.remove().await;
}

async fn no_more_is_spent_than_was_paid_for_whoever_is_killed(kind: Kind) {
    const LIMIT: u64 = 120;
    const POINTS: [&str; 4] = ["before-draw", "after-draw", "before-charge", "after-charge"];
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let _ = ledger.open_account(&Opening::new(ID, units(LIMIT))).await.unwrap();
    let mut crew = Crew::new(&place);
    // Each dies at its point, in its fifth call; two work until nothing is left.
    for point in POINTS {
        crew.start("work", point);
    }
    for _ in 0..2 {
        crew.start("work", "");
    }
    crew.until(|crew| crew.members.iter_mut().all(Member::ended));
    let mut fences: Vec<u64> = Vec::new();
    for story in crew.members.iter().map(Member::story) {
        fences.extend(story.lines().filter_map(|line| line.strip_prefix("charged ")?.parse::<u64>().ok()));
    }
    let (all, distinct) = (fences.len(), fences.iter().collect::<std::collections::HashSet<_>>().len());
    assert_eq!(all, distinct, "no call was charged twice");
    let account = ledger.account(ID).await.unwrap().unwrap();
    assert_eq!(account.spent, units(LIMIT), "what dead processes held was spent by others");
    // One died between its charge and writing it down.
    assert!(all as u64 <= LIMIT && all as u64 + 1 >= LIMIT, "{all} calls were charged of {LIMIT}");
    place.remove().await;
}

/// The processes that were started so far.
struct Crew {
    address: String,
    folder: PathBuf,
    members: Vec<Member>,
}

struct Member {
    process: Child,
    history: PathBuf,
}

impl Crew {
    fn new(place: &Place) -> Self {
        Self { address: place.address().to_owned(), folder: place.folder(), members: Vec::new() }
    }

    fn start(&mut self, does: &str, dies: &str) {
        let history = self.folder.join(format!("calls-{}", self.members.len()));
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "backends::accounts::as_a_server", "--nocapture", "--test-threads=1"]);
        command.env("CALLS_LEDGER", &self.address).env("CALLS_HISTORY", &history);
        command.env("CALLS_DOES", does).env("CALLS_DIES", dies);
        let log = fs::File::create(history.with_extension("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.members.push(Member { process: command.spawn().unwrap(), history });
    }

    fn until(&mut self, holds: impl Fn(&mut Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "nothing moves: {}", self.logs());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn logs(&self) -> String {
        let logs = self.members.iter().map(|member| fs::read_to_string(member.history.with_extension("log")));
        logs.map(|log| log.unwrap_or_default()).collect()
    }
}

impl Member {
    /// Whether it has ended, well or by a kill.
    fn ended(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        let Some(status) = self.process.try_wait().unwrap() else { return false };
        assert!(status.success() || status.signal() == Some(9), "{status}: {}", self.story());
        true
    }

    fn story(&self) -> String {
        fs::read_to_string(&self.history).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: what the tests above start in processes of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_a_server() {
    let Ok(address) = env::var("CALLS_LEDGER") else { return };
    let path = PathBuf::from(env::var_os("CALLS_HISTORY").unwrap());
    let ledger = AnyLedger::connect(&address).await;
    let history = fs::OpenOptions::new().create_new(true).append(true).open(&path).unwrap();
    let note = move |what: String| (&history).write_all(format!("{what}\n").as_bytes()).unwrap();
    match env::var("CALLS_DOES").unwrap().as_str() {
        "rush" => {
            note("ready".to_owned());
            while !path.with_file_name("go").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            rush(&ledger, note).await;
        }
        _ => work(&ledger, &env::var("CALLS_DIES").unwrap(), note).await,
    }
}

/// Ten calls at once.
async fn rush(ledger: &AnyLedger, note: impl Fn(String)) {
    let call = async || match ledger.draw(&Draw::new(ID, units(1), Duration::from_secs(60))).await.unwrap() {
        DrawOutcome::Granted(lease) => {
            assert!(matches!(ledger.charge(&lease, units(1), None).await.unwrap(), ChargeOutcome::Done { .. }));
            note(format!("charged {}", lease.fencing_token()));
        }
        DrawOutcome::Busy { .. } | DrawOutcome::UsedUp { .. } => note("refused".to_owned()),
        other => panic!("{other:?}"),
    };
    tokio::join!(call(), call(), call(), call(), call(), call(), call(), call(), call(), call());
}

/// One call after the other until nothing is left, or it dies in its fifth one.
async fn work(ledger: &AnyLedger, dies: &str, note: impl Fn(String)) {
    let start = Instant::now();
    let mut calls = 0;
    let at = |point: &str, calls: u64| {
        if dies == point && calls == 5 {
            Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
            loop {
                std::thread::park();
            }
        }
    };
    let opened = ledger.open_account(&Opening::new(ID, units(1))).await.unwrap();
    assert!(matches!(opened, OpenOutcome::Open(_)));
    loop {
        assert!(start.elapsed() < PATIENCE, "it does not end");
        calls += 1;
        at("before-draw", calls);
        match ledger.draw(&Draw::new(ID, units(1), LEASE)).await {
            Ok(DrawOutcome::Granted(lease)) => {
                at("after-draw", calls);
                tokio::time::sleep(Duration::from_millis(3)).await;
                if calls % 7 == 0 {
                    ledger.release_draw(&lease).await.unwrap();
                    continue;
                }
                at("before-charge", calls);
                let outcome = ledger.charge(&lease, units(1), None).await.unwrap();
                at("after-charge", calls);
                assert!(matches!(outcome, ChargeOutcome::Done { .. }), "{outcome:?}");
                note(format!("charged {}", lease.fencing_token()));
            }
            Ok(DrawOutcome::Busy { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok(DrawOutcome::UsedUp { .. }) => return,
            other => panic!("{other:?}"),
        }
    }
}
