//! What a seller does once a sale is recorded.

use std::{
    future::Future as _,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use tower::ServiceExt as _;
use tower_x402::{
    BuildError, Merchant, MerchantBuilder,
    ledger::{Announcements as _, BookedSale, SalesBook as _, SqliteLedger},
    protocol::{Address, ChainTime, Network, PaymentId, SealingKeys, TxHash},
};

use crate::drops::PanicsInReserve;
use crate::support::{
    Counter, KEY, NOW, PRICE, Shop, ask, assert_problem, echo,
    faults::{Fault, Op, give_way, settle},
    layered, payer, quoted, recipient, redemption, status,
};

/// The payments that were announced.
#[derive(Clone, Default)]
struct Announced(Arc<Mutex<Vec<BookedSale>>>);

impl Announced {
    fn hook(&self) -> impl Fn(BookedSale) -> std::future::Ready<()> + Send + Sync + use<> {
        let announced = self.clone();
        move |sale| {
            announced.0.lock().unwrap().push(sale);
            std::future::ready(())
        }
    }

    fn payments(&self) -> Vec<PaymentId> {
        self.0.lock().unwrap().iter().map(|sale| sale.payment).collect()
    }
}

#[tokio::test]
async fn what_is_sold_is_announced_once_and_nothing_else_is() {
    let shop = Shop::open().await;
    let announced = Announced::default();
    let layer = shop.layer().on_sold(announced.hook()).unwrap();
    let failing = layered(&layer, status(500));
    let (intent, tx) = (quoted(&failing).await, shop.pay(490_000));
    assert_eq!(ask(&failing, redemption(&intent, tx)).await.status(), 500);
    settle().await;
    assert_eq!(announced.payments(), []);
    // Another layer of the same name has the same hook.
    let service = layered(&shop.layer(), echo(Counter::default()));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    settle().await;
    let sales = announced.0.lock().unwrap().clone();
    let [sale] = &sales[..] else { panic!("{sales:?}") };
    assert_eq!((sale.transaction, sale.payer, &*sale.resource), (Some(tx), payer(), "answer"));
    assert_eq!(sale.sold_at, std::time::UNIX_EPOCH + Duration::from_secs(NOW));
    assert_eq!((sale.recipient, sale.amount.to_string().as_str()), (recipient(), "490000"));
    assert!(matches!(layer.on_sold(announced.hook()), Err(BuildError::ConflictingResource { .. })));
}

/// A client that leaves, at whatever point: what is recorded as sold is announced, and what is not is not.
#[tokio::test(start_paused = true)]
async fn whoever_leaves_at_whatever_point_what_is_sold_is_announced() {
    let mut sold_without_its_client = 0;
    for polls in 0.. {
        let shop = Shop::open().await;
        shop.faults.yielding();
        let announced = Announced::default();
        let service = layered(&shop.layer().on_sold(announced.hook()).unwrap(), echo(Counter::default()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        let mut asking = Box::pin(service.clone().oneshot(redemption(&intent, tx)));
        let mut done = false;
        for _ in 0..polls {
            done = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            if done {
                break;
            }
            give_way().await;
        }
        drop(asking);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let committed = shop.faults.committed().len();
        assert_eq!(announced.payments().len(), committed, "{polls}");
        sold_without_its_client += usize::from(!done && committed > 0);
        if done {
            break;
        }
    }
    assert!(sold_without_its_client > 0);
}

#[tokio::test]
async fn a_hook_that_panics_or_hangs_takes_no_answer_with_it() {
    for hangs in [false, true] {
        let shop = Shop::open().await;
        let layer = shop.layer();
        let layer = layer.on_sold(move |_| async move {
            assert!(hangs, "the hook of the seller panics");
            std::future::pending::<()>().await;
        });
        let service = layered(&layer.unwrap(), echo(Counter::default()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
        settle().await;
        assert_eq!(shop.ledger.unannounced(None, 9).await.unwrap().len(), 1, "it waits for the next start");
    }
}

/// A crash would lose the announcement.
#[tokio::test]
async fn a_ledger_that_marks_no_sales_gets_no_hook() {
    let shop = Shop::open_with(|builder| {
        let ledger = crate::support::faults::Faulty::over(Arc::default());
        builder.ledger(PanicsInReserve(ledger, Arc::default()))
    });
    let layer = shop.await.layer();
    assert!(matches!(layer.on_sold(Announced::default().hook()), Err(BuildError::NoAnnouncements)));
}

#[tokio::test]
async fn what_was_announced_does_not_wait_and_what_has_no_hook_never_did() {
    let shop = Shop::open().await;
    for hook in [false, true] {
        let mut layer = shop.merchant.charge(if hook { "hooked" } else { "plain" }, PRICE).unwrap();
        if hook {
            layer = layer.on_sold(Announced::default().hook()).unwrap();
        }
        let service = layered(&layer, echo(Counter::default()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
        settle().await;
        assert_eq!(shop.ledger.unannounced(None, 9).await.unwrap(), []);
        assert_eq!(shop.faults.asked(Op::Announced), usize::from(hook));
    }
}

/// Once more is better than never.
#[tokio::test(start_paused = true)]
async fn an_announcement_that_the_ledger_did_not_note_is_made_again() {
    let shop = Shop::open().await;
    let announced = Announced::default();
    let service = layered(&shop.layer().on_sold(announced.hook()).unwrap(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    shop.faults.next(Op::Announced, [Fault::Fail]);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    settle().await;
    assert_eq!(announced.payments().len(), 1);
    assert_eq!(shop.merchant.replay_sales().await.unwrap(), 1);
    assert_eq!(announced.payments().len(), 2);
    assert_eq!(shop.merchant.replay_sales().await.unwrap(), 0);
}

/// The sale was recorded, and the ledger's answer was lost: not announced before the next start.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_announced_at_the_next_start() {
    let shop = Shop::open().await;
    let announced = Announced::default();
    let service = layered(&shop.layer().on_sold(announced.hook()).unwrap(), echo(Counter::default()));
    for (fault, sold) in [(Fault::Fail, 0), (Fault::AnswerLost, 1)] {
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        shop.faults.always(Op::Commit, fault);
        assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "outcome_unknown").await;
        shop.faults.heal();
        settle().await;
        assert_eq!(announced.payments(), []);
        assert_eq!(shop.merchant.replay_sales().await.unwrap(), sold);
        assert_eq!(announced.payments().len(), sold);
    }
}

async fn merchant(shop: &Shop, ledger: &Arc<SqliteLedger>, to: Address) -> Merchant {
    let builder: MerchantBuilder = Merchant::builder(to)
        .hold_unbound(Duration::ZERO)
        .verifier(shop.chain.clone())
        .ledger(Arc::clone(ledger))
        .clock(shop.clock.clone())
        .sealing_keys(SealingKeys::new(KEY));
    builder.build().await.unwrap()
}

/// The process ended before the hook did: the next one runs it.
#[tokio::test]
async fn after_a_restart_the_sales_whose_hooks_did_not_end_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sales.db");
    let ledger = Arc::new(SqliteLedger::open(&path).await.unwrap());
    let shop = Shop::open().await;
    shop.chain.set_head(ChainTime::from_unix(NOW - 3600));
    let (mut sold, names) = (Vec::new(), ["top-up", "top-up", "order", "answer"]);
    let first = merchant(&shop, &ledger, recipient()).await;
    shop.chain.set_head(ChainTime::from_unix(NOW));
    let cut_off = |_| std::future::pending::<()>();
    for name in ["top-up", "order"] {
        let _ = first.charge(name, PRICE).unwrap().on_sold(cut_off).unwrap();
    }
    for name in names {
        let service = layered(&first.charge(name, PRICE).unwrap(), echo(Counter::default()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
        sold.push(PaymentId::of_transfer(Network::BASE, tx, 0));
    }
    let _ = ledger.note_refund(sold[1], TxHash::new([7; 32])).await.unwrap();
    ledger.close().await;

    let ledger = Arc::new(SqliteLedger::open(&path).await.unwrap());
    let announced = Announced::default();
    // Another seller's sales in the same ledger are not announced, and wait on.
    let other = merchant(&shop, &ledger, Address::new([9; 20])).await;
    let _ = other.charge("top-up", PRICE).unwrap().on_sold(announced.hook()).unwrap();
    assert_eq!(other.replay_sales().await.unwrap(), 0);
    // Nor are those of a route that has no hook yet.
    let next = merchant(&shop, &ledger, recipient()).await;
    let _ = next.charge("top-up", PRICE).unwrap().on_sold(announced.hook()).unwrap();
    assert_eq!(next.replay_sales().await.unwrap(), 1);
    let _ = next.charge("order", PRICE).unwrap().on_sold(announced.hook()).unwrap();
    assert_eq!(next.replay_sales().await.unwrap(), 1);
    // Neither what was given back, nor what had no hook when it was sold.
    assert_eq!(announced.payments(), [sold[0], sold[2]]);
    assert_eq!(next.replay_sales().await.unwrap(), 0);
    assert_eq!(ledger.unannounced(None, 9).await.unwrap(), []);
}

#[cfg(unix)]
mod killed;
