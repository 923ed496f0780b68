//! What fails in the worst moment: the ledger, the node, the settler, the process.

use std::time::Duration;

use tower_x402::{
    Merchant, Redelivery,
    ledger::MemoryLedger,
    protocol::{ChainTime, SealingKeys, v2::Reason},
    settle::SettleError,
    testing::{FakeClock, ScriptedSettler, ScriptedVerifier, Settling},
    verify::VerifyError,
};

use super::{Stall, authorization, offered, paid, pays, settled, sign};
use crate::support::{
    Counter, NOW, ask, assert_problem, by_header, echo,
    faults::{Fault, Op},
    layered, quoted, recipient, status,
};

/// A lease on a transfer that ran out, because a process died, blocks nothing once its payer is back.
#[tokio::test(start_paused = true)]
async fn a_transfer_whose_lease_ran_out_is_free_again_after_a_failed_answer() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), status(500));
    let (intent, transaction) = (quoted(&service).await, stall.shop.pay(490_000));
    stall.shop.faults.next(Op::Release, [Fault::Fail]);
    assert_eq!(ask(&service, by_header("POST", &intent, transaction)).await.status(), 500);
    assert_problem(ask(&service, by_header("POST", &intent, transaction)).await, 409, "redemption_in_progress").await;
    stall.lease_runs_out();
    for _ in 0..3 {
        assert_eq!(ask(&service, by_header("POST", &intent, transaction)).await.status(), 500, "at once");
    }
    assert_eq!(stall.shop.ledger.counts().unwrap().held, 0);
}

/// "Refused, for it is used already" says that it is paid, perhaps here.
#[tokio::test(start_paused = true)]
async fn a_settler_alone_that_calls_a_nonce_used_has_perhaps_used_it() {
    for reason in [Reason::INVALID_EXACT_EVM_NONCE_ALREADY_USED, Reason::DUPLICATE_SETTLEMENT] {
        let settler = ScriptedSettler::new(ScriptedVerifier::new(ChainTime::from_unix(NOW)));
        let merchant = Merchant::builder(recipient())
            .settler(settler.clone())
            .ledger(MemoryLedger::with_clock(FakeClock::new(NOW)))
            .clock(FakeClock::new(NOW))
            .sealing_keys(SealingKeys::new([7; 32]))
            .build()
            .await
            .unwrap();
        let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
        settler.script([Settling::Refused(reason)]);
        let payment = pays(&offered(&service).await);
        assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    }
}

/// What is sold is sold: it is delivered again though neither node nor settler can be reached.
#[tokio::test(start_paused = true)]
async fn a_kept_answer_needs_neither_the_chain_nor_the_settler() {
    let stall = Stall::open().await;
    let layer = stall.shop.layer().redeliver(Redelivery::lasting(Duration::from_secs(60)));
    let service = layered(&layer, echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    let first = ask(&service, paid(&payment)).await;
    assert_eq!(first.status(), 200);
    stall.shop.chain.outage(VerifyError::unavailable());
    stall.settler.outage(SettleError::unavailable());
    let again = ask(&service, paid(&payment)).await;
    assert_eq!((again.status().as_u16(), &again.headers()["idempotent-replayed"]), (200, &"true".parse().unwrap()));
    let fresh = sign(payment.accepted.exact().unwrap(), authorization(payment.accepted.exact().unwrap(), [9; 32]));
    assert_problem(ask(&service, paid(&fresh)).await, 409, "already_consumed").await;
}

/// Settled, and the ledger does not say whether the sale is recorded: the payer learns what was taken, and has it later.
#[tokio::test(start_paused = true)]
async fn a_sale_that_is_not_recorded_names_what_was_taken() {
    for (fault, code) in [(Fault::Fail, 200), (Fault::AnswerLost, 409)] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let payment = pays(&offered(&service).await);
        stall.shop.faults.always(Op::Commit, fault);
        let answer = ask(&service, paid(&payment)).await;
        let told = settled(&answer);
        assert_eq!((told.success, told.error_reason), (false, Some(Reason::SETTLEMENT_PENDING)));
        assert!(told.transaction.is_some());
        assert_problem(answer, 503, "outcome_unknown").await;
        stall.shop.faults.heal();
        stall.lease_runs_out();
        assert_eq!(ask(&service, paid(&payment)).await.status(), code);
        assert_eq!(stall.settler.settlements(), 1);
    }
}
