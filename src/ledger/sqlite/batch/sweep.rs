//! Forgets sales and settlements that cannot come back, leases that ended long ago, and expired answers.

use sqlx::{Row as _, SqliteConnection};

use super::{
    super::{
        super::sql::{KEPT, chain, seconds},
        statements::Statements,
    },
    rows::{millis, on},
};
use crate::protocol::{ChainTime, Network};

/// The numbers of forgotten records.
pub(super) struct Swept {
    pub(super) sales: i64,
    pub(super) leases: i64,
    /// Whether there may be more to forget.
    pub(super) more: bool,
}

/// Forgets the records that this head of a chain allows, up to a limit of each kind.
pub(super) async fn sweep(
    work: &mut SqliteConnection,
    say: &Statements,
    (network, head): (Network, ChainTime),
    most: i64,
) -> sqlx::Result<Swept> {
    let old = sqlx::query(say.forgettable.sql()).bind(seconds(head)).bind(most).bind(millis(KEPT));
    let old = old.bind(chain(network)).fetch_one(&mut *work).await?;
    let (sales, mark): (i64, Option<i64>) = (old.try_get(0)?, old.try_get(2)?);
    if sales > 0 {
        let fences: String = old.try_get(1)?;
        on(&say.book, fences.clone()).execute(&mut *work).await?;
        on(&say.drop_answers, fences.clone()).execute(&mut *work).await?;
        on(&say.forget_sales, fences).execute(&mut *work).await?;
        sqlx::query(say.raise_over.sql()).bind(mark).bind(chain(network)).execute(&mut *work).await?;
    }
    let mut leases = 0;
    if old.try_get(3)? {
        let gone = sqlx::query(say.forget_leases.sql()).bind(millis(KEPT)).bind(most).execute(&mut *work).await?;
        leases = i64::try_from(gone.rows_affected()).unwrap_or(i64::MAX);
    }
    let mut answers = 0;
    if old.try_get(4)? {
        let gone = sqlx::query(say.forget_answers.sql()).bind(most).execute(&mut *work).await?;
        answers = i64::try_from(gone.rows_affected()).unwrap_or(i64::MAX);
    }
    let mut begun = 0;
    if old.try_get(5)? {
        let gone = sqlx::query(say.forget_settling.sql()).bind(seconds(head)).bind(most).bind(chain(network));
        let gone = gone.execute(work).await?;
        begun = i64::try_from(gone.rows_affected()).unwrap_or(i64::MAX);
    }
    let more = sales.max(leases).max(answers).max(begun) >= most;
    Ok(Swept { sales, leases, more })
}
