//! Full-text search: SQLite's FTS5 with BM25, in memory.

use std::time::Duration;

use sqlx::{
    Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use super::{
    data::{Chat, Data, Goal, Speaker},
    text,
};

const SCHEMA: &str = "
    CREATE VIRTUAL TABLE chats USING fts5(tags, country, visitor, team, tokenize = 'porter unicode61');
    CREATE VIRTUAL TABLE turns USING fts5(text, tokenize = 'porter unicode61');
    CREATE VIRTUAL TABLE goals USING fts5(tags, country, role, goal, tokenize = 'porter unicode61');";

// BM25 is smaller for better matches. The numbers are the weights of the columns.
const CHATS: &str =
    "SELECT rowid, bm25(chats, 4.0, 2.0, 2.0, 1.0) AS score FROM chats WHERE chats MATCH ? ORDER BY score, rowid";
const TURNS: &str = "SELECT rowid, bm25(turns) AS score FROM turns WHERE turns MATCH ? ORDER BY score, rowid";
const GOALS: &str =
    "SELECT rowid, bm25(goals, 4.0, 2.0, 1.0, 2.0) AS score FROM goals WHERE goals MATCH ? ORDER BY score, rowid";

/// The minimum score of a relevant record, as a share of the best score.
const RELEVANT: f64 = 0.4;
/// The minimum number of records to keep: one rare word must not reduce an answer to two records.
const AT_LEAST: usize = 8;

/// One visitor's message: position of the chat, position in the chat.
pub(crate) type TurnAt = (usize, usize);

/// The index over chats, visitors' messages and goals.
#[derive(Debug)]
pub(crate) struct Index {
    pool: SqlitePool,
    /// The origin of each row of `turns`.
    turns: Vec<TurnAt>,
}

impl Index {
    /// Builds the index.
    ///
    /// # Errors
    /// Fails with the error of SQLite.
    pub(crate) async fn build(data: &Data) -> sqlx::Result<Self> {
        let pool = open().await?;
        let mut write = pool.begin().await?;
        sqlx::raw_sql(SCHEMA).execute(&mut *write).await?;
        let turns = add_chats(&data.chats.records, &mut write).await?;
        add_goals(&data.goals.records, &mut write).await?;
        write.commit().await?;
        Ok(Self { pool, turns })
    }

    /// Returns the positions of the chats about any of `terms`, best first.
    pub(crate) async fn chats(&self, terms: &[String]) -> sqlx::Result<Vec<usize>> {
        Ok(relevant(self.ranked(CHATS, terms).await?))
    }

    /// Returns the positions of the goals about any of `terms`, best first.
    pub(crate) async fn goals(&self, terms: &[String]) -> sqlx::Result<Vec<usize>> {
        Ok(relevant(self.ranked(GOALS, terms).await?))
    }

    /// Returns the visitors' messages with any of `terms`, best first.
    pub(crate) async fn turns(&self, terms: &[String]) -> sqlx::Result<Vec<TurnAt>> {
        let rows = self.ranked(TURNS, terms).await?;
        Ok(rows.iter().filter_map(|(row, _)| self.turns.get(*row).copied()).collect())
    }

    async fn ranked(&self, sql: &'static str, terms: &[String]) -> sqlx::Result<Vec<(usize, f64)>> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(i64, f64)> = sqlx::query_as(sql).bind(text::any_of(terms)).fetch_all(&self.pool).await?;
        Ok(rows.into_iter().filter_map(|(row, score)| Some((usize::try_from(row).ok()?, score))).collect())
    }
}

/// Opens a pool over one in-memory database. sqlx gives it a name and a shared cache, so every connection sees the
/// same tables. It lives as long as a connection does, so none is ever closed.
async fn open() -> sqlx::Result<SqlitePool> {
    let options: SqliteConnectOptions = "sqlite::memory:".parse()?;
    SqlitePoolOptions::new()
        .min_connections(1)
        .max_connections(4)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options)
        .await
}

async fn add_chats(chats: &[Chat], write: &mut Transaction<'_, Sqlite>) -> sqlx::Result<Vec<TurnAt>> {
    let mut turns = Vec::new();
    for (row, chat) in chats.iter().enumerate() {
        sqlx::query("INSERT INTO chats (rowid, tags, country, visitor, team) VALUES (?, ?, ?, ?, ?)")
            .bind(row as i64)
            .bind(chat.tags.join("; "))
            .bind(&chat.country)
            .bind(said_by(chat, Speaker::Visitor))
            .bind(said_by(chat, Speaker::Team))
            .execute(&mut **write)
            .await?;
        for (at, turn) in chat.turns.iter().enumerate().filter(|(_, turn)| turn.by == Speaker::Visitor) {
            sqlx::query("INSERT INTO turns (rowid, text) VALUES (?, ?)")
                .bind(turns.len() as i64)
                .bind(&turn.text)
                .execute(&mut **write)
                .await?;
            turns.push((row, at));
        }
    }
    Ok(turns)
}

async fn add_goals(goals: &[Goal], write: &mut Transaction<'_, Sqlite>) -> sqlx::Result<()> {
    for (row, goal) in goals.iter().enumerate() {
        sqlx::query("INSERT INTO goals (rowid, tags, country, role, goal) VALUES (?, ?, ?, ?, ?)")
            .bind(row as i64)
            .bind(goal.tags.join("; "))
            .bind(&goal.country)
            .bind(&goal.role)
            .bind(&goal.goal)
            .execute(&mut **write)
            .await?;
    }
    Ok(())
}

fn said_by(chat: &Chat, who: Speaker) -> String {
    let texts: Vec<_> = chat.turns.iter().filter(|turn| turn.by == who).map(|turn| turn.text.as_str()).collect();
    texts.join("\n")
}

/// Returns the rows near the best one; scores are negative.
fn relevant(rows: Vec<(usize, f64)>) -> Vec<usize> {
    let limit = rows.first().map_or(0.0, |(_, best)| best * RELEVANT);
    let near = rows.iter().take_while(|(_, score)| *score <= limit).count();
    rows.into_iter().take(near.max(AT_LEAST)).map(|(row, _)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn index() -> (Data, Index) {
        let data = Data::example().unwrap();
        let index = Index::build(&data).await.unwrap();
        (data, index)
    }

    #[tokio::test]
    async fn the_best_chats_are_about_the_question() {
        let (data, index) = index().await;
        for (question, tag) in [
            ("refund after cancelling", "refund policy"),
            ("GDPR", "data privacy"),
            ("white label for agencies", "white label"),
        ] {
            let rows = index.chats(&text::terms(question)).await.unwrap();
            assert!(rows.len() >= 5, "{question}: {}", rows.len());
            assert!(rows[..5].iter().all(|row| data.chats.records[*row].tags.iter().any(|t| t == tag)), "{question}");
        }
    }

    #[tokio::test]
    async fn syntax_and_unknown_words_are_no_error() {
        let (_, index) = index().await;
        for question in ["\" OR 1=1 --", "NEAR(", "*", "visitor:", "AND OR NOT", "xylophone", "日本語", "", "a\0b"] {
            assert!(index.chats(&text::terms(question)).await.is_ok(), "{question}");
            assert!(index.goals(&text::terms(question)).await.is_ok(), "{question}");
        }
    }

    #[tokio::test]
    async fn every_connection_sees_the_same_database() {
        let (_, index) = index().await;
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(index.pool.acquire().await.unwrap());
        }
        for connection in &mut held {
            let (rows,): (i64,) =
                sqlx::query_as("SELECT count(*) FROM goals").fetch_one(&mut **connection).await.unwrap();
            assert!(rows >= 1_200);
        }
    }
}
