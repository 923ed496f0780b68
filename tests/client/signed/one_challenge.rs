//! One challenge is one nonce: of all who would pay it, one signs.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Barrier, time::timeout};
use tower_x402::{
    client::{BudgetDenial, PayLayer, PurchaseState},
    protocol::Amount,
};

use super::{
    mpp::{Challenge, payments, read, receipt, settled},
    *,
};
use crate::rig::{Diary, Slip};

/// A seller that asks everyone for the same, as a cache on the way does.
fn cached(market: &Market, challenge: &str) -> Seller {
    let chain = market.shop.chain.clone();
    let challenge = Challenge { amount: "1".to_owned(), ..Challenge::new(challenge) };
    Seller::new(move |asked| match read(&asked.headers) {
        Some((_, signed)) => receipt(settled(&chain, &signed)),
        None => challenge.reply(),
    })
}

/// Whether one of several calls at once was answered. Where it was not, nothing was signed for it.
async fn is_answered(layer: PayLayer, seller: Seller, start: Arc<Barrier>, what: usize) -> bool {
    start.wait().await;
    match ask(&layer, &seller, question(&format!("[{what}]"))).await {
        Ok(got) => got.text == "the answer",
        Err(error) => {
            let said = (error.denial(), error.money(), error.purchase());
            assert_eq!(said, (Some(BudgetDenial::IntentReused), Money::Untouched, None), "{error}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_calls_at_once_one_pays_a_challenge() {
    const ROUNDS: usize = 300;
    let market = Market::open().await;
    let layer = market.layer().await;
    for round in 0..ROUNDS {
        let seller = cached(&market, &format!("challenge-{round}"));
        let start = Arc::new(Barrier::new(2));
        let calls = [0, 1]
            .map(|call| tokio::spawn(is_answered(layer.clone(), seller.clone(), Arc::clone(&start), 2 * round + call)));
        let mut answered = 0;
        for call in calls {
            answered += usize::from(call.await.unwrap());
        }
        assert_eq!((answered, payments(&seller), market.wallet.authorizations_signed()), (1, (1, 1), round + 1));
    }
    let entries = market.journal.entries();
    assert!(entries.len() == ROUNDS && entries.iter().all(|entry| entry.state == PurchaseState::Answered));
    assert_eq!(layer.spent(), Amount::from_base_units(ROUNDS as u128), "what is not paid is given back");
}

/// What no seller was shown leaves the challenge to the next call; what may be in the journal does not.
#[tokio::test(start_paused = true)]
async fn a_challenge_is_free_again_where_its_signature_was_not_recorded() {
    for (slip, is_free) in [(Slip::Fails, true), (Slip::HangsWritten, false)] {
        let market = Market::open().await;
        let diary = Diary::of(market.journal.clone()).slip(1, slip);
        let layer = market.layer_with(|builder| builder.journal(diary)).await;
        let seller = cached(&market, "challenge");
        let left = timeout(Duration::from_secs(60), ask(&layer, &seller, question("[1]"))).await;
        assert!(!matches!(left, Ok(Ok(_))) && payments(&seller) == (0, 0), "{slip:?}: {left:?}");
        match ask(&layer, &seller, question("[2]")).await {
            Ok(got) => assert_eq!((got.text.as_str(), is_free), ("the answer", true), "{slip:?}"),
            Err(error) => assert_eq!((error.denial(), is_free), (Some(BudgetDenial::IntentReused), false), "{error}"),
        }
        assert_eq!(payments(&seller).0, usize::from(is_free), "{slip:?}");
    }
}
