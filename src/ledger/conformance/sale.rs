//! Sales: each happens once.

use super::{
    super::{CommitOutcome, Ledger, ReserveOutcome},
    fixture::{Fault, Fixture, HEAD, LONG, PAY_UNTIL, claim, must_be, unsettled},
    harness::Harness,
};
use crate::protocol::{Amount, Network, Transfer};

pub(super) async fn nothing_before_begin<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    must_be!(fixture.ledger.reserve(&claim).await, Err(_) | Ok(ReserveOutcome::BeforeMemory), "a claim before begin");
    Ok(())
}

pub(super) async fn a_pair_is_sold_once<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.sell(&claim).await?;
    must_be!(lease.intent(), intent if intent == claim.intent(), "the intent of the lease");
    must_be!(lease.payment(), transfer if *transfer == claim.payments()[0], "the transfer of the lease");
    must_be!(lease.length(), length if length == claim.lease(), "the length of the lease");
    must_be!(fixture.ledger.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair again");
    must_be!(
        fixture.twin.reserve(&claim).await?,
        ReserveOutcome::IntentConsumed,
        "the pair again, through another handle"
    );
    Ok(())
}

pub(super) async fn both_are_consumed<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (intent, paid) = (fixture.intent(), fixture.paid());
    let _ = fixture.sell(&fixture.claim(intent, std::slice::from_ref(&paid))).await?;
    let other_intent = fixture.claim(fixture.intent(), &[paid]);
    must_be!(fixture.reserve(&other_intent).await?, ReserveOutcome::PaymentUsed, "the payment under another intent");
    let other_payment = fixture.claim(intent, &[fixture.paid()]);
    must_be!(fixture.reserve(&other_payment).await?, ReserveOutcome::IntentConsumed, "the intent with another payment");
    let _ = fixture.hold(&fixture.claim(other_intent.intent(), other_payment.payments())).await?;
    Ok(())
}

pub(super) async fn a_charge_of_nothing_is_a_sale<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let lease = fixture.hold(&claim).await?.charging(Amount::ZERO);
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    must_be!(fixture.twin.commit(&lease, None).await?, CommitOutcome::Done, "the commit again");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair again");
    let other = fixture.claim(fixture.intent(), claim.payments());
    must_be!(fixture.twin.reserve(&other).await?, ReserveOutcome::PaymentUsed, "the payment under another intent");
    Ok(())
}

pub(super) async fn both_are_freed<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let [intent, other_intent] = [fixture.intent(), fixture.intent()];
    let [paid, other_paid] = [[fixture.paid()], [fixture.paid()]];
    let lease = fixture.hold(&fixture.claim(intent, &paid)).await?;
    fixture.ledger.release(&lease).await?;
    let again = fixture.hold(&fixture.claim(intent, &paid)).await?;
    must_be!(again.fencing_token(), fence if fence != lease.fencing_token(), "the fence of the second grant");
    fixture.twin.release(&again).await?;
    // Nothing of the pair is held: another intent takes the payment, and the intent another payment.
    let rival = fixture.hold(&fixture.claim(other_intent, &paid)).await?;
    let _ = fixture.hold(&fixture.claim(intent, &other_paid)).await?;
    must_be!(
        fixture.ledger.commit(&rival, None).await?,
        CommitOutcome::Done,
        "the commit of the intent that took the payment"
    );
    Ok(())
}

pub(super) async fn one_transaction_pays_three<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = fixture.paid();
    let all = [0, 1, 2].map(|position| Transfer { position, ..first.clone() });
    for position in 0..3 {
        let lease = fixture.sell(&fixture.claim(fixture.intent(), &all)).await?;
        must_be!(lease.payment().position(), Some(taken) if taken == position, "the transfer that is taken");
    }
    must_be!(
        fixture.reserve(&fixture.claim(fixture.intent(), &all)).await?,
        ReserveOutcome::PaymentUsed,
        "the fourth claim"
    );
    Ok(())
}

pub(super) async fn smallest_first<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = fixture.paid();
    let all = [(0, 700_000), (1, 490_000), (2, 600_000), (3, 490_000)].map(|(position, units)| Transfer {
        position,
        amount: Amount::from_base_units(units),
        ..first.clone()
    });
    // Some candidates are held, sold and freed in turn, and each claim gets the next free one.
    let held = fixture.hold(&fixture.claim(fixture.intent(), &all)).await?;
    let sold = fixture.sell(&fixture.claim(fixture.intent(), &all)).await?;
    let next = fixture.hold(&fixture.claim(fixture.intent(), &all)).await?;
    fixture.ledger.release(&held).await?;
    let freed = fixture.hold(&fixture.claim(fixture.intent(), &all)).await?;
    let last = fixture.hold(&fixture.claim(fixture.intent(), &all)).await?;
    let taken = [&held, &sold, &next, &freed, &last].map(|lease| lease.payment().position());
    must_be!(taken, [Some(1), Some(3), Some(2), Some(1), Some(0)], "the transfers that were taken");
    Ok(())
}

pub(super) async fn payments_are_told_apart<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    fixture.begin_on(Network::BASE_SEPOLIA).await?;
    let paid = fixture.paid();
    let position = Transfer { position: 1, ..paid.clone() };
    let network = Transfer { network: Network::BASE_SEPOLIA, ..paid.clone() };
    let transaction = Transfer { transaction: fixture.paid().transaction, ..paid.clone() };
    for transfer in [&paid, &position, &network, &transaction] {
        let _ = fixture.sell(&fixture.claim(fixture.intent(), std::slice::from_ref(transfer))).await?;
    }
    let other = fixture.paid();
    let same = Transfer {
        amount: Amount::MAX,
        block_number: 1,
        payer: other.recipient,
        token: other.payer,
        recipient: other.token,
        block_time: other.block_time.after(std::time::Duration::from_secs(50)),
        ..paid
    };
    let again = fixture.claim(fixture.intent(), &[same]);
    must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "a sold payment that a reorganisation moved");
    Ok(())
}

pub(super) async fn extremes_are_kept<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let large = Transfer {
        network: Network::eip155(u64::MAX),
        position: u32::MAX,
        amount: Amount::MAX,
        block_number: u64::MAX,
        ..fixture.paid()
    };
    let small = Transfer { position: 0, network: Network::eip155(0), amount: Amount::ZERO, ..large.clone() };
    for transfer in [large, small] {
        fixture.begin_on(transfer.network).await?;
        let claim = fixture.claim(fixture.intent(), std::slice::from_ref(&transfer));
        let lease = fixture.sell(&claim).await?;
        must_be!(lease.payment(), kept if *kept == transfer, "the transfer of the lease");
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "its commit again");
        let again = fixture.claim(fixture.intent(), &[transfer]);
        must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "the payment again");
    }
    // A distant head and expiry; a resource name that is no identifier.
    let far = claim(fixture.intent(), &[fixture.paid()], PAY_UNTIL + u64::from(u32::MAX), HEAD, LONG);
    let _ = fixture.sell(&far).await?;
    must_be!(fixture.reserve(&far).await?, ReserveOutcome::IntentConsumed, "an intent that expires in a century");
    Ok(())
}

pub(super) async fn consumed_means_committed<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), false, "an unknown intent is consumed");
    let lease = fixture.hold(&claim).await?;
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), false, "a reserved intent is consumed");
    fixture.ledger.release(&lease).await?;
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), false, "a released intent is consumed");
    let _ = fixture.sell(&claim).await?;
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), true, "a sold intent is consumed");
    must_be!(
        fixture.twin.consumed(claim.intent()).await?.is_some(),
        true,
        "a sold intent is consumed, through another handle"
    );
    must_be!(fixture.ledger.consumed(fixture.intent()).await?.is_some(), false, "another intent is consumed");
    Ok(())
}

pub(super) async fn commit_is_repeatable<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let lease = fixture.sell(&fixture.brief(fixture.intent(), &[fixture.paid()])).await?;
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the second commit");
    must_be!(fixture.twin.commit(&lease, None).await?, CommitOutcome::Done, "the third commit, through another handle");
    fixture.run_out().await;
    must_be!(
        fixture.ledger.commit(&lease, None).await?,
        CommitOutcome::Done,
        "a commit after the lease would have run out"
    );
    Ok(())
}

pub(super) async fn committed_stays<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.sell(&claim).await?;
    fixture.ledger.release(&lease).await?;
    fixture.ledger.release(&lease).await?;
    let _ = fixture.ledger.renew(&lease).await?;
    fixture.run_out().await;
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), true, "the intent is consumed");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair after release and renewal");
    let other = fixture.brief(fixture.intent(), claim.payments());
    must_be!(fixture.reserve(&other).await?, ReserveOutcome::PaymentUsed, "the payment after release and renewal");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit again");
    Ok(())
}

pub(super) async fn release_is_repeatable<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let old = fixture.hold(&claim).await?;
    fixture.ledger.release(&old).await?;
    fixture.ledger.release(&old).await?;
    let new = fixture.hold(&claim).await?;
    fixture.twin.release(&old).await?;
    must_be!(
        fixture.reserve(&claim).await?,
        ReserveOutcome::IntentHeld { .. },
        "the new holder's pair after the old one's release"
    );
    must_be!(
        fixture.ledger.commit(&new, None).await?,
        CommitOutcome::Done,
        "the new holder's commit after the old one's release"
    );
    Ok(())
}

pub(super) async fn healthy<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.ledger.health().await?;
    fixture.begin().await?;
    Ok(fixture.twin.health().await?)
}
