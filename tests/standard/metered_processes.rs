//! Two processes sell metered answers on one SQLite file: a permit that both are shown is charged once, and what one of them left behind when
//! it was killed, the other one answers.

use std::{env, path::Path, process::Stdio, time::Duration};

use axum::Router;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};
use tower_x402::{
    Merchant,
    ledger::AnyLedger,
    protocol::{Amount, SealingKeys},
    settle::{FacilitatorSettler, WalletSettler},
    verify::EvmVerifier,
};

use super::{
    PATIENT, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    metered::{EACH, allow, wish},
};
use crate::{metered_example::router, served::shop::client};

const VARIABLES: [&str; 3] = ["X402_TEST_METERED_RPC", "X402_TEST_METERED_FOLDER", "X402_TEST_METERED_SETTLER"];
const MARK: &str = "metered: ";
/// Of the sellers here, so that no test waits for a minute.
const LEASE: Duration = Duration::from_secs(4);

/// Not a test of its own: the seller that the tests below start.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(rpc) = env::var(VARIABLES[0]) else { return };
    let [folder, settler] = [1, 2].map(|at| env::var(VARIABLES[at]).unwrap());
    let ledger = format!("sqlite:{folder}/metered.db");
    let builder = Merchant::builder(SELLER)
        .verifier(EvmVerifier::builder().endpoints([&rpc]).connect().await.unwrap())
        .ledger(AnyLedger::open(&ledger).await.unwrap())
        .sealing_keys(SealingKeys::new([7; 32]))
        .lease(LEASE);
    let builder = if settler.starts_with("http") {
        let limit = Duration::from_secs(3);
        let facilitator = FacilitatorSettler::builder().url(&settler).settle_timeout(limit).verify_timeout(limit);
        builder.permit_settler(facilitator.build().unwrap())
    } else {
        builder.permit_settler(WalletSettler::builder().key(&settler).endpoint(&rpc).connect().await.unwrap())
    };
    let app: Router = router(&builder.build().await.unwrap(), false).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{MARK}http://{}", listener.local_addr().unwrap());
    axum::serve(listener, app).await.unwrap();
}

/// A seller in a process of its own.
struct Seller {
    url: String,
    process: Child,
}

impl Seller {
    async fn start(world: &World, folder: &Path, settler: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "metered_processes::as_a_child", "--nocapture"]);
        command.envs(VARIABLES.into_iter().zip([world.chain.rpc_url(), folder.to_str().unwrap(), settler]));
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut printed = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = timeout(PATIENT, async {
            loop {
                let line = printed.next_line().await.unwrap().expect("it runs");
                if let Some((_, url)) = line.split_once(MARK) {
                    return url.to_owned();
                }
            }
        });
        Self { url: url.await.expect("it listens"), process }
    }

    fn words(&self) -> String {
        format!("{}/words", self.url)
    }

    async fn show(&self, header: &str) -> Option<(u16, Option<String>, Value)> {
        let request = client().post(self.words()).json(&wish("a b c", 4)).header("payment-signature", header);
        let answer = request.send().await.ok()?;
        let code = answer.headers().get("x402-error").map(|code| code.to_str().unwrap().to_owned());
        Some((answer.status().as_u16(), code, answer.json().await.unwrap_or_default()))
    }
}

async fn world() -> Option<World> {
    let world = World::with(Token::Ours).await?;
    allow(&world, world.chain.usdc(), Amount::MAX).await;
    Some(world)
}

/// Of twenty showings at both at once, one is answered; each of the others is told to wait, that it is sold, or, by a process with a key of its
/// own, that the permit is not for it.
async fn charges_once(world: &World, settlers: [&str; 2], others: &[u16]) {
    let folder = tempfile::tempdir().unwrap();
    let sellers = [
        Seller::start(world, folder.path(), settlers[0]).await,
        Seller::start(world, folder.path(), settlers[1]).await,
    ];
    let url = sellers[0].words();
    let header = Client::sign(world, Order::post(&url, wish("a b c", 4))).await;
    let shows = (0..20).map(|number| sellers[number % 2].show(&header));
    let answers: Vec<_> = futures_util::future::join_all(shows).await.into_iter().map(Option::unwrap).collect();
    let sold = answers.iter().filter(|(status, ..)| *status == 200).count();
    assert!(sold <= 1, "{answers:?}");
    assert!(answers.iter().all(|(status, ..)| *status == 200 || others.contains(status)), "{answers:?}");
    if sold == 0 {
        // The process whose key may not settle it held it meanwhile, to refuse it.
        assert!(others.contains(&402), "{answers:?}");
        assert_eq!(sellers[0].show(&header).await.unwrap().0, 200);
    }
    assert_eq!(world.balance(SELLER).await, 4 * EACH);
    // And none later.
    for seller in &sellers {
        let (status, ..) = seller.show(&header).await.unwrap();
        assert!(others.contains(&status), "{status}");
    }
    assert_eq!(world.balance(SELLER).await, 4 * EACH);
}

#[tokio::test]
async fn over_one_facilitator_a_permit_shown_to_two_processes_is_charged_once() {
    let Some(world) = world().await else { return };
    let facilitator = Facilitator::start(&world).await;
    charges_once(&world, [facilitator.url(), facilitator.url()], &[409]).await;
    assert_eq!(facilitator.calls("/settle").await, 1);
}

#[tokio::test]
async fn with_a_key_for_each_a_permit_shown_to_two_processes_is_charged_once() {
    let Some(world) = world().await else { return };
    let other = world.chain.accounts()[3].private_key();
    charges_once(&world, [world.settler().private_key(), other], &[409, 402]).await;
}

/// One process is killed while the facilitator has this fault, and the other one is shown the same permit.
async fn the_other_process_answers(fault: &str) {
    let Some(world) = world().await else { return };
    let facilitator = Facilitator::start(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let mut first = Seller::start(&world, folder.path(), facilitator.url()).await;
    let second = Seller::start(&world, folder.path(), facilitator.url()).await;
    let url = first.words();
    let header = Client::sign(&world, Order::post(&url, wish("a b c", 4))).await;
    facilitator.fault(fault).await;
    let shown = tokio::spawn({
        let (url, header) = (first.words(), header.clone());
        async move {
            let request = client().post(url).json(&wish("a b c", 4)).header("payment-signature", header);
            request.send().await.map(|answer| answer.status().as_u16())
        }
    });
    settling(&world, &facilitator, fault).await;
    first.process.kill().await.unwrap();
    facilitator.fault("").await;
    assert!(shown.await.unwrap().is_err(), "{fault}: the connection broke");
    let mut answered = None;
    for _ in 0..300 {
        match second.show(&header).await.unwrap() {
            (200, _, body) => {
                answered = Some(body);
                break;
            }
            (status, code, body) => assert!([409, 503].contains(&status), "{fault}: {status} {code:?} {body}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
    let body = answered.unwrap_or_else(|| panic!("{fault}: no answer"));
    assert_eq!(body["words"].as_array().unwrap().len(), 4, "{fault}");
    assert_eq!(world.balance(SELLER).await, 4 * EACH, "{fault}: one charge");
    assert_eq!(second.show(&header).await.unwrap().0, 409, "{fault}");
    assert_eq!(world.balance(SELLER).await, 4 * EACH, "{fault}");
}

/// The charge is made, and its seller has not heard of it.
#[tokio::test]
async fn a_charge_that_a_killed_process_left_buys_its_answer_at_the_other_one() {
    the_other_process_answers("settles-and-hangs").await;
}

#[tokio::test]
async fn a_permit_that_a_killed_process_left_is_charged_by_the_other_one() {
    the_other_process_answers("hangs").await;
}

/// Waits until the facilitator was asked to settle, and has settled where it does; or asked to verify, where it hangs at once.
async fn settling(world: &World, facilitator: &Facilitator, fault: &str) {
    for _ in 0..200 {
        let is_asked = match fault {
            "hangs" => facilitator.calls("/verify").await > 0,
            _ => world.balance(SELLER).await > 0,
        };
        if is_asked {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("{fault}: it is not asked");
}
