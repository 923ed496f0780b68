//! One payer's payments that are taken on and not settled yet.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Body;
use futures_util::future::join_all;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tower_x402::{
    RequestBody,
    protocol::{Address, Amount, Network, TokenDomain},
    settle::{SettleError, SettleErrorKind, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::{ScriptedSettler, Settling},
};

use super::{Stall, authorization, offered, paid, sign, units};
use crate::support::{
    Counter, Handler, ask, assert_problem, echo,
    faults::{Fault, Op},
    layered,
};

#[tokio::test(start_paused = true)]
async fn a_payer_has_so_many_unsettled_payments_and_no_more() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let offer = offered(&service).await;
    let mut payments = Vec::new();
    for nonce in 0..33 {
        let offer = offered(&service).await;
        payments.push(sign(&offer, authorization(&offer, [nonce; 32])));
    }
    stall.settler.always(Settling::Hanging);
    let under_way = join_all(payments[..32].iter().map(|payment| ask(&service, paid(payment))));
    let mut under_way = Box::pin(under_way);
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1), &mut under_way).await;
    assert!(waited.is_err() && counter.runs() == 32);
    assert_problem(ask(&service, paid(&payments[32])).await, 503, "verification_unavailable").await;
    assert_eq!(counter.runs(), 32, "no further handler runs");
    stall.settler.always(None);
    // Another payer is not concerned.
    let mut other = authorization(&offer, [99; 32]);
    other.from = Address::new([0x77; 20]);
    assert_eq!(ask(&service, paid(&sign(&offer, other))).await.status(), 200);
    // Who leaves has promised no less: the settlements go on until they end.
    drop(under_way);
    crate::support::faults::settle().await;
    assert_problem(ask(&service, paid(&payments[32])).await, 503, "verification_unavailable").await;
    tokio::time::sleep(Duration::from_secs(181)).await;
    assert_eq!(ask(&service, paid(&payments[32])).await.status(), 200);
}

/// What a stranger shows in a payer's name takes no place from the payer: a copy of what was sold is public.
#[tokio::test(start_paused = true)]
async fn copies_of_a_sold_payment_do_not_keep_its_payer_out() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    assert_eq!(ask(&service, paid(&sign(&offer, authorization(&offer, [1; 32])))).await.status(), 200);
    let mut copies = Vec::new();
    for _ in 0..32 {
        let offer = offered(&service).await;
        copies.push(sign(&offer, authorization(&offer, [1; 32])));
    }
    let fresh = offered(&service).await;
    // A ledger that takes its time.
    stall.shop.faults.next(Op::Reserve, [Fault::Late(Duration::from_secs(1)); 32]);
    let mut under_way = Box::pin(join_all(copies.iter().map(|copy| ask(&service, paid(copy)))));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut under_way).await.is_err());
    assert_eq!(ask(&service, paid(&sign(&fresh, authorization(&fresh, [2; 32])))).await.status(), 200);
    assert!(under_way.await.iter().all(|answer| answer.status() == 409));
}

/// A settler of one payer, whose balance has to cover what is promised, too.
struct Covering {
    settler: ScriptedSettler,
    balance: Mutex<Amount>,
}

impl Covering {
    fn spend(&self, amount: Amount) {
        let mut balance = self.balance.lock().unwrap();
        *balance = balance.checked_sub(amount).unwrap();
    }
}

impl Settler for Covering {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.settler.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        let owed = payment.promised.checked_add(payment.requirements.amount).unwrap();
        if owed > *self.balance.lock().unwrap() {
            return Err(SettleError::new(SettleErrorKind::Overloaded));
        }
        self.settler.verify(payment).await
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        self.spend(payment.requirements.amount);
        self.settler.settle(payment, recorder).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.settler.health().await
    }
}

/// A handler that waits at a gate.
fn waits(runs: Counter, gate: Arc<Semaphore>) -> impl Handler {
    tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let gate = Arc::clone(&gate);
        runs.run();
        async move {
            let _passes = gate.acquire().await.unwrap();
            Ok::<_, Infallible>(Response::new(Body::from("an answer")))
        }
    })
}

/// What is settled before the handler runs is out of the payer's balance by then, and is not promised any more.
#[tokio::test(start_paused = true)]
async fn what_is_settled_first_is_not_promised_while_the_handler_runs() {
    for payments in [2, 33] {
        let stall = Stall::open().await;
        let covering = Covering { settler: stall.settler.clone(), balance: Mutex::new(units(490_000 * payments)) };
        let merchant = stall.shop.sibling(|builder| builder.settler(covering)).await;
        let (counter, gate) = (Counter::default(), Arc::new(Semaphore::new(0)));
        let layer = merchant.charge("answer", crate::support::PRICE).unwrap().settle_first();
        let service = layered(&layer, waits(counter.clone(), Arc::clone(&gate)));
        let mut under_way = Vec::new();
        for nonce in 0..payments {
            let offer = offered(&service).await;
            let payment = sign(&offer, authorization(&offer, [u8::try_from(nonce).unwrap(); 32]));
            let mut one = Box::pin(ask(&service, paid(&payment)));
            let waited = tokio::time::timeout(Duration::from_millis(100), &mut one).await;
            assert!(waited.is_err(), "payment {nonce} of {payments}: {waited:?}");
            under_way.push(one);
        }
        let payments = usize::try_from(payments).unwrap();
        assert_eq!((stall.settler.settlements(), counter.runs()), (payments, payments));
        gate.add_permits(payments);
        assert!(join_all(under_way).await.iter().all(|answer| answer.status() == 200));
    }
}
