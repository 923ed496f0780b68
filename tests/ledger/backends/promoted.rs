//! A standby that lagged behind is promoted: the last sales are gone, and the processes go on.

use tower_x402::{
    ledger::{
        AccountId, AccountLedger as _, AccountMemo, ChargeOutcome, CommitOutcome, Draw, DrawOutcome, Ledger as _,
        LedgerError, Maintenance as _, OpenOutcome, Opening, ReserveOutcome, redis_driver as driver,
    },
    protocol::{Amount, IntentKey, Network},
};

use super::{HEAD, MARK, claim, hold, paid, sell, time};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

on_each_kind! {
    a_server_that_lost_the_last_sale_is_noticed
    a_server_that_lost_the_sale_recorded_last_is_noticed
    what_may_be_forgotten_is_not_missed
    what_was_forgotten_is_not_missed_once_the_mark_is_lowered
    a_lost_sale_is_missed_again_once_the_mark_is_lowered
    what_was_sold_before_can_be_claimed_on_a_server_that_lost_the_last_sale
    an_evicted_record_is_not_a_lost_sale
    the_mark_of_another_network_explains_no_missing_sale
}

/// Takes the sale of this name out of the ledger.
async fn lose(place: &Place, name: u64) {
    let (payment, intent) = (paid(name).payment_id(), IntentKey::new(u128::from(name).to_be_bytes()));
    if place.kind != Kind::Redis {
        return place.sql(&format!("DELETE FROM ledger_sales WHERE payment = '{payment}'")).await;
    }
    let (mut connection, prefix) = place.redis().await;
    let intent: String = intent.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = [format!("{prefix}payment:{payment}"), format!("{prefix}intent:{intent}")];
    let _: () = driver::cmd("DEL").arg(&keys).query_async(&mut connection).await.unwrap();
    for set in ["kept:8453", "sold"] {
        let _: () = driver::cmd("ZREM")
            .arg(format!("{prefix}{set}"))
            .arg(payment.to_string())
            .query_async(&mut connection)
            .await
            .unwrap();
    }
}

async fn a_server_that_lost_the_last_sale_is_noticed(kind: Kind) {
    if kind == Kind::Sqlite {
        // Has tests of its own, with backups.
        return;
    }
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    for name in 1..=3 {
        sell(&ledger, &claim(name, name)).await;
    }
    let open = hold(&ledger, &claim(4, 4)).await;
    lose(&place, 3).await;
    let unavailable = LedgerError::unavailable;
    // A thief shows the payment that was sold, under an intent of their own.
    assert_eq!(ledger.reserve(&claim(13, 3)).await, Err(unavailable()));
    assert_eq!(ledger.reserve(&claim(5, 5)).await, Err(unavailable()), "nor anything else");
    assert_eq!(ledger.health().await, Err(unavailable()));
    // Once its mark has passed the payment, that is refused.
    ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.reserve(&claim(13, 3)).await, Ok(ReserveOutcome::BeforeMemory));
    ledger.release(&open).await.unwrap();
    place.remove().await;
}

/// What is lost is the end of the server's log. The sales are in it in the order of their commits, not of their grants; and of those that
/// are committed at the same time, not always in the order in which the process hears of them.
async fn a_server_that_lost_the_sale_recorded_last_is_noticed(kind: Kind) {
    if kind == Kind::Sqlite {
        return;
    }
    for lost in [1, 2] {
        let Some(place) = Place::new(kind).await else { return };
        let ledger = place.begun().await;
        let (slow, fast) = (hold(&ledger, &claim(1, 1)).await, hold(&ledger, &claim(2, 2)).await);
        for lease in [fast, slow] {
            assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
        }
        assert_eq!(ledger.health().await, Ok(()));
        lose(&place, lost).await;
        assert_eq!(ledger.reserve(&claim(13, lost)).await, Err(LedgerError::unavailable()), "{lost}");
        assert_eq!(ledger.health().await, Err(LedgerError::unavailable()), "{lost}");
        ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
        assert_eq!(ledger.health().await, Ok(()));
        place.remove().await;
    }
}

/// A sale that was forgotten, or deleted from the book since, has raised the mark.
async fn what_may_be_forgotten_is_not_missed(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger: AnyLedger = place.begun().await;
    let sold = claim(1, 1);
    sell(&ledger, &sold).await;
    let beyond = sold.keep_until(&paid(1).into()).after(std::time::Duration::from_secs(1));
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(1));
    assert_eq!(ledger.health().await, Ok(()));
    place.sql("DELETE FROM ledger_book").await;
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.reserve(&claim(2, 2)).await, Ok(ReserveOutcome::BeforeMemory));
    place.remove().await;
}

/// The mark no longer tells what was forgotten. A Redis server that keeps no book tells it to every process, and the others have it in
/// their book.
async fn what_was_forgotten_is_not_missed_once_the_mark_is_lowered(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let (ledger, other) = (place.begun().await, place.ledger().await);
    for name in 1..=3 {
        sell(&ledger, &claim(name, name)).await;
        sell(&other, &claim(10 + name, 10 + name)).await;
    }
    let beyond = claim(1, 1).keep_until(&paid(1).into()).after(std::time::Duration::from_secs(1));
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(6));
    if kind == Kind::Redis {
        let (mut connection, prefix) = place.redis().await;
        let _: u64 = driver::cmd("DEL").arg(format!("{prefix}book")).query_async(&mut connection).await.unwrap();
    }
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(MARK)).await, Ok(Some(time(MARK))));
    for (name, process) in [(5, &ledger), (6, &other)] {
        assert_eq!(process.health().await, Ok(()));
        sell(process, &claim(name, name)).await;
    }
    place.remove().await;
}

/// A mark that was raised over a lost sale, and lowered again, does not bring it back.
async fn a_lost_sale_is_missed_again_once_the_mark_is_lowered(kind: Kind) {
    if kind == Kind::Sqlite {
        return;
    }
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    for name in 1..=3 {
        sell(&ledger, &claim(name, name)).await;
    }
    lose(&place, 3).await;
    ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(MARK)).await, Ok(Some(time(MARK))));
    assert_eq!(ledger.reserve(&claim(13, 3)).await, Err(LedgerError::unavailable()));
    place.remove().await;
}

/// The mark of the sale's own network says whether the sale may have been forgotten, and no other mark.
async fn the_mark_of_another_network_explains_no_missing_sale(kind: Kind) {
    // One whose chain id is higher, and one whose chain id is lower.
    for other in [Network::BASE_SEPOLIA, Network::eip155(1)] {
        let Some(place) = Place::new(kind).await else { return };
        let ledger = place.begun().await;
        assert_eq!(ledger.begin(other, time(HEAD)).await, Ok(time(HEAD)));
        for name in 1..=3 {
            sell(&ledger, &claim(name, name)).await;
        }
        assert_eq!(ledger.health().await, Ok(()));
        lose(&place, 3).await;
        assert_eq!(ledger.reserve(&claim(13, 3)).await, Err(LedgerError::unavailable()), "a payment that was sold");
        assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));
        place.remove().await;
    }
}

/// A claim of a channel holds its accounts without spending anything, and must not wait: its payer may withdraw.
async fn what_was_sold_before_can_be_claimed_on_a_server_that_lost_the_last_sale(kind: Kind) {
    if kind == Kind::Sqlite {
        return;
    }
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let (turn, other) = (AccountId::new([0x11; 16]), AccountId::new([0x12; 16]));
    let (nothing, one) = (Amount::ZERO, Amount::from_base_units(1));
    let opening = Opening::new(turn, Amount::from_base_units(10)).claimable();
    assert!(matches!(ledger.open_account(&opening).await, Ok(OpenOutcome::Open(_))));
    sell(&ledger, &claim(1, 1)).await;
    lose(&place, 1).await;
    let draw = |account, amount| Draw::new(account, amount, std::time::Duration::from_secs(60));
    assert_eq!(ledger.draw(&draw(turn, one)).await, Err(LedgerError::unavailable()));
    // By one of nothing, a refund gives back what the lost records say was spent.
    assert_eq!(ledger.draw(&draw(turn, nothing)).await, Err(LedgerError::unavailable()));
    assert_eq!(ledger.draw(&draw(turn, one).for_upkeep()).await, Err(LedgerError::unavailable()));
    let opening = Opening::new(other, one);
    assert_eq!(ledger.open_account(&opening).await, Err(LedgerError::unavailable()));
    let Ok(DrawOutcome::Granted(lease)) = ledger.draw(&draw(turn, nothing).for_upkeep()).await else {
        panic!("it spends nothing")
    };
    let memo = AccountMemo::new([7]).unwrap();
    assert!(matches!(ledger.charge(&lease, nothing, Some(&memo)).await, Ok(ChargeOutcome::Done { .. })));
    let account = ledger.account(turn).await.unwrap().unwrap();
    assert_eq!((account.memo, account.spent), (memo, nothing));
    // The first turn of all opens its account.
    assert!(matches!(ledger.open_account(&Opening::new(other, nothing)).await, Ok(OpenOutcome::Open(_))));
    place.remove().await;
}

/// A server that may evict dropped the record of a sale. The index has it, by which the payment is refused all the same.
async fn an_evicted_record_is_not_a_lost_sale(kind: Kind) {
    if kind != Kind::Redis {
        return;
    }
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    let (mut connection, prefix) = place.redis().await;
    let key = format!("{prefix}payment:{}", paid(1).payment_id());
    let dropped: u64 = driver::cmd("DEL").arg(key).query_async(&mut connection).await.unwrap();
    assert_eq!(dropped, 1);
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.reserve(&claim(13, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    let _ = hold(&ledger, &claim(2, 2)).await;
    place.remove().await;
}
