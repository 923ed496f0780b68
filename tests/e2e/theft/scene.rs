//! One theft: a payment, its payer, and thieves who see all that is public.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tower_x402::protocol::{PaymentTag, TxHash};

use super::payments::{PAYER, Payment, THIEF, signature};
use crate::{
    market::Market,
    shop::{Answer, INSIGHTS, Shop},
};

/// How many thieves there are where all come at once.
const CROWD: usize = 6;
/// How long a seller holds an unbound payment who does.
pub const HOLD: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    ThiefFirst,
    PayerFirst,
    AtOnce,
}

impl Order {
    pub const ALL: [Self; 3] = [Self::ThiefFirst, Self::PayerFirst, Self::AtOnce];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ThiefFirst => "thief first",
            Self::PayerFirst => "payer first",
            Self::AtOnce => "at once",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Party {
    Payer,
    Thief,
}

/// What came of one theft.
#[derive(Debug, PartialEq)]
pub struct Fate {
    /// `None`: nobody.
    pub answered: Option<Party>,
    /// What the others were told, one after the other.
    pub told: String,
}

/// One theft: a payment, its payer, and a thief who sees all that is public.
pub struct Scene<'a> {
    market: &'a Market,
    shop: &'a Shop,
    order: Order,
    transaction: TxHash,
    payer: Claimant,
    thieves: Vec<Claimant>,
}

/// One who wants the answer.
struct Claimant {
    intent: String,
    shows: Value,
    told: Vec<String>,
    answered: bool,
}

impl Claimant {
    fn new(intent: String, shows: Value) -> Self {
        Self { intent, shows, told: Vec::new(), answered: false }
    }

    /// Presents the transaction, unless it has the answer already.
    async fn present(&mut self, shop: &Shop, transaction: TxHash) {
        if self.answered {
            return;
        }
        let mut proof = json!({ "query": "why", "intentId": self.intent, "txHash": transaction.to_string() });
        proof.as_object_mut().unwrap().extend(self.shows.as_object().unwrap().clone());
        let answer = shop.post(INSIGHTS, &proof).await;
        if answer.status == 200 {
            assert_eq!(answer.sold()["intent"], self.intent);
            self.answered = true;
        } else {
            self.hear(answer);
        }
    }

    fn hear(&mut self, answer: Answer) {
        let code = format!("`{}`", answer.code());
        let _ = answer.refused(code.trim_matches('`'));
        // While another has it in hand: asked again later, it is told what became of it.
        if code != "`redemption_in_progress`" && self.told.last() != Some(&code) {
            self.told.push(code);
        }
    }
}

impl<'a> Scene<'a> {
    /// Everybody has a quote; the payer pays for its own.
    pub async fn set(market: &'a Market, shop: &'a Shop, payment: Payment, order: Order) -> Self {
        let intent = shop.intent(INSIGHTS).await;
        let transaction = payment.send(market, &intent).await;
        market.block().await;
        let tag = PaymentTag::of(&intent).to_string();
        let shown = payment.shown(market, &intent, transaction);
        let mut scene =
            Self { market, shop, order, transaction, payer: Claimant::new(intent, shown), thieves: Vec::new() };
        let many = if order == Order::AtOnce { CROWD } else { 2 };
        for number in 0..many {
            // With nothing, and with what the chain shows of the payer's secret.
            let shows = if number % 2 == 0 { json!({}) } else { json!({ "paymentSecret": tag }) };
            scene.thieves.push(Claimant::new(shop.intent(INSIGHTS).await, shows));
        }
        scene
    }

    /// Everybody presents, in that order.
    async fn act(&mut self) {
        let Self { shop, transaction, payer, thieves, order, .. } = self;
        if *order == Order::PayerFirst {
            payer.present(shop, *transaction).await;
        }
        if *order == Order::AtOnce {
            join_all(std::iter::once(payer).chain(thieves).map(|party| party.present(shop, *transaction))).await;
            return;
        }
        for thief in thieves {
            thief.present(shop, *transaction).await;
        }
        if *order == Order::ThiefFirst {
            payer.present(shop, *transaction).await;
        }
    }

    /// A signature that is not the payer's opens nothing, at any time.
    async fn forge(&self) {
        let Claimant { intent, .. } = &self.thieves[0];
        for forged in [
            signature(self.market, THIEF, intent, self.transaction),
            signature(self.market, PAYER, &self.payer.intent, self.transaction),
        ] {
            let mut thief = Claimant::new(intent.clone(), forged);
            thief.present(self.shop, self.transaction).await;
            assert_eq!((thief.answered, thief.told), (false, vec!["`invalid_signature`".to_owned()]));
        }
    }

    pub async fn play(mut self) -> Fate {
        self.forge().await;
        // At once, and again when nothing is held any more.
        self.act().await;
        self.market.block_at(self.market.now().await + HOLD.as_secs()).await;
        self.act().await;
        // Who came while another had it in hand asks once more.
        self.act().await;
        self.fate().await
    }

    async fn fate(self) -> Fate {
        let stolen = self.thieves.iter().filter(|thief| thief.answered).count();
        assert!(stolen + usize::from(self.payer.answered) <= 1, "one payment, one answer");
        let (payer_told, thieves_told) = (self.payer.told.join(", "), self.told_to_thieves());
        let (answered, told) = match (self.payer.answered, stolen) {
            (true, _) => (Some(Party::Payer), thieves_told),
            (false, 1) => (Some(Party::Thief), payer_told),
            _ => {
                assert_eq!(payer_told, thieves_told);
                self.sign_after_all().await;
                (None, payer_told)
            }
        };
        Fate { answered, told }
    }

    /// The payment is as good as before.
    async fn sign_after_all(self) {
        let signature = signature(self.market, PAYER, &self.payer.intent, self.transaction);
        let mut payer = Claimant::new(self.payer.intent, signature);
        payer.present(self.shop, self.transaction).await;
        assert!(payer.answered, "{:?}", payer.told);
    }

    /// The same to each: what they add to their hash changes nothing.
    fn told_to_thieves(&self) -> String {
        let refused = self.thieves.iter().filter(|thief| !thief.answered);
        let mut told: Vec<_> = refused.map(|thief| thief.told.join(", ")).collect();
        told.dedup();
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }
}
