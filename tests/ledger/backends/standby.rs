//! A PostgreSQL standby that streams from its primary, and is promoted when that one is gone.

use std::time::Duration;

use tower_x402::{
    ledger::{
        Ledger as _, LedgerError, Maintenance as _, PostgresLedger, ReserveOutcome,
        sqlx::{self, Connection as _, PgConnection},
    },
    protocol::{ChainTime, Network},
};

use super::{HEAD, claim, hold, sell, time};
use crate::{
    kinds::{MARK, PATIENT},
    support::servers::{PrivatePostgres, missing},
};

async fn connected(server: &PrivatePostgres) -> PgConnection {
    PgConnection::connect(&server.url()).await.unwrap()
}

/// Waits until this is so.
async fn until(server: &PrivatePostgres, question: &'static str) {
    let mut connection = connected(server).await;
    for _ in 0..600 {
        // The table may not be there yet.
        if sqlx::query_scalar::<_, bool>(question).fetch_one(&mut connection).await.unwrap_or(false) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never {question}");
}

async fn run(server: &PrivatePostgres, statements: &[&'static str]) {
    let mut connection = connected(server).await;
    for statement in statements {
        sqlx::query(*statement).execute(&mut connection).await.unwrap();
    }
}

async fn opened(server: &PrivatePostgres) -> PostgresLedger {
    PostgresLedger::connect(&server.url()).await.unwrap().time_limit(PATIENT)
}

/// Until its connections to the server that is gone are replaced. This question asks nothing of its last sale.
async fn reached(ledger: &PostgresLedger) {
    for _ in 0..100 {
        if ledger.consumed(claim(1, 1).intent()).await.is_ok_and(|sale| sale.is_some()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the promoted standby does not answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_sells_nothing_on_a_promoted_standby_that_lacks_its_last_sale() {
    for lags in [false, true] {
        let Some(mut primary) = PrivatePostgres::start(&[]).await.or_else(|| missing("postgres")) else { return };
        let Some(mut standby) = primary.standby().await.or_else(|| missing("postgres")) else { return };
        let ledger = opened(&primary).await;
        ledger.migrate().await.unwrap();
        let _: ChainTime = ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        sell(&ledger, &claim(1, 1)).await;
        until(&standby, "SELECT count(*) = 1 FROM ledger_sales WHERE consumed_at IS NOT NULL").await;
        if lags {
            // Cut off from the primary, which does not wait for it.
            run(&standby, &["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"]).await;
            until(&standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver").await;
        }
        sell(&ledger, &claim(2, 2)).await;
        if !lags {
            until(&standby, "SELECT count(*) = 2 FROM ledger_sales WHERE consumed_at IS NOT NULL").await;
        }
        primary.kill();
        run(&standby, &["SELECT pg_promote()"]).await;
        until(&standby, "SELECT NOT pg_is_in_recovery()").await;
        standby.take_the_place_of(&primary).await;

        // A process that is new there cannot know what is missing: only the mark can.
        let newcomer = opened(&standby).await;
        assert_eq!(newcomer.health().await, Ok(()));
        reached(&ledger).await;
        let thief = claim(12, 2);
        if !lags {
            assert_eq!(newcomer.reserve(&thief).await, Ok(ReserveOutcome::PaymentUsed));
            assert_eq!(ledger.reserve(&thief).await, Ok(ReserveOutcome::PaymentUsed));
            sell(&ledger, &claim(3, 3)).await;
            continue;
        }
        let lease = hold(&newcomer, &thief).await;
        newcomer.release(&lease).await.unwrap();
        let unavailable = LedgerError::unavailable;
        for _ in 0..2 {
            assert_eq!(ledger.reserve(&thief).await, Err(unavailable()), "its own last sale");
            assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(unavailable()), "nor anything else");
            assert_eq!(ledger.health().await, Err(unavailable()));
        }
        ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
        assert_eq!(ledger.health().await, Ok(()));
        for seller in [&ledger, &newcomer] {
            assert_eq!(seller.reserve(&thief).await, Ok(ReserveOutcome::BeforeMemory));
        }
    }
}
