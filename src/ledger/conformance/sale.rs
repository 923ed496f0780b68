//! What is sold, and that it is sold once.

use super::{
    super::{Commit, Handler, Ledger, Reservation},
    Harness,
    stage::{Fault, HEAD, LONG, PAY_UNTIL, Stage, claim, must_be},
};
use crate::protocol::{Amount, Network, Transfer};

pub(super) async fn nothing_before_begin<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    must_be!(stage.ledger.reserve(&claim).await, Err(_) | Ok(Reservation::BeforeMemory), "a claim before begin");
    Ok(())
}

pub(super) async fn a_pair_is_sold_once<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    let lease = stage.sell(&claim).await?;
    must_be!(lease.intent(), intent if intent == claim.intent(), "the intent of the lease");
    must_be!(lease.transfer(), transfer if *transfer == claim.transfers()[0], "the transfer of the lease");
    must_be!(lease.length(), length if length == claim.lease(), "the length of the lease");
    must_be!(stage.ledger.reserve(&claim).await?, Reservation::IntentConsumed, "the pair again");
    must_be!(stage.twin.reserve(&claim).await?, Reservation::IntentConsumed, "the pair again, through another handle");
    Ok(())
}

pub(super) async fn both_are_consumed<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let (intent, paid) = (stage.intent(), stage.paid());
    let _ = stage.sell(&stage.claim(intent, std::slice::from_ref(&paid))).await?;
    let other_intent = stage.claim(stage.intent(), &[paid]);
    must_be!(stage.reserve(&other_intent).await?, Reservation::PaymentUsed, "the payment under another intent");
    let other_payment = stage.claim(intent, &[stage.paid()]);
    must_be!(stage.reserve(&other_payment).await?, Reservation::IntentConsumed, "the intent with another payment");
    let _ = stage.hold(&stage.claim(other_intent.intent(), other_payment.transfers())).await?;
    Ok(())
}

pub(super) async fn both_are_freed<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let [intent, other_intent] = [stage.intent(), stage.intent()];
    let [paid, other_paid] = [[stage.paid()], [stage.paid()]];
    let lease = stage.hold(&stage.claim(intent, &paid)).await?;
    stage.ledger.release(&lease, Handler::Started).await?;
    let again = stage.hold(&stage.claim(intent, &paid)).await?;
    must_be!(again.fence(), fence if fence != lease.fence(), "the fence of the second grant");
    stage.twin.release(&again, Handler::Started).await?;
    // Nothing is left of the pair: another intent takes the payment, the intent another payment.
    let rival = stage.hold(&stage.claim(other_intent, &paid)).await?;
    let _ = stage.hold(&stage.claim(intent, &other_paid)).await?;
    must_be!(stage.ledger.commit(&rival).await?, Commit::Done, "the commit of who took the payment");
    Ok(())
}

pub(super) async fn one_transaction_pays_three<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let first = stage.paid();
    let all = [0, 1, 2].map(|position| Transfer { position, ..first.clone() });
    for position in 0..3 {
        let lease = stage.sell(&stage.claim(stage.intent(), &all)).await?;
        must_be!(lease.transfer().position, taken if taken == position, "the transfer that is taken");
    }
    must_be!(stage.reserve(&stage.claim(stage.intent(), &all)).await?, Reservation::PaymentUsed, "the fourth claim");
    Ok(())
}

pub(super) async fn smallest_first<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let first = stage.paid();
    let all = [(0, 700_000), (1, 490_000), (2, 600_000), (3, 490_000)].map(|(position, units)| Transfer {
        position,
        amount: Amount::from_base_units(units),
        ..first.clone()
    });
    // Of those that are held, sold and freed again in turn, each claim gets the next.
    let held = stage.hold(&stage.claim(stage.intent(), &all)).await?;
    let sold = stage.sell(&stage.claim(stage.intent(), &all)).await?;
    let next = stage.hold(&stage.claim(stage.intent(), &all)).await?;
    stage.ledger.release(&held, Handler::Started).await?;
    let freed = stage.hold(&stage.claim(stage.intent(), &all)).await?;
    let last = stage.hold(&stage.claim(stage.intent(), &all)).await?;
    let taken = [&held, &sold, &next, &freed, &last].map(|lease| lease.transfer().position);
    must_be!(taken, [1, 3, 2, 1, 0], "the transfers that were taken");
    Ok(())
}

pub(super) async fn payments_are_told_apart<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let paid = stage.paid();
    let position = Transfer { position: 1, ..paid.clone() };
    let network = Transfer { network: Network::BASE_SEPOLIA, ..paid.clone() };
    let transaction = Transfer { transaction: stage.paid().transaction, ..paid.clone() };
    for transfer in [&paid, &position, &network, &transaction] {
        let _ = stage.sell(&stage.claim(stage.intent(), std::slice::from_ref(transfer))).await?;
    }
    let other = stage.paid();
    let same = Transfer {
        amount: Amount::MAX,
        block_number: 1,
        payer: other.recipient,
        token: other.payer,
        recipient: other.token,
        block_time: other.block_time.after(std::time::Duration::from_secs(50)),
        ..paid
    };
    let again = stage.claim(stage.intent(), &[same]);
    must_be!(stage.reserve(&again).await?, Reservation::PaymentUsed, "a sold payment that a reorganisation moved");
    Ok(())
}

pub(super) async fn extremes_are_kept<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let large = Transfer {
        network: Network::eip155(u64::MAX),
        position: u32::MAX,
        amount: Amount::MAX,
        block_number: u64::MAX,
        ..stage.paid()
    };
    let small = Transfer { position: 0, network: Network::eip155(0), amount: Amount::ZERO, ..large.clone() };
    for transfer in [large, small] {
        let claim = stage.claim(stage.intent(), std::slice::from_ref(&transfer));
        let lease = stage.sell(&claim).await?;
        must_be!(lease.transfer(), kept if *kept == transfer, "the transfer of the lease");
        must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "its commit again");
        let again = stage.claim(stage.intent(), &[transfer]);
        must_be!(stage.reserve(&again).await?, Reservation::PaymentUsed, "the payment again");
    }
    // A head and an expiry far off; a resource that is no identifier.
    let far = claim(stage.intent(), &[stage.paid()], PAY_UNTIL + u64::from(u32::MAX), HEAD, LONG);
    let _ = stage.sell(&far).await?;
    must_be!(stage.reserve(&far).await?, Reservation::IntentConsumed, "an intent that expires in a century");
    Ok(())
}

pub(super) async fn consumed_means_committed<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, false, "an intent that nobody has seen is consumed");
    let lease = stage.hold(&claim).await?;
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, false, "a reserved intent is consumed");
    stage.ledger.release(&lease, Handler::Started).await?;
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, false, "a released intent is consumed");
    let _ = stage.sell(&claim).await?;
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, true, "a sold intent is consumed");
    must_be!(stage.twin.is_consumed(claim.intent()).await?, true, "a sold intent is consumed, through another handle");
    must_be!(stage.ledger.is_consumed(stage.intent()).await?, false, "another intent is consumed");
    Ok(())
}

pub(super) async fn commit_is_repeatable<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let lease = stage.sell(&stage.brief(stage.intent(), &[stage.paid()])).await?;
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "the second commit");
    must_be!(stage.twin.commit(&lease).await?, Commit::Done, "the third commit, through another handle");
    stage.run_out().await;
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "a commit after the lease would have run out");
    Ok(())
}

pub(super) async fn committed_stays<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let lease = stage.sell(&claim).await?;
    stage.ledger.release(&lease, Handler::Started).await?;
    stage.ledger.release(&lease, Handler::NotStarted).await?;
    let _ = stage.ledger.renew(&lease).await?;
    stage.run_out().await;
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, true, "the intent is consumed");
    must_be!(stage.reserve(&claim).await?, Reservation::IntentConsumed, "the pair after release and renewal");
    let other = stage.brief(stage.intent(), claim.transfers());
    must_be!(stage.reserve(&other).await?, Reservation::PaymentUsed, "the payment after release and renewal");
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "the commit again");
    Ok(())
}

pub(super) async fn release_is_repeatable<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    let old = stage.hold(&claim).await?;
    stage.ledger.release(&old, Handler::NotStarted).await?;
    stage.ledger.release(&old, Handler::NotStarted).await?;
    let new = stage.hold(&claim).await?;
    stage.twin.release(&old, Handler::Started).await?;
    must_be!(
        stage.reserve(&claim).await?,
        Reservation::Busy { .. },
        "the new holder's pair after the old one's release"
    );
    must_be!(stage.ledger.commit(&new).await?, Commit::Done, "the new holder's commit after the old one's release");
    Ok(())
}

pub(super) async fn healthy<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.ledger.health().await?;
    stage.begin().await?;
    Ok(stage.twin.health().await?)
}
