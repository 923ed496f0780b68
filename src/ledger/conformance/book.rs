//! Books contain each sale once, as it was paid, in order; refunds are noted once.

use std::time::{Duration, UNIX_EPOCH};

use super::{
    super::{
        BookedSale, CommitOutcome, DayTotal, KeptAnswer, Ledger as _, RefundOutcome, SalesBook, SalesQuery, UtcDay,
    },
    Fault, Harness,
    fixture::{Fixture, HEAD, LONG, PAID, PAY_UNTIL, must_be, unsettled},
    suite,
};
use crate::{
    ledger::Claim,
    protocol::{Address, Amount, Binding, ChainTime, IntentKey, Network, Payment, SignedTransfer, Transfer, TxHash},
};

/// The number of sales for checks that read pages.
const MANY: usize = 25;
/// The number of sales that are recorded while the book is read.
const RUNNING: usize = 60;
/// The size of an answer that takes a while to store, in bytes.
const LARGE: usize = 256 * 1024;

suite! {
    /// All checks of a book.
    BOOK_CHECKS;
    /// Runs every check of a [`SalesBook`], each on a ledger of its own, and reports all violations.
    run_book<H: Harness where Ledger: SalesBook>;

    what_is_sold_is_booked: "a sale is in the book from its commit on, once, as it was paid";
    booked_as_it_was_settled: "what was settled after it was reserved is booked by the transfer that settled it";
    booked_as_its_holder_settled_it: "a commit under a lost lease changes nothing in what its successor sells";
    booked_as_it_was_charged: "a sale is in the book with its charge and with what its payer allowed, also when it is forgotten";
    what_is_not_sold_is_not_booked: "what is held or was freed is in no book";
    pages_follow_each_other: "pages of any size show every sale once, in one order";
    no_sale_comes_in_behind_a_reader: "a reader that goes on from the last sale it read misses none, however long a commit takes";
    no_sale_of_the_same_moment_is_missed: "a reader that goes on after each sale misses none, however close they are and whatever their ids";
    a_query_is_a_span_and_a_resource: "a query shows the sales of its span and of its resource, and no others";
    totals_are_exact: "a day's total is the sum of its sales, however large";
    a_refund_is_noted_once: "a refund is noted once; the same again changes nothing, and another is not noted";
    refunds_are_shown: "a refund is shown with its sale, and known of what was not sold";
    payments_are_known_apart: "whether a payment is sold is told of each, in the order that was asked";
}

fn claim_of(resource: &str, intent: IntentKey, payment: impl Into<Payment>) -> Claim {
    let [pay_until, head] = [PAY_UNTIL, HEAD].map(ChainTime::from_unix);
    Claim::builder(resource, intent).pay_until(pay_until).head(head).payments([payment]).lease(LONG).build()
}

async fn sell<H: Harness>(fixture: &Fixture<'_, H>, resource: &str, transfer: &Transfer) -> Result<(), Fault> {
    fixture.sell(&claim_of(resource, fixture.intent(), transfer.clone())).await.map(drop)
}

/// Sells several payments at the same time, if the ledger writes several sales at once.
async fn sell_at_once<H: Harness>(fixture: &Fixture<'_, H>, paid: &[Transfer]) -> Result<(), Fault> {
    let mut commits = Vec::new();
    for paid in paid {
        let lease = fixture.hold(&claim_of("pages", fixture.intent(), paid.clone())).await?;
        let ledger = std::sync::Arc::clone(&fixture.ledger);
        commits.push(tokio::spawn(async move { ledger.commit(&lease, None).await }));
    }
    for commit in commits {
        let outcome = commit.await.map_err(|_| Fault::new("a commit panicked"))?;
        must_be!(outcome?, CommitOutcome::Done, "a commit");
    }
    Ok(())
}

fn everything() -> SalesQuery {
    SalesQuery::since(UNIX_EPOCH)
}

async fn all<B: SalesBook>(book: &B, query: SalesQuery) -> Result<Vec<BookedSale>, Fault> {
    let (mut sales, mut all) = (book.sales(query), Vec::new());
    while let Some(sale) = sales.next().await {
        all.push(sale?);
    }
    Ok(all)
}

/// Returns the only sale of the book.
async fn only<B: SalesBook>(book: &B) -> Result<BookedSale, Fault> {
    let mut sales = all(book, everything()).await?;
    match (sales.pop(), sales.is_empty()) {
        (Some(sale), true) => Ok(sale),
        (_, _) => Err(Fault::new(format!("the book has {} sales too many, or none", sales.len()))),
    }
}

async fn what_is_sold_is_booked<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mut paid = fixture.paid().with_amount(Amount::MAX);
    paid.position = u32::MAX;
    let resource = "demand insights: 100 %, \"quoted\" = 'yes'\\ é";
    let lease = fixture.sell(&claim_of(resource, fixture.intent(), paid.clone())).await?;
    // However often it is committed, there is one sale.
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit again");
    for book in [&fixture.ledger, &fixture.twin] {
        let sale = only(&**book).await?;
        let expected = BookedSale::new(resource, &paid.clone().into(), sale.sold_at);
        must_be!(&sale, sale if *sale == expected, "the sale");
        must_be!(sale.sold_at, sold_at if sold_at >= UNIX_EPOCH, "the time of the sale");
    }
    Ok(())
}

async fn booked_as_it_was_settled<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mined =
        fixture.paid().with_binding(Binding::none().with_nonce([7; 32])).with_block(77, ChainTime::from_unix(PAID + 9));
    let signed = SignedTransfer::new(mined.network, mined.token, mined.payer, [7; 32])
        .with_recipient(mined.recipient)
        .with_amount(mined.amount)
        .with_shown(mined.block_time);
    let held = fixture.hold(&claim_of("signed", fixture.intent(), signed)).await?;
    let lease = held.clone().settled_by(mined.clone());
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    let sale = only(&*fixture.twin).await?;
    let expected = BookedSale::new("signed", &mined.clone().into(), sale.sold_at);
    must_be!(sale, sale if sale == expected, "the sale");
    // A repeated commit says that the sale is recorded, and changes nothing in it.
    let moved = fixture.paid().with_binding(mined.binding).with_block(99, ChainTime::from_unix(PAID + 99));
    let again = held.settled_by(moved);
    must_be!(fixture.twin.commit(&again, None).await?, CommitOutcome::Done, "a commit by another transaction");
    must_be!(only(&*fixture.ledger).await?, sale if sale == expected, "the sale after that");
    Ok(())
}

/// One authorization. Its first holder saw it mined in one transaction, the second in another.
async fn booked_as_its_holder_settled_it<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mined = |block| {
        let binding = Binding::none().with_nonce([8; 32]);
        fixture.paid().with_binding(binding).with_block(block, ChainTime::from_unix(PAID + block))
    };
    let (dropped, kept) = (mined(70), mined(77));
    let signed = SignedTransfer::new(kept.network, kept.token, kept.payer, [8; 32])
        .with_recipient(kept.recipient)
        .with_amount(kept.amount)
        .with_shown(dropped.block_time);
    let old = fixture.hold(&fixture.brief(fixture.intent(), &[signed])).await?;
    fixture.run_out().await;
    let new = fixture.hold(&fixture.claim(old.intent(), std::slice::from_ref(&kept))).await?;
    let old = old.settled_by(dropped);
    must_be!(fixture.twin.commit(&old, None).await?, CommitOutcome::LeaseLost, "the first holder's commit");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the second holder's commit");
    must_be!(fixture.twin.commit(&old, None).await?, CommitOutcome::LeaseLost, "the first holder's commit again");
    let sale = only(&*fixture.ledger).await?;
    let expected = BookedSale::new("conformance", &kept.clone().into(), sale.sold_at);
    must_be!(sale, sale if sale == expected, "the sale");
    Ok(())
}

async fn booked_as_it_was_charged<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let units = Amount::from_base_units;
    let nothing = fixture.hold(&fixture.claim(fixture.intent(), &[unsettled(fixture)])).await?.charging(Amount::ZERO);
    let (allowed, late) = (unsettled(fixture), fixture.brief(fixture.intent(), &[unsettled(fixture)]));
    let maximum = allowed.amount();
    let lost = fixture.hold(&late).await?.charging(units(5));
    fixture.run_out().await;
    let whole = fixture.hold(&late).await?;
    let mined = fixture.paid().with_amount(units(1_858)).with_block(77, ChainTime::from_unix(PAID + 9));
    let mined = mined.with_binding(Binding::none().with_nonce(allowed.nonce().copied().unwrap_or_default()));
    let part = fixture.hold(&fixture.claim(fixture.intent(), &[allowed])).await?;
    let part = part.charging(mined.amount).settled_by(mined.clone());
    must_be!(fixture.ledger.commit(&lost, None).await?, CommitOutcome::LeaseLost, "the charge of a lost lease");
    for lease in [&nothing, &part, &whole] {
        for ledger in [&fixture.ledger, &fixture.twin] {
            must_be!(ledger.commit(lease, None).await?, CommitOutcome::Done, "the commit, and its repetition");
        }
    }
    let expected = |sale: &BookedSale| {
        let (payment, maximum) = match sale.payment {
            id if id == part.payment().id() => (Payment::from(mined.clone()), Some(maximum)),
            id if id == nothing.payment().id() => (nothing.payment().clone(), Some(maximum)),
            _ => (whole.payment().clone(), None),
        };
        BookedSale::new("conformance", &payment, sale.sold_at).with_maximum(maximum)
    };
    let later = ChainTime::from_unix(HEAD).after(Duration::from_secs(30 * 86_400));
    for forgotten in [false, true] {
        let sales = all(&*fixture.twin, everything()).await?;
        // Some books contain only the sales that the ledger remembers.
        must_be!(sales.len(), length if length == 3 || forgotten, "the number of sales");
        for sale in sales {
            must_be!(&sale, sale if *sale == expected(sale), "the sale");
        }
        let _ = fixture.ledger.sweep(Network::BASE, later).await?;
    }
    Ok(())
}

async fn what_is_not_sold_is_not_booked<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (held, freed) = (fixture.paid(), fixture.paid());
    let _held = fixture.hold(&fixture.claim(fixture.intent(), std::slice::from_ref(&held))).await?;
    let lease = fixture.hold(&fixture.claim(fixture.intent(), std::slice::from_ref(&freed))).await?;
    fixture.ledger.release(&lease).await?;
    must_be!(all(&*fixture.ledger, everything()).await?.len(), 0, "the number of sales");
    let known = fixture.ledger.known(&[held.payment_id(), freed.payment_id()]).await?;
    must_be!(known, known if known.iter().all(|known| !known.sold && known.refund.is_none()), "what is known");
    Ok(())
}

async fn pages_follow_each_other<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mut paid = Vec::new();
    for _ in 0..MANY {
        paid.push(fixture.paid());
    }
    sell_at_once(fixture, &paid).await?;
    paid.sort_by_key(|paid| paid.payment_id().to_string());
    let whole = all(&*fixture.ledger, everything()).await?;
    let is_sorted = whole.is_sorted_by_key(|sale| (sale.sold_at, sale.payment.to_string()));
    must_be!(is_sorted, true, "the order of sales by time and payment");
    let mut names: Vec<_> = whole.iter().map(|sale| sale.payment.to_string()).collect();
    names.sort_unstable();
    let expected: Vec<_> = paid.iter().map(|paid| paid.payment_id().to_string()).collect();
    must_be!(names == expected, true, "every sale once");
    for most in [1, 2, 7, MANY - 1, MANY, MANY + 1] {
        let mut read = Vec::<BookedSale>::new();
        loop {
            let page = fixture.twin.page(&everything(), read.last(), most).await?;
            let is_last = page.len() < most;
            must_be!(page.len(), length if length <= most, "the length of a page");
            read.extend(page);
            if is_last {
                break;
            }
            must_be!(read.len(), length if length <= MANY, "the sales of all pages");
        }
        must_be!(read == whole, true, "all pages together");
    }
    Ok(())
}

/// Concurrent commits end at different times: some store an answer, and some do not.
async fn no_sale_comes_in_behind_a_reader<H: Harness<Ledger: SalesBook>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let mut commits = Vec::new();
    for number in 0..RUNNING {
        let lease = fixture.hold(&claim_of("running", fixture.intent(), fixture.paid())).await?;
        let ledger = [&fixture.ledger, &fixture.twin][number % 2].clone();
        let answer = (number % 3 == 0).then(|| KeptAnswer::new(vec![0; LARGE], LONG));
        commits.push(tokio::spawn(async move { ledger.commit(&lease, answer.as_ref()).await }));
    }
    let mut read = Vec::new();
    loop {
        let is_over = commits.iter().all(tokio::task::JoinHandle::is_finished);
        let page = fixture.twin.page(&everything(), read.last(), RUNNING).await?;
        let is_read = page.is_empty();
        read.extend(page);
        must_be!(read.len(), length if length <= RUNNING, "the sales that the reader saw");
        if is_over && is_read {
            break;
        }
    }
    for commit in commits {
        let outcome = commit.await.map_err(|_| Fault::new("a commit panicked"))?;
        must_be!(outcome?, CommitOutcome::Done, "a commit");
    }
    must_be!(read.len(), RUNNING, "the sales that the reader saw");
    must_be!(read == all(&*fixture.twin, everything()).await?, true, "what the reader saw, and the book");
    Ok(())
}

/// Later sales have smaller ids, and little time lies between them.
async fn no_sale_of_the_same_moment_is_missed<H: Harness<Ledger: SalesBook>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let mut paid: Vec<_> = (0..RUNNING).map(|_| fixture.paid()).collect();
    paid.sort_by_key(|paid| std::cmp::Reverse(paid.payment_id().to_string()));
    let mut leases = Vec::new();
    for paid in paid {
        leases.push(fixture.hold(&claim_of("close", fixture.intent(), paid)).await?);
    }
    let mut read = Vec::new();
    for lease in &leases {
        must_be!(fixture.ledger.commit(lease, None).await?, CommitOutcome::Done, "a commit");
        read.extend(fixture.ledger.page(&everything(), read.last(), RUNNING).await?);
    }
    read.extend(fixture.ledger.page(&everything(), read.last(), RUNNING).await?);
    let is_sorted = read.is_sorted_by_key(|sale| (sale.sold_at, sale.payment.to_string()));
    must_be!(is_sorted, true, "the order of the sales that the reader saw");
    must_be!(read.len(), RUNNING, "the sales that the reader saw");
    Ok(())
}

async fn a_query_is_a_span_and_a_resource<H: Harness<Ledger: SalesBook>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    for resource in ["first", "second", "first", "first", "second"] {
        sell(fixture, resource, &fixture.paid()).await?;
        // So that the next sale has another time.
        fixture.harness.pass(Duration::from_millis(2)).await;
    }
    let book = &*fixture.ledger;
    let whole = all(book, everything()).await?;
    must_be!(whole.len(), 5, "all sales");
    let moment = |place: usize| whole[place].sold_at;
    let tick = Duration::from_nanos(1);
    for query in [
        everything().resource("first"),
        everything().resource("second"),
        everything().resource("firs"),
        everything().resource("First"),
        SalesQuery::since(moment(1)),
        SalesQuery::since(moment(1) + tick),
        SalesQuery::since(moment(4) + tick),
        everything().until(moment(3)),
        everything().until(moment(3) + tick),
        SalesQuery::since(moment(1)).until(moment(4)).resource("first"),
        SalesQuery::since(moment(3)).until(moment(1)),
    ] {
        let told = all(book, query.clone()).await?;
        let expected: Vec<_> = whole.iter().filter(|sale| query.has(sale)).cloned().collect();
        let told = (told == expected).then_some(()).ok_or((told.len(), expected.len(), query));
        must_be!(told, Ok(()), "the sales of a query, and how many there are");
    }
    Ok(())
}

async fn totals_are_exact<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let large = Amount::from_base_units(u128::MAX);
    let other = Address::new([0x99; 20]);
    for (resource, token, amount) in
        [("a", None, large), ("a", None, large), ("a", Some(other), large), ("b", None, Amount::from_base_units(1))]
    {
        let paid = fixture.paid().with_amount(amount);
        let paid = token.map_or(paid.clone(), |token| paid.with_token(token));
        sell(fixture, resource, &paid).await?;
    }
    let sales = all(&*fixture.ledger, everything().resource("a")).await?;
    let Some(first) = sales.first() else { return Err(Fault::new("there are no sales")) };
    must_be!(
        fixture.ledger.note_refund(first.payment, TxHash::new([1; 32])).await?,
        RefundOutcome::Noted,
        "the refund"
    );
    let totals = fixture.twin.totals(everything()).await?;
    // The test may run past midnight.
    let sum = |of: &dyn Fn(&DayTotal) -> u64| totals.iter().map(of).sum::<u64>();
    must_be!((sum(&|total| total.sales), sum(&|total| total.refunds)), (4, 1), "sales and refunds");
    let twice = large.checked_add(large);
    let of_a = totals.iter().filter(|total| total.resource == "a" && total.token != other);
    let units = of_a.clone().try_fold(Amount::ZERO, |sum, total| sum.checked_add(total.base_units));
    must_be!(units == twice, true, "what the first resource brought in");
    let day = totals.iter().all(|total| total.day >= UtcDay::of(UNIX_EPOCH) && total.refunded <= total.base_units);
    must_be!(day, true, "days and refunds");
    must_be!(totals.is_sorted_by_key(|total| (total.day, total.resource.clone(), total.token)), true, "the order");
    Ok(())
}

async fn a_refund_is_noted_once<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let paid = fixture.paid();
    sell(fixture, "refund", &paid).await?;
    let (payment, first, second) = (paid.payment_id(), TxHash::new([1; 32]), TxHash::new([2; 32]));
    must_be!(fixture.ledger.note_refund(payment, first).await?, RefundOutcome::Noted, "the refund");
    let noted = fixture.ledger.known(&[payment]).await?;
    for book in [&fixture.ledger, &fixture.twin] {
        must_be!(book.note_refund(payment, first).await?, RefundOutcome::NotedBefore, "the same again");
        must_be!(
            book.note_refund(payment, second).await?,
            RefundOutcome::Differs { transaction } if transaction == first,
            "another"
        );
        must_be!(book.known(&[payment]).await? == noted, true, "what is known is unchanged");
    }
    // Of many concurrent refunds of one payment, one is noted.
    let payment = fixture.paid().payment_id();
    let at_once = (0..8_u8).map(|name| {
        let book = if name % 2 == 0 { &fixture.ledger } else { &fixture.twin };
        let book = std::sync::Arc::clone(book);
        tokio::spawn(async move { book.note_refund(payment, TxHash::new([name; 32])).await })
    });
    let mut noted = 0;
    for outcome in at_once.collect::<Vec<_>>() {
        let outcome = outcome.await.map_err(|_| Fault::new("a refund panicked"))??;
        must_be!(outcome, RefundOutcome::Noted | RefundOutcome::Differs { .. }, "one of many refunds");
        noted += u32::from(outcome == RefundOutcome::Noted);
    }
    must_be!(noted, 1, "how many of many refunds are noted");
    Ok(())
}

async fn refunds_are_shown<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (sold, kept, unsold) = (fixture.paid(), fixture.paid(), fixture.paid());
    sell(fixture, "refund", &sold).await?;
    sell(fixture, "refund", &kept).await?;
    let transaction = TxHash::new([0xab; 32]);
    for payment in [sold.payment_id(), unsold.payment_id()] {
        must_be!(fixture.ledger.note_refund(payment, transaction).await?, RefundOutcome::Noted, "a refund");
    }
    for sale in all(&*fixture.twin, everything()).await? {
        let expected = (sale.payment == sold.payment_id()).then_some(transaction);
        must_be!(sale.refund.map(|refund| refund.transaction) == expected, true, "the refund of a sale");
    }
    let known = fixture.twin.known(&[unsold.payment_id()]).await?;
    must_be!(
        known.first().map(|known| (known.sold, known.refund.map(|refund| refund.transaction))),
        Some((false, Some(noted))) if noted == transaction,
        "what was given back unsold"
    );
    Ok(())
}

async fn payments_are_known_apart<H: Harness<Ledger: SalesBook>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let paid = fixture.paid();
    let beside = Transfer { position: 1, ..paid.clone() };
    let signed = fixture.paid().with_binding(Binding::none().with_nonce([9; 32]));
    let (unknown, elsewhere) =
        (fixture.paid(), Transfer { network: crate::protocol::Network::BASE_SEPOLIA, ..paid.clone() });
    sell(fixture, "known", &paid).await?;
    sell(fixture, "known", &signed).await?;
    let asked = [&unknown, &signed, &beside, &paid, &elsewhere, &paid].map(Transfer::payment_id);
    let told: Vec<_> = fixture.twin.known(&asked).await?.iter().map(|known| known.sold).collect();
    must_be!(told == [false, true, false, true, false, true], true, "which of them are sold");
    must_be!(fixture.twin.known(&[]).await?.len(), 0, "what is known of nothing");
    Ok(())
}
