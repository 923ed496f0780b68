//! Many payments in one transaction: each buys an answer, and none keeps the ledger from others.

use std::time::Duration;

use tower_x402::{
    ledger::{Claim, Ledger as _, ReserveOutcome},
    protocol::{Amount, Asset, Binding, ChainTime, IntentKey, Network, Payment, Transfer, TxHash},
};

use crate::{
    standard::Stall,
    support::{
        Counter, NOW, Shop, ask, assert_problem, echo,
        faults::{Op, quoted, start},
        hanging, layered, payer, recipient, redemption,
    },
};

const HASH: TxHash = TxHash::new([0xbb; 32]);
const PAYMENTS: u32 = 100;
/// The most of which a ledger is asked at once.
const AT_ONCE: usize = 32;

/// The smallest first, which is the last in the receipt.
fn paid(place: u32) -> Transfer {
    Transfer::new(Network::BASE, HASH, PAYMENTS - place)
        .with_token(Asset::USDC_BASE.contract())
        .with_payer(payer())
        .with_recipient(recipient())
        .with_amount(Amount::from_base_units(490_000 + u128::from(place)))
        .with_block(1, ChainTime::from_unix(NOW))
}

async fn shop() -> Shop {
    let shop = Shop::open().await;
    shop.chain.mine(HASH, (0..PAYMENTS).map(paid));
    shop
}

/// Holds the payments of these places for other intents, or sells them.
async fn take(shop: &Shop, places: impl Iterator<Item = u32>, sells: bool) {
    for place in places {
        let claim = Claim::builder("answer", IntentKey::new([u8::try_from(place).unwrap(); 16]))
            .payments([paid(place)])
            .pay_until(ChainTime::from_unix(NOW))
            .head(ChainTime::from_unix(NOW))
            .lease(Duration::from_secs(600));
        let Ok(ReserveOutcome::Granted(lease)) = shop.ledger.reserve(&claim.build()).await else {
            panic!("{place} is free")
        };
        if sells {
            let _ = shop.ledger.commit(&lease, None).await.unwrap();
        }
    }
}

/// Of any length: a stranger makes one transaction, and shows it as often as they like.
#[tokio::test]
async fn a_ledger_is_asked_of_a_few_payments_at_once() {
    let shop = shop().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    take(&shop, 0..PAYMENTS, true).await;
    let intent = quoted(&service).await;
    assert_problem(ask(&service, redemption(&intent, HASH)).await, 409, "tx_already_used").await;
    assert!(shop.faults.widest() <= AT_ONCE, "{}", shop.faults.widest());
}

/// Nothing that is known of its payments would change the answer.
#[tokio::test]
async fn where_the_intent_is_held_a_ledger_is_asked_once() {
    let shop = shop().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), hanging(counter.clone()));
    let intent = quoted(&service).await;
    let first = start(&service, redemption(&intent, HASH));
    while counter.runs() == 0 {
        tokio::task::yield_now().await;
    }
    let asked = shop.faults.asked(Op::Reserve);
    assert_problem(ask(&service, redemption(&intent, HASH)).await, 409, "redemption_in_progress").await;
    assert_eq!(shop.faults.asked(Op::Reserve) - asked, 1);
    first.abort();
}

/// Behind those that are sold and those that are held.
#[tokio::test]
async fn the_first_that_is_free_is_sold_wherever_it_is() {
    for (sold, held) in [(0, 0), (31, 0), (32, 0), (33, 31), (64, 1), (0, 40), (98, 1)] {
        let shop = shop().await;
        let service = layered(&shop.layer(), echo(Counter::default()));
        take(&shop, 0..sold, true).await;
        take(&shop, sold..sold + held, false).await;
        let intent = quoted(&service).await;
        let answer = ask(&service, redemption(&intent, HASH)).await;
        assert_eq!(answer.status(), 200, "{sold} {held}");
        let id = Payment::from(paid(sold + held)).id().to_string();
        assert_eq!(answer.headers().get("x-paid").unwrap(), &id, "{sold} {held}");
        assert_problem(ask(&service, redemption(&intent, HASH)).await, 409, "already_consumed").await;
    }
}

/// Whatever is told of the first few.
#[tokio::test]
async fn one_that_is_held_is_told_before_those_that_are_sold() {
    for held in [0, 50, PAYMENTS - 1] {
        let shop = shop().await;
        let service = layered(&shop.layer(), echo(Counter::default()));
        take(&shop, (0..PAYMENTS).filter(|place| *place != held), true).await;
        take(&shop, std::iter::once(held), false).await;
        let intent = quoted(&service).await;
        assert_problem(ask(&service, redemption(&intent, HASH)).await, 409, "redemption_in_progress").await;
    }
}

/// Each is bound to a nonce, and may be one that was settled here for the intent that is shown.
#[tokio::test]
async fn a_ledger_is_asked_once_which_of_many_authorizations_was_settled_here() {
    let shop = Stall::open().await.shop;
    let bound = |place: u32| paid(place).with_binding(Binding::none().with_nonce([u8::try_from(place).unwrap(); 32]));
    shop.chain.mine(HASH, (0..PAYMENTS).map(bound));
    let service = layered(&shop.layer(), echo(Counter::default()));
    let intent = quoted(&service).await;
    assert_problem(ask(&service, redemption(&intent, HASH)).await, 403, "payment_bound").await;
    assert_eq!(shop.faults.asked(Op::Begun), 1);
}
