//! SQLite's result codes, and retries while another process is writing.

use super::super::{LedgerError, sql::failed};

/// Asks again and again while another process is writing. The caller sets the time limit.
pub(super) async fn ask<T, F: Future<Output = sqlx::Result<T>>>(question: impl Fn() -> F) -> Result<T, LedgerError> {
    loop {
        match question().await {
            Err(error) if is_busy(&error) => {}
            answer => return answer.map_err(|error| failed(&error)),
        }
    }
}

/// SQLite's result code.
fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// `SQLITE_BUSY` and its variants.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == 5)
}

/// `SQLITE_IOERR` and its variants.
pub(super) fn is_broken(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == 10)
}
