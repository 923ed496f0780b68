//! A facilitator that misbehaves costs nobody anything: what was charged can be had, and what was not charged is not given.

use std::time::Duration;

use super::{
    PATIENT, PRICE, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
    seller::{facilitated, merchant, show},
};
use crate::served::shop::{Answer, INSIGHTS, Shop};

struct Stage {
    world: World,
    facilitator: Facilitator,
    shop: Shop,
}

impl Stage {
    async fn new() -> Option<Self> {
        let world = World::with(Token::Circles).await?;
        let facilitator = Facilitator::start(&world).await;
        let shop = Shop::open(merchant(&world).await.settler(facilitated(&facilitator))).await;
        Some(Self { world, facilitator, shop })
    }

    /// A payment that is shown while the facilitator has this fault, and then until it is answered, without the fault.
    async fn sell_through(&self, fault: &str, expected: &[(u16, &str)]) {
        let before = (self.world.balance(SELLER).await, self.shop.runs());
        let signature = Client::sign(&self.world, Order::post(&self.shop.url(INSIGHTS), question())).await;
        self.facilitator.fault(fault).await;
        let first = self.show(&signature).await;
        let told = (first.status, first.code());
        assert!(expected.contains(&told), "{fault}: {told:?} {}", first.body);
        if told.1 == "verification_unavailable" {
            assert_eq!(self.shop.runs(), before.1, "{fault}: nothing runs for a payment that is not checked");
        }
        let leaked = first.body.to_string() + &format!("{:?}", first.headers);
        assert!(!leaked.contains("secret") && !leaked.contains("perhaps"), "{fault}: {leaked}");

        self.facilitator.fault("").await;
        let sold = if first.status == 200 { first } else { self.show_until_sold(fault, &signature).await };
        assert_eq!(sold.taken()["amount"], PRICE.to_string());
        assert_eq!(self.world.balance(SELLER).await, before.0 + PRICE, "{fault}: charged once");
        let again = self.show(&signature).await;
        assert_eq!((again.status, again.code()), (409, "already_consumed"), "{fault}");
    }

    async fn show(&self, signature: &str) -> Answer {
        show(&self.shop, INSIGHTS, &question(), signature).await
    }

    async fn show_until_sold(&self, fault: &str, signature: &str) -> Answer {
        let deadline = tokio::time::Instant::now() + 2 * PATIENT;
        loop {
            let answer = self.show(signature).await;
            if answer.status == 200 {
                return answer;
            }
            assert!(tokio::time::Instant::now() < deadline, "{fault}: {} {}", answer.status, answer.body);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

const UNKNOWN: (u16, &str) = (503, "outcome_unknown");
const SOLD: (u16, &str) = (200, "");

#[tokio::test]
async fn one_that_settles_and_does_not_say_so() {
    let Some(stage) = Stage::new().await else { return };
    for fault in ["settles-and-hangs", "settles-and-errs", "settles-and-babbles", "settles-and-says-refused"] {
        stage.sell_through(fault, &[SOLD, UNKNOWN]).await;
    }
}

#[tokio::test]
async fn one_that_does_not_settle_and_says_so_or_not() {
    let Some(stage) = Stage::new().await else { return };
    stage.sell_through("says-refused", &[(402, "authorization_refused")]).await;
    stage.sell_through("says-failed", &[UNKNOWN]).await;
    stage.sell_through("says-settled", &[UNKNOWN]).await;
}

#[tokio::test]
async fn one_that_gives_no_answer() {
    let Some(stage) = Stage::new().await else { return };
    for fault in ["hangs", "drops", "redirects", "floods"] {
        stage.sell_through(fault, &[(503, "verification_unavailable")]).await;
    }
}
