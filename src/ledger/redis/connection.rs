//! The connection: it answers within the time limit or fails, and is replaced whenever it is in doubt.

use std::{
    future::Future,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::redis as driver;
use driver::{ErrorKind, RedisError, RedisResult, ServerErrorKind, aio::ConnectionManager};
use tokio::time::timeout;

use super::{super::LedgerError, source::Source};

/// The default time limit of a question: less than the two seconds after which the paywall stops waiting.
pub(super) const TIME_LIMIT: Duration = Duration::from_millis(1_900);

/// One connection for all tasks. The driver restores it when it breaks. The ledger replaces it if the server does not
/// answer on it, or reports that it no longer leads: the same name may lead to another server by now.
pub(super) struct Connection {
    source: Source,
    time_limit: Duration,
    current: Mutex<Numbered>,
}

#[derive(Clone)]
struct Numbered {
    number: u64,
    /// `None` until the first question.
    connection: Option<ConnectionManager>,
}

impl Connection {
    /// Creates a connection that connects at the first question.
    pub(super) fn new(source: Source, time_limit: Duration) -> Self {
        Self { source, time_limit, current: Mutex::new(Numbered { number: 0, connection: None }) }
    }

    pub(super) const fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Asks one question. If it fails, the server may still have executed it.
    pub(super) async fn ask<T, F>(&self, question: impl FnOnce(ConnectionManager) -> F) -> Result<T, LedgerError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let Numbered { number, connection } = self.current();
        let answer = async {
            let connection = match connection {
                Some(connection) => connection,
                None => self.connect(number).await?,
            };
            question(connection).await
        };
        match timeout(self.time_limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if in_doubt(&error) {
                    self.replace(number);
                }
                Err(failed(&error))
            }
            Err(_) => {
                self.replace(number);
                tracing::warn!("the ledger's server did not answer in time");
                Err(LedgerError::unavailable())
            }
        }
    }

    fn current(&self) -> Numbered {
        // A panic cannot leave a partial value behind: each change is a single assignment.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects under this number. If several tasks connect at once, each may find the server, and they share one
    /// connection.
    async fn connect(&self, number: u64) -> RedisResult<ConnectionManager> {
        let found = self.source.connection(self.time_limit).await?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.number == number {
            return Ok(current.connection.get_or_insert(found).clone());
        }
        Ok(found)
    }

    /// Gives up this connection, unless another task already did. The next question opens a new one.
    fn replace(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.number == number {
            *current = Numbered { number: number.wrapping_add(1), connection: None };
        }
    }
}

/// Whether the error is no answer, or comes from a server that should not be asked.
fn in_doubt(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(kind) => {
            matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading)
        }
        // The server is out of memory, lacks replicas or the like; or another version answered.
        ErrorKind::Extension | ErrorKind::UnexpectedReturnType => false,
        _ => true,
    }
}

/// The server's error code; for a pipeline, that of the first failed command.
pub(super) fn code(error: &RedisError) -> Option<String> {
    let errors = error.clone().into_server_errors()?;
    errors.first().map(|(_, error)| error.code().to_owned())
}

/// Logs the driver's error kind only, since its messages may quote an address or the data.
pub(super) fn failed(error: &RedisError) -> LedgerError {
    let kind = match error.kind() {
        ErrorKind::Server(kind) => format!("{kind:?}"),
        ErrorKind::Io if error.is_timeout() => "timeout".to_owned(),
        ErrorKind::Io => "connection lost".to_owned(),
        kind => format!("{kind:?}"),
    };
    tracing::warn!(kind, "the ledger's server failed");
    match code(error).as_deref() {
        // A key holds another type than this version writes.
        Some("WRONGTYPE") => LedgerError::incompatible(),
        _ => LedgerError::unavailable(),
    }
}
