//! The operators' questions to the file.

use super::{
    super::{
        LedgerError, LedgerSize, Maintenance,
        sql::{SCHEMA, chain, compatible, count, in_time},
    },
    codes::ask,
    handle::SqliteLedger,
    question::MemoryChange,
};
use crate::protocol::{ChainTime, Network};

impl Maintenance for SqliteLedger {
    async fn size(&self) -> Result<LedgerSize, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, i64, i64)>(self.statements.size.sql());
            question.fetch_optional(&self.readers)
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        let (version, held, remembered) = told.ok_or(LedgerError::incompatible())?;
        compatible(Some(version))?;
        Ok(LedgerSize { held: count(held), remembered: count(remembered) })
    }

    async fn low_water_mark(&self, network: Network) -> Result<Option<ChainTime>, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, Option<i64>)>(self.statements.mark.sql());
            question.bind(SCHEMA).bind(chain(network)).fetch_optional(&self.readers)
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    async fn raise_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.tell(MemoryChange::Raise(network, time)).await
    }

    async fn lower_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.tell(MemoryChange::Lower(network, time)).await
    }
}
