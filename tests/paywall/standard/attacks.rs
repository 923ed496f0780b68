//! Who shows another's payment, and settlers that answer late or wrongly.

use std::{sync::Arc, time::Duration};

use tower_x402::{
    Price,
    protocol::{
        Amount, ChainTime, Network, TokenDomain, redemption_message,
        v2::{PaymentRequirements, Reason},
    },
    settle::{Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
    testing::{ScriptedSettler, Settling, scripted_signature},
};

use super::{
    NONCE, SignedAuthorization, Stall, authorization, by_hash, intent, offered, paid, pays, required, requirements,
    settled, sign,
};
use crate::support::{
    Counter, NOW, PRICE, ask, assert_problem, echo,
    faults::{Fault, Faulty, Op},
    layered, payer, post, read,
};

/// Whatever the settler says of its own attempt, an earlier one may still be mined: nobody is asked to pay again.
#[tokio::test(start_paused = true)]
async fn a_refusal_to_settle_again_is_no_proof_that_the_first_attempt_failed() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held, Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    let again = ask(&service, paid(&payment)).await;
    assert_eq!(settled(&again).error_reason, Some(Reason::SETTLEMENT_PENDING));
    assert_problem(again, 503, "outcome_unknown").await;
    let mined = stall.settler.release();
    stall.lease_runs_out();
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).transaction), (200, Some(mined[0])));
    assert_eq!(stall.settler.settlements(), 2);
}

/// A head that is ahead of the clock does not end an authorization: it may be one node's invention, and a transaction that was sent may
/// still be mined.
#[tokio::test(start_paused = true)]
async fn a_head_ahead_of_the_clock_has_no_payer_sign_anew() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 301));
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.shop.clock.set_unix(NOW + 301);
    assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
}

/// A process that was cut off from the ledger has nothing to say about a payment that another one settles by now.
#[tokio::test(start_paused = true)]
async fn whose_lease_was_taken_over_refuses_nothing() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let cut_off = Faulty::over(Arc::clone(&stall.shop.ledger));
    cut_off.always(Op::Renew, Fault::Fail);
    let settler = stall.settler.clone();
    let replica = stall.shop.sibling(|builder| builder.settler(settler).ledger(cut_off.clone())).await;
    let replica = layered(&replica.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held, Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    stall.settler.delay(Duration::from_secs(15));
    let mut first = Box::pin(ask(&replica, paid(&payment)));
    assert!(tokio::time::timeout(Duration::from_secs(20), &mut first).await.is_err());
    stall.settler.delay(Duration::ZERO);
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    cut_off.heal();
    assert_problem(first.await, 409, "redemption_in_progress").await;
    stall.settler.release();
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

/// Nor has one that does not hear from the ledger whether it was cut off: another one may settle the payment by now.
#[tokio::test(start_paused = true)]
async fn who_does_not_know_whether_its_lease_was_held_refuses_nothing() {
    for fault in [Fault::Fail, Fault::Hang] {
        let stall = Stall::open().await;
        let cut_off = Faulty::over(Arc::clone(&stall.shop.ledger));
        let settler = stall.settler.clone();
        let replica = stall.shop.sibling(|builder| builder.settler(settler).ledger(cut_off.clone())).await;
        let service = layered(&replica.charge("answer", PRICE).unwrap(), echo(Counter::default()));
        let payment = pays(&offered(&service).await);
        stall.settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
        cut_off.always(Op::Renew, fault);
        let answer = ask(&service, paid(&payment)).await;
        assert_eq!(settled(&answer).error_reason, Some(Reason::SETTLEMENT_PENDING), "{fault:?}");
        assert_problem(answer, 503, "outcome_unknown").await;
        cut_off.heal();
        stall.lease_runs_out();
        assert_eq!(ask(&service, paid(&payment)).await.status(), 200, "{fault:?}");
    }
}

/// The same before the settlement, of a payment that an earlier attempt may have settled.
#[tokio::test(start_paused = true)]
async fn nor_does_it_refuse_what_was_begun_before() {
    let stall = Stall::open().await;
    let cut_off = Faulty::over(Arc::clone(&stall.shop.ledger));
    let settler = stall.settler.clone();
    let replica = stall.shop.sibling(|builder| builder.settler(settler).ledger(cut_off.clone())).await;
    let service = layered(&replica.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Unknown]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    stall.shop.clock.set_unix(NOW + 301);
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 301));
    cut_off.always(Op::Renew, Fault::Fail);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    cut_off.heal();
    assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
}

/// But that it was cancelled is one.
#[tokio::test(start_paused = true)]
async fn what_was_cancelled_after_an_attempt_is_refused_for_good() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    let payment = pays(&offer);
    stall.settler.script([Settling::Held, Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    stall.settler.answer_verify(Ok(Validity::Valid));
    stall.shop.chain.cancel(offer.asset, payer(), NONCE);
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!(settled(&answer).transaction, None);
    assert_problem(answer, 402, "authorization_refused").await;
}

/// A relayer mined it before anybody showed it here: a settler that does not know yet must not sell it to whoever reads the chain.
#[tokio::test(start_paused = true)]
async fn what_was_mined_before_it_was_shown_is_no_strangers_because_the_settler_is_behind() {
    for settling in [Settling::Settled, Settling::Unknown, Settling::Refused(Reason::INSUFFICIENT_FUNDS)] {
        let stall = Stall::open().await;
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let (prepared, offer) = (offered(&service).await, offered(&service).await);
        let relayer = ScriptedSettler::new(stall.shop.chain.clone());
        let Settlement::Settled(transaction) = relayer.settle(&signed(&offer), &TransactionRecorder::none()).await
        else {
            panic!("it settles")
        };
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + 30));
        stall.settler.answer_verify(Ok(Validity::Valid));
        stall.settler.script([settling]);
        let stolen = sign(&prepared, authorization(&offer, NONCE));
        let answer = ask(&service, paid(&stolen)).await;
        assert_problem(answer, 403, "payment_bound").await;
        // Nothing is held: its payer has it by signature.
        let (intent, quote) = (intent(&offer), offer.intent().unwrap().unwrap());
        let signature = scripted_signature(payer(), &redemption_message(Network::BASE, transaction, &quote));
        let mut request = by_hash(&intent, transaction);
        let proof = format!(r#"{{"intentId":"{intent}","txHash":"{transaction}","paymentSignature":"{signature}"}}"#);
        request.headers_mut().insert("x402-payment", proof.parse().unwrap());
        assert_eq!(ask(&service, request).await.status(), 200);
    }
}

fn signed(offer: &PaymentRequirements) -> SignedPayment {
    SignedPayment::new(
        SignedAuthorization::new(authorization(offer, NONCE), "0x00".parse().unwrap()),
        offer.clone(),
        TokenDomain::usdc_of(Network::BASE).unwrap(),
    )
}

/// No facilitator's prose and no address of anything is in what is answered.
#[tokio::test]
async fn the_new_quote_of_a_refusal_is_one_offer_in_both_dialects() {
    let stall = Stall::open().await;
    let layer = stall.shop.merchant.price_with("by-length", |_, body| {
        Price::labelled(Amount::from_base_units(body.len() as u128), format!("{} bytes", body.len()))
    });
    let service = layered(&layer.unwrap(), echo(Counter::default()));
    let offer = requirements(&ask(&service, post(r#"{"query":"why"}"#)).await);
    stall.settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    for request in [paid(&pays(&offer)), paid(&sign(&offer, authorization(&offer, NONCE)))] {
        let answer = ask(&service, request).await;
        let (fresh, pay) = (requirements(&answer), answer.headers()["pay"].to_str().unwrap().to_owned());
        let pay: serde_json::Value = serde_json::from_str(&pay).unwrap();
        assert_eq!(answer.headers()["x-price-intent"], intent(&fresh).as_str());
        assert_eq!(pay["amount"], fresh.amount.to_string());
        assert_eq!(pay["recipient"], fresh.pay_to.to_string());
        assert_eq!(required(&answer).error.as_deref(), Some("insufficient_funds"));
        let (_, body) = read(answer).await;
        assert_eq!((&body["intentId"], &body["pay"]), (&intent(&fresh).into(), &pay));
    }
}

/// A client that garbles what it echoes is not asked to pay again for what it may have paid here.
#[tokio::test]
async fn a_used_payment_whose_quote_does_not_open_is_not_billed_anew() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    assert_eq!(ask(&service, paid(&pays(&offer))).await.status(), 200);
    let garbled = offer.with_extra("intentId", "AUbX-9_k");
    assert_problem(ask(&service, paid(&pays(&garbled))).await, 404, "intent_not_found").await;
    stall.shop.chain.cancel(garbled.asset, payer(), [9; 32]);
    let spent = sign(&garbled, authorization(&garbled, [9; 32]));
    assert_problem(ask(&service, paid(&spent)).await, 404, "intent_not_found").await;
}

#[tokio::test]
async fn a_cheap_quote_pays_no_dear_request() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let layer = stall
        .shop
        .merchant
        .price_with("by-length", |_, body| Price::Charge(Amount::from_base_units(body.len() as u128)));
    let service = layered(&layer.unwrap(), echo(counter.clone()));
    let offer = requirements(&ask(&service, post("{}")).await);
    let answer = ask(&service, paid(&pays(&offer))).await;
    assert_eq!(requirements(&answer).amount, Amount::from_base_units(15));
    assert_problem(answer, 402, "authorization_refused").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}
