//! A ledger that was restored from a backup learns from the log what was sold by vouchers since.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use tower_x402::{
    LoggedSale, RestoredSales,
    ledger::{AccountId, AccountLedger as _},
    protocol::{ChainTime, Network, Transfer, channel::ChannelConfig, v2::ChannelRequirements},
    settle::ChannelOnChain,
    verify::{TransferHistory, TransferQuery, VerifyError},
};
use tracing::Subscriber;

use crate::{
    counter::{PRICE, Stall, counting, id, number, offered, refused, serving, told, units},
    support::{Counter, NOW, ask, assert_problem, layered},
};

/// No transfer was made.
struct NoTransfers;

impl TransferHistory for NoTransfers {
    async fn transfers(&self, _: &TransferQuery) -> Result<Vec<Transfer>, VerifyError> {
        Ok(Vec::new())
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A log, and what writes it. A sale comes first: an event that another test meets for the first time while a subscriber is made can be
/// taken for one that nobody wants.
async fn logged() -> (Log, impl Subscriber + Send + Sync) {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    let _ = told(&ask(&service, stall.pays(&offer, &config, PRICE)).await);
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    (log, subscriber)
}

/// A sale, as the log has it. While other tests run, an event can be missed: then another one is made.
async fn logged_sale() -> (ChannelRequirements, ChannelConfig, Vec<LoggedSale>) {
    for _ in 0..10 {
        let (log, subscriber) = logged().await;
        let before = Stall::open().await;
        let _guard = tracing::subscriber::set_default(subscriber);
        let (service, _, offer, config) = serving(&before).await;
        let _ = told(&ask(&service, before.pays(&offer, &config, PRICE)).await);
        let sales = log.sales();
        if sales.len() == 1 {
            return (offer, config, sales);
        }
    }
    panic!("no sale was logged")
}

impl Log {
    fn sales(&self) -> Vec<LoggedSale> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter_map(LoggedSale::from_line).collect()
    }
}

async fn restored(stall: &Stall, sales: &[LoggedSale]) -> RestoredSales {
    stall.shop.merchant.restore_sales(&NoTransfers, sales, ChainTime::from_unix(NOW - 3_600)).await.unwrap()
}

async fn charged(stall: &Stall, config: &ChannelConfig) -> u128 {
    let account = AccountId::new(id(config).account_bytes(Network::BASE));
    number(stall.shop.ledger.account(account).await.unwrap().unwrap().spent)
}

#[tokio::test]
async fn what_vouchers_bought_since_the_backup_is_charged_and_claimed() {
    let (log, subscriber) = logged().await;
    let before = Stall::open().await;
    let config = {
        let _guard = tracing::subscriber::set_default(subscriber);
        let (service, _, first, config) = serving(&before).await;
        for total in 1..=3 {
            let offer = if total == 1 { first.clone() } else { offered(&service).await };
            let _ = told(&ask(&service, before.pays(&offer, &config, total * PRICE)).await);
        }
        // An answer that cost nothing leaves no voucher, and is sold all the same.
        let free = layered(&before.metered(), counting(&Counter::default(), Some(0)));
        let offer = offered(&free).await;
        assert_eq!(told(&ask(&free, before.pays(&offer, &config, 4 * PRICE)).await), (0, 3 * PRICE));
        config
    };
    let mut sales = log.sales();
    assert_eq!(sales.len(), 4);
    // A log of several processes is in no order.
    sales.reverse();

    // The chain may hold all of it, or less than was sold, or nothing more; or its payer withdraws. By a known block, or by none.
    let state = |balance, claimed| ChannelOnChain::new(units(balance), units(claimed));
    let withdrawing = state(1_000, 0).with_withdrawal(units(1_000), ChainTime::from_unix(NOW));
    let states = [state(1_000, PRICE), state(2 * PRICE, 0), state(0, 0), withdrawing];
    for state in states.into_iter().flat_map(|state| [state, state.at_block(10)]) {
        let after = Stall::open().await;
        after.channels.set_state(id(&config), state);
        for (recorded, known) in [(4, 0), (0, 4)] {
            let restored = restored(&after, &sales).await;
            assert_eq!((restored.recorded, restored.known), (recorded, known));
            assert!(restored.not_found.is_empty() && restored.below_mark.is_empty());
            assert_eq!(restored.held, [], "{state:?}");
            assert_eq!(charged(&after, &config).await, 3 * PRICE, "never less than the log says");
        }
        let service = layered(&after.fixed(), counting(&Counter::default(), None));
        let offer = offered(&service).await;
        let answer = ask(&service, after.pays(&offer, &config, 3 * PRICE)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch", "sold before");
        let _ = after.shop.merchant.claim_now().await.unwrap();
        let claims: Vec<_> = after.channels.claims().concat();
        assert_eq!(after.channels.state(id(&config)).total_claimed, state.balance.min(units(3 * PRICE)));
        assert!(!claims.is_empty() && claims.iter().all(|claim| claim.voucher == after.voucher(&config, 3 * PRICE)));
        let answer = ask(&service, after.pays(&offer, &config, 4 * PRICE)).await;
        match number(state.covers()) {
            1_000 => assert_eq!(told(&answer), (PRICE, 4 * PRICE)),
            _ => assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_exceeds_balance"),
        }
    }
}

/// The header of a sale that the backup does not have.
#[tokio::test]
async fn a_voucher_of_a_restored_sale_is_consumed() {
    let (offer, config, sales) = logged_sale().await;
    let after = Stall::open().await;
    after.channels.set_state(id(&config), ChannelOnChain::new(units(1_000), units(0)));
    assert_eq!(restored(&after, &sales).await.recorded, 1);
    let service = layered(&after.fixed(), counting(&Counter::default(), None));
    let _ = offered(&service).await;
    let again = ask(&service, after.pays(&offer, &config, PRICE)).await;
    let _ = assert_problem(again, 409, "already_consumed").await;
    // A line without its voucher, as of a version before, is told of.
    let without = LoggedSale::new(sales[0].payment, "answer");
    assert_eq!(restored(&Stall::open().await, std::slice::from_ref(&without)).await.not_found, [without.payment]);
}
