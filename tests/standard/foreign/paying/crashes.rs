//! A buyer that is killed (`kill -9`) at each step, and started again on the same journal.

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rand::Rng as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{sleep, timeout},
};
use tower_x402::client::{PayErrorKind, PurchaseState, Standard};

use super::{
    super::{CHEAP, ForeignSeller, Make, WEATHER},
    Buyer, builder, buy, get, open,
};
use crate::World;

const VARIABLES: [&str; 6] = [
    "X402_TEST_PAYING_URL",
    "X402_TEST_PAYING_KEY",
    "X402_TEST_PAYING_RPC",
    "X402_TEST_PAYING_JOURNAL",
    "X402_TEST_PAYING_STEP",
    "X402_TEST_PAYING_STANDARD",
];
/// What the buyer's lines begin with.
const MARK: &str = "buyer: ";
const PATIENT: Duration = Duration::from_secs(120);
const CALLS_MAX: usize = 6;

/// Where the buyer stands still, to be killed there.
const STEPS: [&str; 4] = ["quoted", "authorized", "redeeming", "answered"];

/// Not a test of its own: the buyer that the tests below start. It buys one answer, and says each step.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(url) = env::var(VARIABLES[0]) else { return };
    let [key, rpc, journal, step, standard] = [1, 2, 3, 4, 5].map(|at| env::var(VARIABLES[at]).unwrap());
    let stands = AtomicBool::new(false);
    let builder = builder(&key, &rpc, Path::new(&journal)).await.on_event(move |event| {
        println!("{MARK}{}", event.name());
        if event.name() == step && !stands.swap(true, Ordering::SeqCst) {
            loop {
                std::thread::park();
            }
        }
    });
    let spoken = Standard::ALL.into_iter().filter(|known| standard.is_empty() || known.name() == standard);
    let layer = builder.standards(spoken).build().await.unwrap();
    let mut outstanding = None;
    for _ in 0..CALLS_MAX {
        match buy(&layer, get(&url)).await {
            Ok(got) if got.status == 200 => return println!("{MARK}got the answer"),
            Ok(got) => println!("{MARK}status {}", got.status),
            Err(error) if error.kind() == PayErrorKind::BilledAgain => {
                return println!("{MARK}lost {}", error.transaction().unwrap());
            }
            Err(error) => {
                outstanding = error.transaction().filter(|_| error.is_resumable());
                println!("{MARK}error {error}");
            }
        }
    }
    match outstanding {
        Some(transaction) => println!("{MARK}outstanding {transaction}"),
        None => println!("{MARK}nothing"),
    }
}

/// A buyer under way.
struct Running {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(buyer: &Buyer, seller: &ForeignSeller, url: &str, step: &str) -> Self {
        let module = module_path!().split_once("::").unwrap().1;
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", &format!("{module}::as_a_child"), "--nocapture"]);
        let journal = buyer.journal();
        // mppx speaks x402 as well, which would go first.
        let standard = if seller.make == Make::Mppx { Standard::Mpp.name() } else { "" };
        let values = [url, &buyer.key, &buyer.rpc, journal.to_str().unwrap(), step, standard];
        for (name, value) in VARIABLES.into_iter().zip(values) {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    /// The next thing it says; `None` at its end.
    async fn says(&mut self) -> Option<String> {
        loop {
            let line = timeout(PATIENT, self.said.next_line()).await.expect("it goes on").unwrap()?;
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Waits until it is at that step; `false` where it ended before.
    async fn comes_to(&mut self, step: &str) -> bool {
        while let Some(said) = self.says().await {
            if said == step {
                return true;
            }
        }
        false
    }

    /// SIGKILL, whatever it is doing.
    async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }

    /// Lets it go on to its end, and gives all that it says.
    async fn outcome(mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(said) = self.says().await {
            all.push(said);
        }
        assert!(self.process.wait().await.unwrap().success(), "{all:?}");
        all
    }
}

/// When a buyer is killed.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// While it stands at a step.
    At(&'static str),
    /// Some time after it went through that step.
    After(&'static str),
}

async fn dies(buyer: &Buyer, seller: &ForeignSeller, url: &str, death: Death) {
    match death {
        Death::At(step) => {
            let mut running = Running::start(buyer, seller, url, step);
            let _ = running.comes_to(step).await;
            running.kill().await;
        }
        Death::After(step) => {
            let mut running = Running::start(buyer, seller, url, "");
            let _ = running.comes_to(step).await;
            let life = rand::rng().random_range(0..1_500);
            sleep(Duration::from_millis(life)).await;
            running.kill().await;
        }
    }
}

/// One purchase, whose buyer dies these deaths and then lives.
async fn purchase(world: &World, seller: &ForeignSeller, buyer: &Buyer, number: usize, deaths: &[Death]) -> String {
    let url = format!("{}?purchase={number}", seller.url(WEATHER));
    let before = seller.earned(world).await;
    for death in deaths {
        dies(buyer, seller, &url, *death).await;
    }
    let said = Running::start(buyer, seller, &url, "").outcome().await;
    let outcome = said.last().cloned().unwrap_or_default();
    let what = format!("{:?}, {deaths:?}: {said:?}", seller.make);
    // One that was there, and was recorded so, is bought once more by those who were killed before they used it.
    let reads = 1 + deaths.iter().filter(|death| matches!(death, Death::At("answered") | Death::After(_))).count();
    let charged = seller.earned(world).await - before;
    let entries = entries_of(buyer, before, charged).await;
    assert!(charged <= reads as u128 * CHEAP, "{what}: charged {charged}");
    match outcome.split_once(' ').unwrap_or_default() {
        ("got", _) => assert!(charged >= CHEAP, "{what}"),
        ("lost", transaction) => {
            let receipt = world.chain.receipt(transaction.parse().unwrap()).await.unwrap().unwrap();
            assert_eq!((&receipt["status"], charged >= CHEAP), (&"0x1".into(), true), "{what}");
        }
        // It gives no answer twice, and says so by failing: the payment stays the only one.
        ("outstanding", transaction) if seller.make == Make::Mppx => {
            let receipt = world.chain.receipt(transaction.parse().unwrap()).await.unwrap().unwrap();
            assert_eq!((&receipt["status"], charged), (&"0x1".into(), CHEAP), "{what}");
        }
        _ => panic!("{what}"),
    }
    assert!(entries, "{what}: as many charges as purchases");
    outcome.split(' ').next().unwrap().to_owned()
}

/// Whether each charge so far is of one purchase of the journal, which knows that it was made.
async fn entries_of(buyer: &Buyer, before: u128, charged: u128) -> bool {
    let entries = buyer.entries().await;
    let made = |state| matches!(state, PurchaseState::Answered | PurchaseState::Redeeming);
    let signed = entries.iter().filter(|entry| entry.authorization().is_some());
    signed.filter(|entry| made(entry.state)).count() as u128 * CHEAP == before + charged
}

async fn killed(make: Make, deaths: impl IntoIterator<Item = Vec<Death>>) {
    let Some((world, seller, buyer)) = open(make).await else { return };
    let mut outcomes = BTreeMap::<String, usize>::new();
    for (number, deaths) in deaths.into_iter().enumerate() {
        *outcomes.entry(purchase(&world, &seller, &buyer, number, &deaths).await).or_default() += 1;
    }
    let (signed, earned) = (buyer.entries().await.len(), seller.earned(&world).await / CHEAP);
    println!("{make:?}: {outcomes:?}, {signed} signatures, {earned} charges, {} runs", seller.runs(WEATHER).await);
}

fn at_each_step() -> impl Iterator<Item = Vec<Death>> {
    STEPS.into_iter().map(|step| vec![Death::At(step)])
}

/// Again and again, at any moment after the signature was recorded.
fn at_any_moment(purchases: usize) -> impl Iterator<Item = Vec<Death>> {
    (0..purchases).map(|number| {
        let after = if number % 2 == 0 { "redeeming" } else { "authorized" };
        vec![Death::After(after), Death::At("redeeming")]
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_that_is_killed_at_express_pays_once() {
    killed(Make::Express, at_each_step().chain(at_any_moment(4))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_that_is_killed_at_fastapi_pays_once() {
    killed(Make::FastApi, at_each_step().chain(at_any_moment(4))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_that_is_killed_at_version_1_pays_once() {
    killed(Make::ExpressV1, at_each_step().chain(at_any_moment(2))).await;
}

/// mppx gives no answer twice: where one was on its way, the buyer knows the transaction that paid for it, and pays no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_that_is_killed_at_mppx_pays_once() {
    killed(Make::Mppx, at_each_step().chain(at_any_moment(2))).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: run it by name, with --ignored --nocapture"]
async fn in_sixty_purchases_with_a_hundred_kills_each_is_paid_once() {
    killed(Make::Express, at_each_step().chain(at_any_moment(56))).await;
}
