//! Announcements: a marked sale waits from its commit until it is announced.

use super::{
    super::{Announcements, BookedSale, CommitOutcome, KeptAnswer, Lease, Ledger, ReserveOutcome},
    Fault, Harness,
    dropped::{POLLS, broken_off},
    fixture::{Fixture, HEAD, LONG, PAID, must_be, unsettled},
    suite,
};
use crate::protocol::{Amount, Binding, ChainTime, Network, Payment, Transfer, TxHash};

/// The number of sales for checks that read pages.
const MANY: usize = 9;
/// Long after the age at which sales are forgotten.
const LATER: u64 = HEAD + 30 * 86_400;

suite! {
    /// All checks of a ledger that marks sales.
    ANNOUNCEMENT_CHECKS;
    /// Runs every check of a ledger with [`announcements`](Ledger::announcements), each on a ledger of its own, and
    /// reports all violations.
    run_announcements<H: Harness where Ledger: Announcements>;

    a_sale_waits_for_its_announcement: "a sale that is to be announced waits from its commit on, as it was paid, through every handle";
    what_is_not_to_be_announced_does_not_wait: "what is sold without that, held, freed or lost does not wait";
    a_repeated_commit_marks_nothing_again: "what was announced does not wait again when its commit is repeated";
    it_waits_as_it_was_settled: "what was settled after it was reserved waits as it was settled";
    it_waits_as_it_was_charged: "a sale waits with its charge and with what its payer allowed";
    pages_follow_each_other: "pages of any size show what waits once, in one order, also while some of it is announced";
    it_waits_longer_than_the_sale_is_remembered: "what waits is not forgotten with its sale";
    a_dropped_commit_waits: "a commit that is dropped on its way and repeated has marked its sale";
    a_dropped_acknowledgement_is_repeated: "an acknowledgement that is dropped on its way is repeated";
}

/// Reserves an unused payment, to be announced.
async fn hold<H: Harness, P: Clone + Into<Payment>>(fixture: &Fixture<'_, H>, paid: &P) -> Result<Lease, Fault> {
    let claim = fixture.claim(fixture.intent(), std::slice::from_ref(paid));
    Ok(fixture.hold(&claim).await?.announcing())
}

/// Sells an unused payment, with or without an answer to keep.
async fn sell<H: Harness>(fixture: &Fixture<'_, H>, paid: &Transfer, answer: bool) -> Result<Lease, Fault> {
    let lease = hold(fixture, paid).await?;
    let answer = answer.then(|| KeptAnswer::new("an answer", LONG));
    must_be!(fixture.ledger.commit(&lease, answer.as_ref()).await?, CommitOutcome::Done, "the commit");
    Ok(lease)
}

/// Returns the waiting sales, in the ledger's order.
async fn waiting<A: Announcements>(ledger: &A, most: usize) -> Result<Vec<BookedSale>, Fault> {
    let mut all = Vec::<BookedSale>::new();
    loop {
        let page = ledger.unannounced(all.last(), most).await?;
        let is_last = page.len() < most;
        must_be!(page.len(), length if length <= most, "the length of a page");
        all.extend(page);
        must_be!(all.len(), length if length <= 1_000, "how many wait");
        if is_last {
            return Ok(all);
        }
    }
}

async fn a_sale_waits_for_its_announcement<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    must_be!(fixture.ledger.announcements().is_some(), true, "whether the ledger says that it marks sales");
    for answer in [false, true] {
        let paid = fixture.paid();
        let lease = hold(fixture, &paid).await?;
        must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait before the commit");
        let answer = answer.then(|| KeptAnswer::new("an answer", LONG));
        must_be!(fixture.ledger.commit(&lease, answer.as_ref()).await?, CommitOutcome::Done, "the commit");
        for ledger in [&fixture.ledger, &fixture.twin] {
            let told = waiting(&**ledger, MANY).await?;
            let [sale] = &told[..] else { return Err(Fault::new(format!("{} sales wait", told.len()))) };
            let expected = BookedSale::new("conformance", &paid.clone().into(), sale.sold_at);
            must_be!(sale, sale if *sale == expected, "the sale");
        }
        for ledger in [&fixture.twin, &fixture.ledger] {
            ledger.announced(paid.payment_id()).await?;
            must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait after that");
        }
        let again = fixture.claim(fixture.intent(), &[paid]);
        must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "the sale after its announcement");
    }
    Ok(())
}

async fn what_is_not_to_be_announced_does_not_wait<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    let _held = hold(fixture, &fixture.paid()).await?;
    let freed = hold(fixture, &fixture.paid()).await?;
    fixture.ledger.release(&freed).await?;
    must_be!(fixture.ledger.commit(&freed, None).await?, CommitOutcome::LeaseLost, "commit of a released lease");
    // The payment now belongs to another claim, without announcements.
    let paid = [fixture.paid()];
    let lost = fixture.hold(&fixture.brief(fixture.intent(), &paid)).await?.announcing();
    fixture.run_out().await;
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &paid)).await?;
    must_be!(fixture.ledger.commit(&lost, None).await?, CommitOutcome::LeaseLost, "commit of a lost lease");
    must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait");
    Ok(())
}

async fn a_repeated_commit_marks_nothing_again<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    let paid = fixture.paid();
    let lease = sell(fixture, &paid, false).await?;
    must_be!(fixture.twin.commit(&lease, None).await?, CommitOutcome::Done, "the commit again");
    must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 1, "how many wait");
    fixture.ledger.announced(paid.payment_id()).await?;
    must_be!(fixture.twin.commit(&lease, None).await?, CommitOutcome::Done, "the commit after the announcement");
    must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait after that");
    Ok(())
}

async fn it_waits_as_it_was_settled<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    let signed = unsettled(fixture);
    let nonce = signed.nonce().copied().unwrap_or_default();
    let mined = Transfer { transaction: TxHash::new([9; 32]), position: 7, ..fixture.paid() }
        .with_binding(Binding::none().with_nonce(nonce))
        .with_block(77, ChainTime::from_unix(PAID + 9));
    let lease = hold(fixture, &signed).await?.settled_by(mined.clone());
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    let told = waiting(&*fixture.twin, MANY).await?;
    let [sale] = &told[..] else { return Err(Fault::new(format!("{} sales wait", told.len()))) };
    let expected = BookedSale::new("conformance", &mined.clone().into(), sale.sold_at);
    must_be!(sale, sale if *sale == expected, "the sale");
    Ok(())
}

async fn it_waits_as_it_was_charged<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    let allowed = unsettled(fixture);
    let lease = hold(fixture, &allowed).await?.charging(Amount::from_base_units(1_858));
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    let told = waiting(&*fixture.twin, MANY).await?;
    let [sale] = &told[..] else { return Err(Fault::new(format!("{} sales wait", told.len()))) };
    let expected = BookedSale::new("conformance", lease.payment(), sale.sold_at).with_maximum(Some(allowed.amount()));
    must_be!(sale, sale if *sale == expected, "the sale");
    Ok(())
}

async fn pages_follow_each_other<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    for number in 0..MANY {
        let _ = sell(fixture, &fixture.paid(), number % 2 == 0).await?;
    }
    let whole = waiting(&*fixture.ledger, MANY + 1).await?;
    must_be!(whole.len(), MANY, "how many wait");
    let is_sorted = whole.is_sorted_by_key(|sale| (sale.sold_at, sale.payment.to_string()));
    must_be!(is_sorted, true, "the order of what waits by time and payment");
    for most in [1, 2, MANY - 1, MANY] {
        must_be!(waiting(&*fixture.twin, most).await? == whole, true, "all pages together");
    }
    let (done, rest) = whole.split_at(MANY / 2);
    for sale in done {
        fixture.ledger.announced(sale.payment).await?;
    }
    let behind = fixture.twin.unannounced(done.last(), MANY).await?;
    must_be!(behind == rest, true, "what waits behind one that was announced");
    must_be!(waiting(&*fixture.twin, 2).await? == rest, true, "what waits still");
    Ok(())
}

async fn it_waits_longer_than_the_sale_is_remembered<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    let _ = sell(fixture, &fixture.paid(), true).await?;
    let before = waiting(&*fixture.ledger, MANY).await?;
    for _ in 0..3 {
        let _ = fixture.ledger.sweep(Network::BASE, ChainTime::from_unix(LATER)).await?;
    }
    must_be!(waiting(&*fixture.ledger, MANY).await? == before, true, "what waits");
    for sale in &before {
        fixture.ledger.announced(sale.payment).await?;
    }
    must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait after their announcement");
    Ok(())
}

async fn a_dropped_commit_waits<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    for polls in 1..=POLLS {
        let paid = fixture.paid();
        let lease = hold(fixture, &paid).await?;
        let answer = broken_off(fixture.ledger.commit(&lease, None), polls).await;
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "a commit after a dropped one");
        let told = waiting(&*fixture.ledger, MANY).await?;
        must_be!(told.iter().map(|sale| sale.payment).eq([paid.payment_id()]), true, "what waits after that");
        fixture.ledger.announced(paid.payment_id()).await?;
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}

async fn a_dropped_acknowledgement_is_repeated<H>(fixture: &Fixture<'_, H>) -> Result<(), Fault>
where
    H: Harness<Ledger: Announcements>,
{
    for polls in 1..=POLLS {
        let paid = fixture.paid();
        let _ = sell(fixture, &paid, false).await?;
        let answer = broken_off(fixture.ledger.announced(paid.payment_id()), polls).await;
        fixture.ledger.announced(paid.payment_id()).await?;
        must_be!(waiting(&*fixture.ledger, MANY).await?.len(), 0, "how many wait after that");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}
