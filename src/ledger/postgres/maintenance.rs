//! What operators ask of the database.

use super::{
    super::{
        Holdings, LedgerError, Maintenance, events,
        sql::{compatible, count, in_time, seconds},
    },
    handle::PostgresLedger,
    statements::Flush,
    sweeps::Sweep,
};
use crate::protocol::ChainTime;

/// How many records one step of an explicit sweep forgets.
const STRIDE: i64 = 1_000;

impl Maintenance for PostgresLedger {
    async fn holdings(&self) -> Result<Holdings, LedgerError> {
        let question = self.one::<(i64, i64, i64)>(Flush::Later, &self.statements.holdings, &[]);
        let (version, held, remembered) =
            in_time(self.time_limit, question).await?.ok_or(LedgerError::incompatible())?;
        compatible(Some(version))?;
        Ok(Holdings { held: count(held), remembered: count(remembered) })
    }

    async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.mark, None).await
    }

    async fn raise_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.raise, Some(time)).await
    }

    async fn lower_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.lower, Some(time)).await
    }

    async fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let sweep = Sweep { low: 0, head: seconds(head), all: true };
            let (sales, leases, attempts, answers) = in_time(self.time_limit, self.forget(sweep, STRIDE)).await?;
            events::forgotten(count(sales));
            events::expired(count(leases));
            forgotten += count(sales);
            if sales.max(leases).max(attempts).max(answers) < STRIDE {
                return Ok(forgotten);
            }
        }
    }
}
