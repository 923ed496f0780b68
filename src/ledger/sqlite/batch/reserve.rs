//! The claims of a batch. Claims without a conflict are granted together; the others look again.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{
        super::{
            Claim, Lease, LedgerError, ReserveOutcome, Settling,
            decide::Decision,
            sql::{self, Snapshot, SnapshotRow},
        },
        asked::Asked,
        question::{Answer, Question},
        statements::Statements,
    },
    rows::{Later, grant, json, later_of, on, wishes},
};
use crate::protocol::{IntentKey, Payment, PaymentId, PurchaseKey};

/// After this many lost rounds the client has to repeat the claim later.
const ROUNDS: usize = 16;
/// The time after which it may repeat it.
const AGAIN: Duration = Duration::from_secs(1);

/// Answers every claim; returns the number of leases that had expired.
pub(super) async fn all(work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<i64> {
    // A caller that has left is granted nothing.
    let is_open = |asked: &Asked| claim(asked).is_some() && !asked.is_obsolete();
    let mut open: Vec<usize> = (0..batch.len()).filter(|place| is_open(&batch[*place])).collect();
    let mut expired = 0;
    for _ in 0..ROUNDS {
        if open.is_empty() {
            break;
        }
        let seen = look(work, say, batch, &open).await?;
        if seen.is_empty() {
            // The ledger's own row is missing.
            open.drain(..).for_each(|place| batch[place].answer = Some(Err(LedgerError::incompatible())));
        }
        raise(work, say, batch, &seen).await?;
        let mut round = Round::default();
        for (place, sight) in &seen {
            round.judge(*place, batch, sight);
        }
        expired += round.write(work, say, batch).await?;
        open.retain(|place| batch[*place].answer.is_none());
    }
    for place in open {
        batch[place].answer = Some(Ok(Answer::Reserved(ReserveOutcome::Busy { retry_after: AGAIN })));
    }
    Ok(expired)
}

fn claim(asked: &Asked) -> Option<&Claim> {
    match &asked.question {
        Question::Reserve(claim) => Some(claim),
        _ => None,
    }
}

/// The result of a look for one claim, in the order of its candidates.
#[derive(Default)]
struct Sight {
    snapshot: Snapshot,
    /// For each candidate, the fences of the entries on the intent, on the payment, and of another payment on the
    /// purchase, if any.
    entries: Vec<[Option<i64>; 3]>,
    /// For each candidate, the purchase for a grant.
    purchases: Vec<Option<PurchaseKey>>,
    /// For each candidate, its settlement that was begun for the intent.
    settlings: Vec<Option<Settling>>,
}

/// Returns the sights with the claims' places in the batch.
async fn look(
    work: &mut SqliteConnection,
    say: &Statements,
    batch: &[Asked],
    open: &[usize],
) -> sqlx::Result<Vec<(usize, Sight)>> {
    let claims = open.iter().filter_map(|place| Some((*place, claim(&batch[*place])?)));
    let rows: Vec<_> = claims.flat_map(|(place, claim)| wishes(place, claim)).collect();
    let mut seen = Vec::<(usize, Sight)>::with_capacity(open.len());
    for row in on(&say.look, json(&rows)?).fetch_all(work).await? {
        let place = usize::try_from(row.try_get::<i64, _>(0)?).unwrap_or(usize::MAX);
        if seen.last().is_none_or(|(last, _)| *last != place) {
            seen.push((place, Sight::default()));
        }
        if let Some((_, sight)) = seen.last_mut() {
            sight.entries.push([row.try_get(8)?, row.try_get(9)?, row.try_get(17)?]);
            sight.purchases.push(purchase(&row)?);
            sight.settlings.push(settling(&row)?);
            sight.snapshot.push(snapshot_row(&row)?);
        }
    }
    Ok(seen)
}

fn snapshot_row(row: &SqliteRow) -> sqlx::Result<SnapshotRow> {
    Ok(SnapshotRow {
        version: row.try_get(1)?,
        mark: row.try_get(2)?,
        intent_sold: row.try_get(3)?,
        intent_left: row.try_get(4)?,
        sold: row.try_get(5)?,
        left: row.try_get(6)?,
        block_time: row.try_get(7)?,
        barred: row.try_get(10)?,
        purchase: purchase(row)?,
        purchase_sold: row.try_get(15)?,
        purchase_left: row.try_get(16)?,
        purchase_begun: row.try_get(18)?,
    })
}

fn purchase(row: &SqliteRow) -> sqlx::Result<Option<PurchaseKey>> {
    let purchase = row.try_get::<Option<Vec<u8>>, _>(14)?.map(sql::purchase).transpose();
    purchase.map_err(|error| sqlx::Error::Decode(error.into()))
}

fn settling(row: &SqliteRow) -> sqlx::Result<Option<Settling>> {
    let Some(request) = row.try_get::<Option<Vec<u8>>, _>(11)? else { return Ok(None) };
    let settling = sql::settling(request, row.try_get(12)?, row.try_get(13)?);
    settling.map(Some).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// Prolongs the sales of payments that were mined again later. Such a payment can return later, so its sale is kept
/// longer, and the mark will rise to the later time.
async fn raise(
    work: &mut SqliteConnection,
    say: &Statements,
    batch: &[Asked],
    seen: &[(usize, Sight)],
) -> sqlx::Result<()> {
    let mut later: HashMap<PaymentId, Later> = HashMap::new();
    for (place, sight) in seen {
        let Some(claim) = claim(&batch[*place]) else { continue };
        for paid in sight.snapshot.mined_again(claim) {
            let shown = later_of(claim, paid);
            let last = later.entry(paid.id()).or_insert_with(|| shown.clone());
            // Takes the latest block, and the longest time to keep.
            let keep_until = last.3.max(shown.3);
            if shown.1 > last.1 {
                *last = shown;
            }
            last.3 = keep_until;
        }
    }
    if !later.is_empty() {
        on(&say.prolong, json(&later.values().collect::<Vec<_>>())?).execute(work).await?;
    }
    Ok(())
}

/// One claim's grant.
#[derive(Clone, Copy)]
struct Wished {
    /// The claim's place in the batch.
    place: usize,
    candidate: usize,
    /// The purchase of the grant.
    purchase: Option<PurchaseKey>,
    /// The settlement that was begun for this intent and payment.
    settling: Option<Settling>,
}

/// The grants of one round.
#[derive(Default)]
struct Round {
    grants: Vec<Wished>,
    intents: HashSet<IntentKey>,
    payments: HashSet<PaymentId>,
    purchases: HashSet<PurchaseKey>,
    /// The fences of expired leases that are in the way.
    in_the_way: HashSet<i64>,
}

impl Round {
    fn judge(&mut self, place: usize, batch: &mut [Asked], sight: &Sight) {
        let Some(claim) = claim(&batch[place]) else { return };
        batch[place].answer = Some(match sight.snapshot.decide(claim) {
            Ok(Decision::Free(candidate)) => return self.wish(place, claim, candidate.paid, sight),
            Ok(Decision::Refused(reservation)) => Ok(Answer::Reserved(reservation)),
            Err(error) => Err(error),
        });
    }

    /// Takes the payment, unless another claim of this round has taken it, this intent or this purchase.
    fn wish(&mut self, place: usize, claim: &Claim, paid: &Payment, sight: &Sight) {
        let candidate = claim.payments().iter().position(|other| std::ptr::eq(other, paid));
        let Some(candidate) = candidate else { return };
        let purchase = sight.purchases[candidate];
        let is_taken = purchase.is_some_and(|purchase| self.purchases.contains(&purchase));
        if is_taken || self.payments.contains(&paid.id()) || !self.intents.insert(claim.intent()) {
            return;
        }
        self.payments.insert(paid.id());
        self.purchases.extend(purchase);
        self.in_the_way.extend(sight.entries[candidate].into_iter().flatten());
        self.grants.push(Wished { place, candidate, purchase, settling: sight.settlings[candidate] });
    }

    /// Writes the grants; returns the number of leases that had expired.
    async fn write(self, work: &mut SqliteConnection, say: &Statements, batch: &mut [Asked]) -> sqlx::Result<i64> {
        if self.grants.is_empty() {
            return Ok(0);
        }
        let expired = expire(work, say, &self.in_the_way).await?;
        let chosen = |batch: &'_ [Asked], Wished { place, candidate, purchase, .. }: Wished| {
            claim(&batch[place]).map(|claim| (claim.clone(), claim.payments()[candidate].clone(), purchase))
        };
        let chosen: Vec<_> = self.grants.iter().filter_map(|grant| chosen(batch, *grant)).collect();
        let rows: Vec<_> = chosen.iter().map(|(claim, paid, purchase)| grant(claim, paid, *purchase)).collect();
        let told = on(&say.reserve, json(&rows)?).fetch_all(work).await?;
        let told = told.iter().map(|row| Ok((row.try_get::<Vec<u8>, _>(1)?, row.try_get::<i64, _>(0)?)));
        let granted: HashMap<_, _> = told.collect::<sqlx::Result<_>>()?;
        for (Wished { place, settling, .. }, (claim, paid, _)) in self.grants.iter().zip(&chosen) {
            // A claim without a row looks again.
            let Some(fence) = granted.get(&claim.intent().as_bytes()[..]) else { continue };
            let lease = Lease::new(claim, paid, fence.cast_unsigned()).with_settling(*settling);
            batch[*place].answer = Some(Ok(Answer::Reserved(ReserveOutcome::Granted(lease))));
        }
        Ok(expired)
    }
}

/// Ends expired leases.
async fn expire(work: &mut SqliteConnection, say: &Statements, fences: &HashSet<i64>) -> sqlx::Result<i64> {
    if fences.is_empty() {
        return Ok(0);
    }
    let fences = json(&fences.iter().collect::<Vec<_>>())?;
    let gone = on(&say.expire, fences).execute(work).await?.rows_affected();
    Ok(i64::try_from(gone).unwrap_or(i64::MAX))
}
