//! What our own client is charged for one purchase, whatever the seller's facilitator does: it asks until the fault is over, and has its
//! answer for one signature and one price.

use std::{collections::BTreeSet, time::Duration};

use http::{Request, header::CONTENT_TYPE};
use tokio::{join, time::sleep};
use tower_x402::{
    client::{Body, PayLayer, PurchaseState, Standard},
    protocol::TxHash,
    settle::FacilitatorSettler,
};

use super::{
    PRICE, SELLER, Token, World,
    charged::FAULTS,
    facilitator::Facilitator,
    foreign::paying::{Buyer, Got, buy},
    question,
    seller::merchant,
};
use crate::served::shop::{INSIGHTS, Shop};

/// The seller waits for a minute for a settlement that was invented.
const LONGEST: &str = "says-settled";
/// How long a fault lasts.
const ILL: Duration = Duration::from_secs(2);
/// How often a purchase is asked for.
const CALLS: usize = 3;

/// A shop whose lease and time limits are short, over a facilitator of its own.
struct Stage {
    facilitator: Facilitator,
    shop: Shop,
}

impl Stage {
    async fn new(world: &World) -> Self {
        let facilitator = Facilitator::start(world).await;
        let limit = Duration::from_secs(3);
        let settler = FacilitatorSettler::builder().url(facilitator.url()).settle_timeout(limit).verify_timeout(limit);
        let merchant = merchant(world).await.settler(settler.build().unwrap()).lease(limit).mpp("api.example.com");
        Self { shop: Shop::open(merchant).await, facilitator }
    }

    /// Both buy while the facilitator has that fault, and until there is an answer.
    async fn sells(&self, fault: &str, buyers: [&PayLayer; 2]) -> [TxHash; 2] {
        self.facilitator.fault(fault).await;
        let heals = async {
            sleep(ILL).await;
            self.facilitator.fault("").await;
        };
        let [one, other] = buyers.map(|layer| self.answer(fault, layer));
        let (one, other, ()) = join!(one, other, heals);
        [one, other].map(|got| {
            let purchase = got.purchase.as_ref().unwrap();
            assert!((got.status, purchase.confirmed, purchase.sent) == (200, true, 1), "{fault}: {got:?}");
            purchase.transaction.unwrap()
        })
    }

    /// The answer to the first call that has one. Those before it end in errors after which the same request goes on.
    async fn answer(&self, fault: &str, layer: &PayLayer) -> Got {
        let url = format!("{}?{fault}", self.shop.url(INSIGHTS));
        for call in 1..=CALLS {
            let request = Request::post(&url).header(CONTENT_TYPE, "application/json");
            match buy(layer, request.body(Body::from(question().to_string())).unwrap()).await {
                Ok(got) => return got,
                Err(error) => assert!(error.is_resumable(), "{fault}, call {call}: {error}"),
            }
            sleep(ILL).await;
        }
        panic!("{fault}: no answer");
    }
}

#[tokio::test]
async fn our_own_client_is_charged_once_and_answered() {
    let Some(world) = World::with(Token::Circles).await else { return };
    let buyers = [Buyer::of(&world).await, Buyer::of(&world).await];
    let by = |standard| move |builder: tower_x402::client::PayLayerBuilder| builder.standards([standard]);
    let x402 = buyers[0].layer_with(by(Standard::X402)).await;
    let mpp = buyers[1].layer_with(by(Standard::Mpp)).await;
    let layers = [&x402, &mpp];

    let (slow, quick) = (Stage::new(&world).await, Stage::new(&world).await);
    let quickly = async {
        let mut transactions = Vec::new();
        for (fault, _) in FAULTS.into_iter().filter(|(fault, _)| *fault != LONGEST) {
            transactions.extend(quick.sells(fault, layers).await);
        }
        transactions
    };
    let (mut transactions, last) = join!(quickly, slow.sells(LONGEST, layers));
    transactions.extend(last);

    // Each purchase is paid, and nothing is paid beside them.
    let purchases = 2 * FAULTS.len();
    assert_eq!(transactions.iter().collect::<BTreeSet<_>>().len(), purchases);
    for transaction in transactions {
        assert_eq!(world.chain.receipt(transaction).await.unwrap().unwrap()["status"], "0x1");
    }
    assert_eq!(world.balance(SELLER).await, purchases as u128 * PRICE);
    drop((x402, mpp));
    for (buyer, standard) in buyers.iter().zip([Standard::X402, Standard::Mpp]) {
        let entries = buyer.entries().await;
        assert_eq!(entries.len(), FAULTS.len(), "{standard:?}: one signature for each purchase");
        for entry in entries {
            assert_eq!((entry.state, entry.standard()), (PurchaseState::Answered, Some(standard)));
        }
    }
}
