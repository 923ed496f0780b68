//! SECURITY rows 43 and 47: an answer that was sold and did not arrive is delivered when it is asked for again. Over real HTTP, on
//! every ledger.

mod payer;
mod rig;
mod seller;
mod unsure;
mod wire;

use std::sync::Arc;

use reqwest::Response;
use rig::Rig;
use tokio::sync::Notify;

use crate::{
    kinds::{Kind, Place},
    served::market::{Market, PRICE},
};

/// The table there is what the tests see.
const SECURITY: &str = include_str!("../../repository/threats.md");
const KINDS: [(&str, Option<Kind>); 4] = [
    ("memory", None),
    ("SQLite", Some(Kind::Sqlite)),
    ("PostgreSQL", Some(Kind::Postgres)),
    ("Redis", Some(Kind::Redis)),
];

/// How an answer gets lost between its sale and its payer.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Cut,
    Unconfirmed,
    KilledBefore,
    KilledAmid,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Cut, Self::Unconfirmed, Self::KilledBefore, Self::KilledAmid];

    const fn name(self) -> &'static str {
        match self {
            Self::Cut => "connection cut in mid-body",
            Self::Unconfirmed => "commit applied, its confirmation lost",
            Self::KilledBefore => "`kill -9` between the commit and the first byte",
            Self::KilledAmid => "`kill -9` in mid-body",
        }
    }
}

/// What arrived of an answer.
struct Arrived {
    /// `None` where the connection ended before there was one.
    status: Option<u16>,
    code: String,
    payment: Option<String>,
    replayed: bool,
    body: Vec<u8>,
    whole: bool,
}

impl Arrived {
    const NOTHING: Self =
        Self { status: None, code: String::new(), payment: None, replayed: false, body: Vec::new(), whole: false };

    /// Reads what comes.
    async fn of(mut response: Response) -> Self {
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (code, payment) = (header("x402-error").unwrap_or_default(), header("payment-response"));
        let replayed = header("idempotent-replayed").is_some_and(|value| value == "true");
        let (status, mut body) = (Some(response.status().as_u16()), Vec::new());
        let whole = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Self { status, code, payment, replayed, body, whole }
    }

    /// In the words of the table.
    fn words(&self, answer: &[u8]) -> String {
        match (self.status, self.whole) {
            (None, _) => "nothing".to_owned(),
            (Some(200), true) if self.body == answer && self.replayed => "the same answer".to_owned(),
            (Some(200), false) if answer.starts_with(&self.body) && !self.replayed => "a part of the answer".to_owned(),
            (Some(200), _) => format!("{} other bytes", self.body.len()),
            _ => format!("`{}`", self.code),
        }
    }
}

impl Rig {
    /// Sells an answer that gets lost; tells what arrived of it, and what the same pair is given afterwards: at once, beside forgers,
    /// after a payer crashed at the last step with the answer in memory, and by a seller that was killed and started again.
    async fn lose(&mut self, loss: Loss) -> [Arrived; 5] {
        let (intent, payment) = (self.intent().await, self.market.pay(PRICE).await);
        let first = match loss {
            Loss::Cut => {
                let cut = wire::stopping_behind(self.address(), seller::LENGTH / 2, None).await;
                Arrived::of(self.present_at(&cut, &intent, payment).await).await
            }
            Loss::Unconfirmed => {
                self.tell(unsure::UNCONFIRMED);
                let answer = Arrived::of(self.present(&intent, payment).await).await;
                self.tell_no_more(unsure::UNCONFIRMED);
                answer
            }
            Loss::KilledBefore => {
                self.tell(unsure::STUCK);
                let (presented, ()) = tokio::join!(self.try_to_present(&intent, payment), async {
                    self.has_told(unsure::COMMITTED).await;
                    self.kill();
                });
                assert!(presented.is_err(), "it was answered");
                self.tell_no_more(unsure::STUCK);
                Arrived::NOTHING
            }
            Loss::KilledAmid => {
                let killed = Arc::new(Notify::new());
                let slow = wire::stopping_behind(self.address(), seller::LENGTH / 2, Some(Arc::clone(&killed))).await;
                let begun = self.present_at(&slow, &intent, payment).await;
                self.kill();
                killed.notify_one();
                Arrived::of(begun).await
            }
        };
        if matches!(loss, Loss::KilledBefore | Loss::KilledAmid) {
            self.restart().await;
        }
        let then = Arrived::of(self.present(&intent, payment).await).await;
        let forged = self.beside_forgers(&intent, payment).await;
        self.crash_with_the_answer(&intent, payment).await;
        let crashed = Arrived::of(self.present(&intent, payment).await).await;
        self.kill();
        self.restart().await;
        [first, then, forged, crashed, Arrived::of(self.present(&intent, payment).await).await]
    }
}

async fn nothing_sold_is_lost(name: &str, kind: Option<Kind>) {
    let place = match kind {
        Some(kind) => match Place::new(kind).await {
            Some(place) => Some(place),
            None => return,
        },
        None => None,
    };
    let address = place.as_ref().map_or("memory", Place::address);
    let mut rig = Rig::start(Market::new().await, address).await;
    for loss in Loss::ALL {
        let before = rig.runs();
        let arrived = rig.lose(loss).await;
        let runs = rig.runs() - before;
        let answer = seller::answer(before + 1);
        let payments: Vec<_> = arrived.iter().filter_map(|arrived| arrived.payment.as_ref()).collect();
        assert!(payments.windows(2).all(|pair| pair[0] == pair[1]), "{payments:?}");
        let words = arrived.map(|arrived| arrived.words(&answer)).join(" | ");
        let row = format!("| {} | {name} | {words} | {runs} |", loss.name());
        println!("{row}");
        assert!(SECURITY.contains(&row), "threats.md does not say {row}");
    }
    drop(rig);
    if let Some(place) = place {
        place.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_memory_sold_is_delivered_again_until_the_process_ends() {
    nothing_sold_is_lost(KINDS[0].0, KINDS[0].1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sqlite_recorded_is_delivered_again() {
    nothing_sold_is_lost(KINDS[1].0, KINDS[1].1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_recorded_is_delivered_again() {
    nothing_sold_is_lost(KINDS[2].0, KINDS[2].1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_recorded_is_delivered_again() {
    nothing_sold_is_lost(KINDS[3].0, KINDS[3].1).await;
}

/// Each way on each ledger, once: the tests above look for their own rows.
#[test]
fn the_table_has_every_row_and_no_other() {
    for loss in Loss::ALL {
        let rows: Vec<_> = SECURITY.lines().filter(|line| line.starts_with(&format!("| {} |", loss.name()))).collect();
        let of = |(name, _)| rows.iter().filter(|row| row.contains(&format!("| {name} |"))).count();
        assert_eq!((rows.len(), KINDS.map(of)), (4, [1; 4]), "{rows:#?}");
    }
}
