//! SECURITY 2 and 27: eight processes on one ledger, some of which are killed (`kill -9`), at each point of a sale and at
//! random moments; and what all of them wrote down.
//!
//! A process is this program again, told by its environment to be a seller.

use std::{
    env, fs,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::selling::{Does, Event, Point, Seller, Story, What, all_is_sold, check, claim, intent, redeem, sell_all};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

const PROCESSES: usize = 8;
/// At each of them a process dies, over a group of payments that is its own until then.
const POINTS: [Point; 6] = [
    Point::BeforeReserve,
    Point::AfterReserve,
    Point::MidHandler,
    Point::BeforeCommit,
    Point::AfterCommit,
    Point::AfterDelivery,
];
/// How many processes are killed at random moments.
const KILLS: usize = 6;
const GROUPS: u64 = 50;
/// How many of them are sold while the first ones die.
const EARLY: u64 = 10;
/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

on_each_kind! { each_payment_buys_one_answer_whoever_is_killed }

async fn each_payment_buys_one_answer_whoever_is_killed(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let (start, mut random) = (Instant::now(), rand::rng());
    let mut crew = Crew::new(&place);
    crew.open(EARLY, false);
    let doomed: Vec<_> = POINTS.iter().map(|point| crew.start(Some(*point))).collect();
    while crew.members.len() < PROCESSES {
        crew.start(None);
    }
    for (who, point) in doomed.into_iter().zip(POINTS) {
        crew.until(|crew| crew.members[who].ended().is_some());
        assert_eq!(crew.members[who].ended().unwrap().signal(), Some(9), "{point:?}");
        let whats: Vec<_> = crew.members[who].story().events.iter().map(|event| event.what).collect();
        let expected: &[_] = match point {
            Point::BeforeReserve => &[],
            Point::AfterReserve | Point::MidHandler | Point::BeforeCommit => &[What::Granted],
            Point::AfterCommit => &[What::Granted, What::Committing, What::Done],
            Point::AfterDelivery => &[What::Granted, What::Committing, What::Done, What::Delivered],
        };
        assert_eq!(whats, expected, "{point:?}");
    }
    while crew.alive().len() < PROCESSES {
        crew.start(None);
    }
    crew.until(|crew| crew.members.iter().all(Member::was_ready));

    // Eight at work, some of whom are killed, and replaced, now and then.
    crew.open(GROUPS, false);
    let mut killed = 0;
    while killed < KILLS {
        // Where nothing is left to write, after a while.
        let (then, since) = (crew.written() + random.random_range(0..1_500), Instant::now());
        crew.until(|crew| crew.written() >= then || since.elapsed() > Duration::from_secs(1));
        let alive = crew.alive();
        crew.members[alive[random.random_range(0..alive.len())]].kill();
        killed += 1;
        crew.start(None);
    }
    crew.open(GROUPS, true);
    crew.until(|crew| crew.alive().is_empty());

    let stories: Vec<_> = crew.members.iter_mut().map(Member::story).collect();
    let tally = check(&stories, GROUPS);
    all_is_sold(&ledger, &stories, GROUPS).await;
    assert_eq!(stories.iter().filter(|story| story.died).count(), POINTS.len() + KILLS);
    println!("{kind:?}: {} processes, {tally:?}, {:?}", stories.len(), start.elapsed());
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
    ended: Option<ExitStatus>,
    history: PathBuf,
}

impl Crew {
    fn new(place: &Place) -> Self {
        Self { address: place.address().to_owned(), folder: place.folder(), members: Vec::new() }
    }

    /// Starts one more; tells its number.
    fn start(&mut self, dies: Option<Point>) -> usize {
        let who = self.members.len();
        let history = self.folder.join(format!("history-{who}"));
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "backends::processes::as_a_seller", "--nocapture", "--test-threads=1"]);
        command
            .env("SELLER_LEDGER", &self.address)
            .env("SELLER_HISTORY", &history)
            .env("SELLER_NUMBER", who.to_string());
        command.env("SELLER_DIES", dies.map_or(String::new(), |point| format!("{point:?}")));
        let log = fs::File::create(self.folder.join(format!("log-{who}"))).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.members.push(Member { process: command.spawn().unwrap(), ended: None, history });
        who
    }

    /// From now on so many groups are sold, and perhaps there will be no more.
    fn open(&self, groups: u64, for_good: bool) {
        let new = self.folder.join("open.new");
        fs::write(&new, format!("{groups} {for_good}")).unwrap();
        fs::rename(new, self.folder.join("open")).unwrap();
    }

    /// Waits; nobody may fail meanwhile.
    fn until(&mut self, holds: impl Fn(&mut Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "nothing moves: {}", self.logs());
            for who in 0..self.members.len() {
                let fine = self.members[who].ended().is_none_or(|ended| ended.success() || ended.signal() == Some(9));
                assert!(fine, "process {who} failed: {}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn alive(&mut self) -> Vec<usize> {
        let members = self.members.iter_mut().enumerate();
        members.filter_map(|(who, member)| member.ended().is_none().then_some(who)).collect()
    }

    /// How many bytes all of them wrote down.
    fn written(&self) -> u64 {
        self.members.iter().map(|member| fs::metadata(&member.history).map_or(0, |file| file.len())).sum()
    }

    fn logs(&self) -> String {
        let logs = (0..self.members.len()).map(|who| fs::read_to_string(self.folder.join(format!("log-{who}"))));
        logs.map(|log| log.unwrap_or_default()).collect()
    }
}

impl Member {
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().unwrap();
        }
        self.ended
    }

    fn was_ready(&self) -> bool {
        self.history.exists()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.ended = Some(self.process.wait().unwrap());
    }

    fn story(&mut self) -> Story {
        let died = self.ended().is_some_and(|ended| ended.signal() == Some(9));
        let text = fs::read_to_string(&self.history).unwrap_or_default();
        // A line without an end was not written.
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        Story { events: lines.map(|line| line.parse().unwrap()).collect(), died }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Process {
    ledger: AnyLedger,
    history: fs::File,
    dies: String,
}

impl Seller for Process {
    fn ledger(&self) -> &AnyLedger {
        &self.ledger
    }

    fn note(&self, event: Event) {
        (&self.history).write_all(format!("{event}\n").as_bytes()).unwrap();
        self.history.sync_data().unwrap();
    }

    /// As the kernel ends it: nothing is tidied up. The thread waits, and it is the only one that works.
    fn at(&self, point: Point) {
        if self.dies == format!("{point:?}") {
            Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
            loop {
                std::thread::park();
            }
        }
    }
}

/// Not a test of its own: what the tests above start in processes of their own.
#[tokio::test]
async fn as_a_seller() {
    let Ok(address) = env::var("SELLER_LEDGER") else { return };
    let path = PathBuf::from(env::var_os("SELLER_HISTORY").unwrap());
    let number: u64 = env::var("SELLER_NUMBER").unwrap().parse().unwrap();
    let ledger = AnyLedger::connect(&address).await;
    let history = fs::OpenOptions::new().create_new(true).append(true).open(&path).unwrap();
    let seller = Process { ledger, history, dies: env::var("SELLER_DIES").unwrap() };
    let start = Instant::now();
    let open = |path: &Path| {
        assert!(start.elapsed() < PATIENCE, "nobody ends this");
        let open = fs::read_to_string(path.with_file_name("open")).unwrap();
        let (groups, for_good) = open.split_once(' ').unwrap();
        (groups.parse().unwrap(), for_good == "true")
    };
    if !seller.dies.is_empty() {
        // Beyond what is open: nobody else is there yet, so that it gets to its point.
        let group = EARLY + number;
        loop {
            let _ = redeem(&seller, &claim(group, intent(group, 0)), Does::Answers(Duration::from_millis(20))).await;
            assert!(start.elapsed() < PATIENCE, "it did not die");
        }
    }
    let mut randoms = [0, 1].map(|task| StdRng::seed_from_u64(number * 2 + task + u64::from(std::process::id()) * 64));
    let [one, two] = &mut randoms;
    tokio::join!(sell_all(&seller, one, || open(&path)), sell_all(&seller, two, || open(&path)));
}
