//! The ledger's questions to the server.

use std::{sync::Arc, time::Duration};

use super::{
    super::{
        AccountLedger, Announcements, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome,
        ReserveOutcome, Sale, Settling, events,
        last_sale::{self, Recorded},
        sql::{
            self, BATCH, Grant, KEPT, SCHEMA, Seen, SnapshotRow, SqlBackend, Written, chain, compatible, count,
            in_time, micros, seconds,
        },
    },
    connection::{Borrowed, Row, ask},
    handle::PostgresLedger,
    line::{Question, ReservedColumns},
    statements::{Flush, Literal, Statements, Text, UNKNOWN, array, bytes, flag, null, numeric, payment, text, whole},
};
use crate::{
    ledger::stored::transaction,
    protocol::{ChainTime, IntentKey, Network, Payment, PaymentId, PurchaseKey},
};

/// A grant: fence and mark; whether the book has the pair, and whether a begun settlement bars it; the request digest,
/// head and transaction of its own begun settlement; and the number of leases that had expired.
type Granted = (Option<i64>, Option<i64>, Option<bool>, Option<bool>, Option<String>, Option<i64>, Option<String>, i64);

/// The first values of a statement on an intent and a payment.
fn pair(intent: IntentKey, paid: &Payment) -> [Literal; 2] {
    [bytes(intent.as_bytes()), payment(paid.id())]
}

/// The values of a statement on a lease, which its fence identifies.
fn held(lease: &Lease, rest: impl IntoIterator<Item = Literal>) -> Vec<Literal> {
    let lease = pair(lease.intent(), lease.payment()).into_iter().chain([whole(lease.fencing_token().cast_signed())]);
    lease.chain(rest).collect()
}

/// The values of a sale whose payment was settled after its reservation.
fn settled_values(lease: &Lease, paid: &Payment) -> [Literal; 5] {
    [
        bytes(transaction(paid).as_bytes()),
        whole(paid.position().unwrap_or_default().into()),
        whole(paid.block_number().unwrap_or_default().cast_signed()),
        whole(seconds(paid.time())),
        whole(seconds(lease.keep_until())),
    ]
}

/// The same values for any other payment, as nulls.
fn unsettled_values() -> [Literal; 5] {
    ["bytea", "bigint", "bigint", "bigint", "bigint"].map(null)
}

/// The index of the chain in the terms.
const CHAIN: usize = 2;

/// The values to record of a sale.
fn terms(claim: &Claim, paid: &Payment) -> [Literal; 12] {
    [
        bytes(transaction(paid).as_bytes()),
        whole(paid.position().unwrap_or_default().into()),
        whole(chain(paid.network())),
        text(claim.resource()),
        bytes(paid.payer().as_bytes()),
        bytes(paid.recipient().as_bytes()),
        bytes(paid.token().as_bytes()),
        numeric(paid.amount()),
        whole(paid.block_number().unwrap_or_default().cast_signed()),
        whole(seconds(paid.time())),
        whole(seconds(claim.keep_until(paid))),
        whole(micros(claim.lease())),
    ]
}

/// The purchase of a sale, or null.
fn purchase(purchase: Option<PurchaseKey>) -> Literal {
    purchase.map_or_else(|| null("bytea"), |purchase| bytes(purchase.as_bytes()))
}

/// Converts a row of a look; ignores the columns of a grant.
fn snapshot_row(line: ReservedColumns) -> Result<SnapshotRow, LedgerError> {
    let (version, mark, intent_sold, intent_left, sold, left, block_time, .., barred, purchase, _, _, _) = &line;
    let purchase = purchase.as_deref().map(const_hex::decode).transpose().map_err(|_| LedgerError::incompatible())?;
    Ok(SnapshotRow {
        version: *version,
        mark: *mark,
        intent_sold: *intent_sold,
        intent_left: *intent_left,
        sold: *sold,
        left: *left,
        block_time: *block_time,
        barred: *barred,
        purchase: purchase.map(sql::purchase).transpose()?,
        purchase_sold: line.11,
        purchase_left: line.12,
        purchase_begun: line.13,
    })
}

/// The terms of a claim without payments, as nulls.
fn no_terms() -> [Literal; 12] {
    ["bytea", "bigint", "bigint", "text", "bytea", "bytea", "bytea", "numeric", "bigint", "bigint", "bigint", "bigint"]
        .map(null)
}

/// Decodes the record of a settlement, whose bytes are in hexadecimal.
fn begun(request: &str, head: i64, transaction: Option<&str>) -> Result<Settling, LedgerError> {
    let bytes = |text: &str| const_hex::decode(text).map_err(|_| LedgerError::incompatible());
    sql::settling(bytes(request)?, head, transaction.map(bytes).transpose()?)
}

impl PostgresLedger {
    /// Asks one question in a transaction of its own.
    pub(super) async fn rows<T: Row>(&self, flush: Flush, question: &Text, values: &[Literal]) -> sqlx::Result<Vec<T>> {
        self.rows_in(self.time_limit, flush, question, values).await
    }

    /// The same, on condition that the server knows the last sales of this process: a server that does not would sell
    /// lost payments again.
    pub(super) async fn known_rows<T: Row>(
        &self,
        flush: Flush,
        question: &Text,
        values: &[Literal],
    ) -> sqlx::Result<Vec<T>> {
        let asked = self.rows_with(self.time_limit, flush, &self.last_sales.get(), question, values).await;
        asked.inspect_err(|error| {
            let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
            if code.as_deref() == Some(UNKNOWN) {
                last_sale::is_unknown();
            }
        })
    }

    /// The same, with another time limit.
    pub(super) async fn rows_in<T: Row>(
        &self,
        time_limit: Duration,
        flush: Flush,
        question: &Text,
        values: &[Literal],
    ) -> sqlx::Result<Vec<T>> {
        self.rows_with(time_limit, flush, &[], question, values).await
    }

    async fn rows_with<T: Row>(
        &self,
        time_limit: Duration,
        flush: Flush,
        last: &[Recorded],
        question: &Text,
        values: &[Literal],
    ) -> sqlx::Result<Vec<T>> {
        let mut connection = Borrowed::from(&self.pool).await?;
        let question = self.statements.question(flush, time_limit, last, question, values);
        let rows = connection.rows(question).await?;
        connection.give_back();
        Ok(rows)
    }

    /// The same, retried if the database undid the transaction. Returns the first row of the answer.
    pub(super) async fn one<T: Row>(
        &self,
        flush: Flush,
        question: &Text,
        values: &[Literal],
    ) -> Result<Option<T>, LedgerError> {
        Ok(ask(|| self.rows(flush, question, values)).await?.into_iter().next())
    }

    /// Looks something up without a lease. Anyone can cause such a look-up, as often as they like, so few run at a
    /// time.
    async fn look_up<T>(&self, question: impl Future<Output = Result<T, LedgerError>>) -> Result<T, LedgerError> {
        in_time(self.time_limit, async {
            let _permits = self.shares.enter_look_up().await?;
            question.await
        })
        .await
    }

    /// Asks about the ledger's own rows: the version and a chain's mark, with a time for the mark.
    pub(super) async fn memory(
        &self,
        question: &Text,
        network: Option<Network>,
        time: Option<ChainTime>,
    ) -> Result<Option<ChainTime>, LedgerError> {
        let mark = network.map(chain).into_iter().chain(time.map(seconds));
        let values: Vec<_> = [SCHEMA].into_iter().chain(mark).map(whole).collect();
        let told = in_time(self.time_limit, self.one::<(i64, Option<i64>)>(Flush::Now, question, &values)).await?;
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    /// Forgets up to [`BATCH`] records of each kind. Returns the number of sales, leases and answers. A crash may bring
    /// them back.
    async fn forget(&self, network: Network, head: ChainTime) -> Result<(i64, i64, i64), LedgerError> {
        let values = [chain(network), seconds(head), micros(KEPT), BATCH].map(whole);
        let told = self.one(Flush::Later, &self.statements.sweep, &values).await?;
        told.ok_or(LedgerError::unavailable())
    }

    /// Returns a lease on the written grant, if it holds. If not, releases it, since no caller has it.
    async fn settle(&self, claim: &Claim, paid: &Payment, written: &Written) -> Result<Option<Lease>, LedgerError> {
        let lease = written.lease(claim, paid)?;
        if !written.holds(paid) {
            let values = held(&lease, []);
            self.one::<(i64,)>(Flush::Later, &self.statements.release, &values).await?;
            return Ok(None);
        }
        Ok(Some(lease))
    }
}

impl SqlBackend for PostgresLedger {
    async fn look(&self, claim: &Claim) -> Result<Seen, LedgerError> {
        let payments = claim.payments().iter().map(|paid| payment(paid.id()));
        let candidates = [bytes(claim.intent().as_bytes()), array(payments, "text")];
        let first = claim.payments().first();
        let mut terms = first.map_or_else(no_terms, |first| terms(claim, first));
        // Here the array of all chains.
        terms[CHAIN] = array(claim.payments().iter().map(|paid| whole(chain(paid.network()))), "bigint");
        let line = if claim.is_unproven() { &self.unproven } else { &self.proven };
        let question = Arc::new(Question {
            text: |say| &say.reserve,
            values: candidates.into_iter().chain(terms).chain([purchase(claim.purchase())]).collect(),
            payment: first.map(Payment::id),
            weight: claim.payments().len().max(1),
            time_limit: self.time_limit,
        });
        loop {
            let lines = self.together(line, &question).await?;
            let granted = lines.first().and_then(|&(_, mark, .., fence, is_void, barred, _, _, _, _)| {
                // If a settlement was begun, the statement grants nothing at once.
                Some(Written { fence: fence?, mark, settling: None, barred, is_void })
            });
            let (Some(written), Some(first)) = (granted, first) else {
                let rows: Result<_, LedgerError> = lines.into_iter().map(snapshot_row).collect();
                return Ok(Seen::Snapshot(rows?));
            };
            if let Some(lease) = self.settle(claim, first, &written).await? {
                events::reserved(&lease);
                return Ok(Seen::Granted(lease));
            }
        }
    }

    async fn prolong(&self, claim: &Claim, paid: &Payment) -> Result<(), LedgerError> {
        let later = [whole(seconds(paid.time())), whole(seconds(claim.keep_until(paid)))];
        let values: Vec<_> = pair(claim.intent(), paid).into_iter().chain(later).collect();
        let _permit = self.shares.enter(claim.is_unproven()).await?;
        ask(|| self.rows::<(bool,)>(Flush::Later, &self.statements.prolong, &values)).await.map(drop)
    }

    async fn grant(&self, claim: &Claim, wish: Grant<'_>) -> Result<Option<Lease>, LedgerError> {
        let values = pair(claim.intent(), wish.paid).into_iter().chain(terms(claim, wish.paid));
        let values: Vec<_> = values.chain([purchase(wish.purchase), flag(wish.takes_over)]).collect();
        let _permit = self.shares.enter(claim.is_unproven()).await?;
        let told = ask(|| self.known_rows::<Granted>(Flush::Later, &self.statements.grant, &values)).await?;
        let (fence, mark, is_void, barred, request, head, hash, expired) =
            told.into_iter().next().ok_or(LedgerError::unavailable())?;
        events::expired(count(expired));
        let Some(fence) = fence else { return Ok(None) };
        let settling = match (request, head) {
            (Some(request), Some(head)) => Some(begun(&request, head, hash.as_deref())?),
            _ => None,
        };
        let [is_void, barred] = [is_void, barred].map(|told| told == Some(true));
        let written = Written { fence, mark, settling, barred, is_void };
        let lease = self.settle(claim, wish.paid, &written).await?;
        if let Some(lease) = &lease {
            events::reserved(lease);
        }
        Ok(lease)
    }
}

impl Ledger for PostgresLedger {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.memory(&self.statements.start, Some(network), Some(now)).await?.ok_or(LedgerError::incompatible())
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        in_time(self.time_limit, sql::reserve(self, claim)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        let values = held(lease, [whole(micros(lease.length()))]);
        let question = self.one::<(bool,)>(Flush::Later, &self.statements.renew, &values);
        Ok(match in_time(self.time_limit, question).await? {
            Some(_) => RenewOutcome::Held,
            None => RenewOutcome::LeaseLost,
        })
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        let hash = settling.transaction.map_or_else(|| null("bytea"), |transaction| bytes(transaction.as_bytes()));
        let (keep_until, chain) = (seconds(lease.keep_until()), chain(lease.payment().network()));
        let begun = [bytes(&settling.request), whole(seconds(settling.head)), hash, whole(keep_until), whole(chain)];
        let values = held(lease, [whole(micros(lease.length()))].into_iter().chain(begun));
        let question = self.one::<(bool,)>(Flush::Now, &self.statements.settling, &values);
        let (held,) = in_time(self.time_limit, question).await?.ok_or(LedgerError::unavailable())?;
        Ok(if held { RenewOutcome::Held } else { RenewOutcome::LeaseLost })
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        let values = held(lease, []);
        let question = self.one::<(bool,)>(Flush::Later, &self.statements.not_settled, &values);
        in_time(self.time_limit, question).await.map(drop)
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let text: fn(&Statements) -> &Text = match (lease.maximum(), lease.is_to_announce()) {
            (Some(_), _) => |say| &say.commit_charge,
            (None, true) => |say| &say.commit_to_announce,
            (None, false) => |say| &say.commit,
        };
        let charge = lease.maximum().map(|_| [numeric(lease.payment().amount()), flag(lease.is_to_announce())]);
        let settled = lease.settled_since().map_or_else(unsettled_values, |paid| settled_values(lease, paid));
        let values = held(lease, settled.into_iter().chain(charge.into_iter().flatten()));
        let kept = KeptAnswer::to_keep(answer).and_then(|answer| Some((answer, self.answers.take(answer)?)));
        let sold = in_time(self.time_limit, async {
            match &kept {
                Some((answer, _)) => ask(|| self.commit_to_keep(lease, text(&self.statements), &values, answer)).await,
                None => {
                    let (payment, time_limit) = (Some(lease.payment().id()), self.time_limit);
                    let question = Arc::new(Question { text, values, payment, weight: 1, time_limit });
                    let told = self.together(&self.commits, &question).await?;
                    told.first().map(|(sold,)| *sold).ok_or(LedgerError::unavailable())
                }
            }
        })
        .await?;
        if sold == Some(true) {
            if let Some((_, space)) = kept {
                space.keep();
            }
            events::consumed(lease);
        }
        if sold.is_none() {
            return Ok(CommitOutcome::LeaseLost);
        }
        self.last_sales.note(lease);
        Ok(CommitOutcome::Done)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        let values = held(lease, []);
        let question = self.one::<(i64,)>(Flush::Later, &self.statements.release, &values);
        if in_time(self.time_limit, question).await?.is_some_and(|(freed,)| freed > 0) {
            events::released(lease);
        }
        Ok(())
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        let values = [bytes(intent.as_bytes())];
        let question = self.one::<(bool, Option<String>)>(Flush::Later, &self.statements.sold, &values);
        let (consumed, answer) = self.look_up(question).await?.ok_or(LedgerError::unavailable())?;
        let answer = answer.map(const_hex::decode).transpose().map_err(|_| LedgerError::incompatible())?;
        Ok(consumed.then(|| Sale::new().with_answer(answer.map(Into::into))))
    }

    async fn begun(&self, intent: IntentKey, id: PaymentId) -> Result<Option<Settling>, LedgerError> {
        Ok(self.begun_among(intent, &[id]).await?.map(|(_, begun)| begun))
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        let values = [bytes(intent.as_bytes())];
        let question = self.one::<(String, String, i64, Option<String>)>(Flush::Later, &self.statements.begun, &values);
        let told = self.look_up(question).await?;
        let Some((payment, request, head, transaction)) = told else { return Ok(None) };
        let Some(payment) = sql::among(payments, &payment)? else { return Ok(None) };
        Ok(Some((payment, begun(&request, head, transaction.as_deref())?)))
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.memory(&self.statements.health, None, None).await?;
        let version = ask(|| self.known_rows::<(i64,)>(Flush::Later, &self.statements.version, &[]));
        in_time(self.time_limit, version).await.map(drop)
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let (sales, leases, answers) = in_time(self.time_limit, self.forget(network, head)).await?;
            events::forgotten(count(sales));
            events::expired(count(leases));
            forgotten += count(sales);
            if sales.max(leases).max(answers) < BATCH {
                break;
            }
        }
        let measured = self.one::<(i64,)>(Flush::Later, &self.statements.answer_bytes, &[]);
        if let Some((bytes,)) = in_time(self.time_limit, measured).await? {
            self.answers.measured(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        Ok(forgotten)
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        Some(self.answers.space())
    }
}
