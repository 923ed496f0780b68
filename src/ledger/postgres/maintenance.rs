//! The operators' questions to the database.

use super::{
    super::{
        LedgerError, LedgerSize, Maintenance,
        sql::{compatible, count, in_time},
    },
    handle::PostgresLedger,
    statements::Flush,
};
use crate::protocol::{ChainTime, Network};

impl Maintenance for PostgresLedger {
    async fn size(&self) -> Result<LedgerSize, LedgerError> {
        let question = self.one::<(i64, i64, i64)>(Flush::Later, &self.statements.size, &[]);
        let (version, held, remembered) =
            in_time(self.time_limit, question).await?.ok_or(LedgerError::incompatible())?;
        compatible(Some(version))?;
        Ok(LedgerSize { held: count(held), remembered: count(remembered) })
    }

    async fn low_water_mark(&self, network: Network) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.mark, Some(network), None).await
    }

    async fn raise_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.raise, Some(network), Some(time)).await
    }

    async fn lower_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.lower, Some(network), Some(time)).await
    }
}
