//! The identity of payments: transfers made from one authorization are one payment, in whichever block they were mined.

use super::{
    super::{CommitOutcome, Ledger, RenewOutcome, ReserveOutcome},
    fixture::{BEGUN, Fault, Fixture, PAID, must_be},
    harness::Harness,
};
use crate::protocol::{
    Amount, Binding, ChainTime, IntentKey, Network, Payment, SignedTransfer, Transfer,
    channel::{ChannelConfig, VoucherPayment},
};

/// A transfer made from the authorization with this nonce.
fn authorized<H: Harness>(fixture: &Fixture<'_, H>, nonce: [u8; 32]) -> Transfer {
    fixture.paid().with_binding(Binding::none().with_nonce(nonce))
}

/// The same authorization, used in another transaction and at another position.
fn elsewhere<H: Harness>(fixture: &Fixture<'_, H>, transfer: &Transfer) -> Transfer {
    Transfer { transaction: fixture.paid().transaction, position: transfer.position + 7, ..transfer.clone() }
}

pub(super) async fn an_authorization_is_one_payment<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = authorized(fixture, [0xc1; 32]);
    let moved = [elsewhere(fixture, &first)];
    let claim = fixture.claim(fixture.intent(), std::slice::from_ref(&first));
    let lease = fixture.hold(&claim).await?;
    let other = fixture.claim(fixture.intent(), &moved);
    must_be!(fixture.twin.reserve(&other).await?, ReserveOutcome::Busy { .. }, "what is held, in another transaction");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    must_be!(fixture.reserve(&other).await?, ReserveOutcome::PaymentUsed, "what is sold, in another transaction");
    let own = fixture.claim(claim.intent(), &moved);
    must_be!(fixture.reserve(&own).await?, ReserveOutcome::IntentConsumed, "its own intent, in another transaction");
    // If a free payment is among the candidates, it is taken.
    let free = authorized(fixture, [0xc2; 32]);
    let taken = fixture.sell(&fixture.claim(fixture.intent(), &[moved[0].clone(), free.clone()])).await?;
    must_be!(taken.payment(), transfer if *transfer == free, "the transfer that is taken");
    // Mined again, and later.
    let later = Transfer { block_time: ChainTime::from_unix(PAID + 50), ..moved[0].clone() };
    let again = fixture.claim(fixture.intent(), &[later]);
    must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "the same in a later block");
    Ok(())
}

pub(super) async fn a_lease_follows_its_authorization<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (intent, first) = (fixture.intent(), authorized(fixture, [0xc3; 32]));
    let moved = [elsewhere(fixture, &first)];
    let old = fixture.hold(&fixture.brief(intent, std::slice::from_ref(&first))).await?;
    fixture.run_out().await;
    let new = fixture.hold(&fixture.brief(fixture.intent(), &moved)).await?;
    must_be!(new.payment(), transfer if *transfer == moved[0], "the transfer of the lease");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the commit of what was taken over");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the commit of who took over");
    Ok(())
}

pub(super) async fn authorizations_are_told_apart<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    fixture.begin_on(Network::BASE_SEPOLIA).await?;
    let first = authorized(fixture, [0xc5; 32]);
    let other = fixture.paid();
    let in_one_transaction = authorized(fixture, [0xc6; 32]);
    let all = [
        Transfer { transaction: first.transaction, position: 1, ..in_one_transaction },
        Transfer { token: other.recipient, ..first.clone() },
        Transfer { payer: other.recipient, ..first.clone() },
        // Token and payer swapped.
        Transfer { token: first.payer, payer: first.token, ..first.clone() },
        Transfer { network: Network::BASE_SEPOLIA, ..first.clone() },
        // The same log, not made from an authorization.
        Transfer { binding: Binding::none(), ..first.clone() },
        first,
    ];
    for transfer in &all {
        let _ = fixture.sell(&fixture.claim(fixture.intent(), std::slice::from_ref(transfer))).await?;
    }
    for transfer in &all {
        let again = fixture.claim(fixture.intent(), std::slice::from_ref(transfer));
        must_be!(fixture.twin.reserve(&again).await?, ReserveOutcome::PaymentUsed, "each of them again");
    }
    Ok(())
}

/// An unsettled permit.
fn permit<H: Harness>(fixture: &Fixture<'_, H>) -> SignedTransfer {
    let paid = fixture.paid();
    SignedTransfer::new(paid.network, paid.token, paid.payer, *paid.transaction.as_bytes())
        .with_recipient(paid.recipient)
        .with_amount(paid.amount)
        .with_shown(paid.block_time)
}

pub(super) async fn permits_are_told_apart<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    fixture.begin_on(Network::BASE_SEPOLIA).await?;
    let (first, other) = (permit(fixture), permit(fixture));
    let all = [
        Payment::Permit(first.clone()),
        Payment::Authorization(first.clone()),
        Payment::Permit(SignedTransfer { payer: other.recipient, ..first.clone() }),
        Payment::Permit(SignedTransfer { network: Network::BASE_SEPOLIA, ..first.clone() }),
        Payment::Permit(other.clone()),
    ];
    for payment in &all {
        let _ = fixture.sell(&fixture.claim(fixture.intent(), std::slice::from_ref(payment))).await?;
    }
    // Permit2 nonces are shared by all tokens.
    let of_another_token = SignedTransfer { token: other.recipient, ..first.clone() };
    let of_another_amount = SignedTransfer { amount: Amount::MAX, recipient: first.token, ..first };
    for again in all.iter().cloned().chain([of_another_token, of_another_amount].map(Payment::Permit)) {
        let again = fixture.claim(fixture.intent(), &[again]);
        must_be!(fixture.twin.reserve(&again).await?, ReserveOutcome::PaymentUsed, "each of them again");
    }
    Ok(())
}

pub(super) async fn a_permit_is_settled_and_sold<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let signed = permit(fixture);
    let claim = fixture.claim(fixture.intent(), &[Payment::Permit(signed.clone())]);
    let lease = fixture.hold(&claim).await?;
    let other_token = SignedTransfer { token: signed.recipient, ..signed.clone() };
    let foreign = fixture.claim(fixture.intent(), &[Payment::Permit(other_token)]);
    must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "its nonce in another token");
    must_be!(fixture.ledger.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "the record of its settlement");
    fixture.ledger.release(&lease).await?;
    must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "its nonce after a release");
    let lease = fixture.hold(&claim).await?;
    must_be!(lease.settling(), Some(begun) if *begun == BEGUN, "the record in its intent's next lease");
    let charged = signed.with_amount(Amount::from_base_units(1)).with_transaction(fixture.paid().transaction);
    let lease = lease.settled_by(Payment::Permit(charged.clone()));
    must_be!(lease.payment(), paid if *paid == Payment::Permit(charged), "the payment as it was charged");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "its nonce once it is sold");
    Ok(())
}

/// The payment of a voucher over this total for that intent.
fn voucher<H: Harness>(fixture: &Fixture<'_, H>, total: u128, intent: IntentKey) -> VoucherPayment {
    let paid = fixture.paid();
    let channel = ChannelConfig::new(paid.payer, paid.recipient, paid.token);
    VoucherPayment::new(paid.network, &channel, total, intent).with_amount(paid.amount).with_shown(paid.block_time)
}

pub(super) async fn a_voucher_pays_once_for_its_intent<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (first, second) = (fixture.intent(), fixture.intent());
    let paid = voucher(fixture, 30_000, first);
    let lease = fixture.hold(&fixture.claim(first, &[Payment::from(paid.clone())])).await?;
    let nothing = lease.charging(Amount::ZERO);
    must_be!(nothing.payment().amount(), amount if amount.is_zero(), "what is charged");
    must_be!(fixture.ledger.commit(&nothing, None).await?, CommitOutcome::Done, "the commit of a charge of nothing");
    // The client signs the same total again, for another answer.
    let again = [Payment::from(voucher(fixture, 30_000, second))];
    let _ = fixture.sell(&fixture.claim(second, &again)).await?;
    let higher = [Payment::from(voucher(fixture, 30_001, fixture.intent()))];
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &higher)).await?;
    for sold in [&[paid.into()], &again, &higher] {
        let other = fixture.claim(fixture.intent(), sold);
        must_be!(fixture.twin.reserve(&other).await?, ReserveOutcome::PaymentUsed, "each of them for another intent");
    }
    Ok(())
}
