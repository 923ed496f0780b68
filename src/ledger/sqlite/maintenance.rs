//! What operators ask of the file.

use super::{
    super::{
        Holdings, LedgerError, Maintenance, events,
        sql::{SCHEMA, compatible, count, in_time},
    },
    codes::ask,
    handle::SqliteLedger,
    question::{Answer, Question, Word},
};
use crate::protocol::ChainTime;

impl Maintenance for SqliteLedger {
    async fn holdings(&self) -> Result<Holdings, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, i64, i64)>(self.statements.holdings.sql());
            question.fetch_optional(&self.readers)
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        let (version, held, remembered) = told.ok_or(LedgerError::incompatible())?;
        compatible(Some(version))?;
        Ok(Holdings { held: count(held), remembered: count(remembered) })
    }

    async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, Option<i64>)>(self.statements.mark.sql());
            question.bind(SCHEMA).fetch_optional(&self.readers)
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    async fn raise_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.tell(Word::Raise, time).await
    }

    async fn lower_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.tell(Word::Lower, time).await
    }

    async fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let Answer::Swept { sales, more } = self.ask(Question::Sweep(head)).await? else {
                return Err(LedgerError::unavailable());
            };
            events::forgotten(count(sales));
            forgotten += count(sales);
            if !more {
                return Ok(forgotten);
            }
        }
    }
}
