//! The program's log on standard error: text for people, or JSON for log collectors.

use std::{
    env,
    io::{self, IsTerminal as _},
    panic,
};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::json_lines::JsonLines;

/// The target of the program's own lines, in every module.
pub(crate) const TARGET: &str = super::PROGRAM;

/// `--log`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Log {
    /// Lines of text, in colour on a terminal
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

impl Log {
    /// Starts logging. `RUST_LOG` decides what is logged beside the program's own lines; the default is warnings and
    /// sales.
    pub(crate) fn start(self) {
        let lines = tracing_subscriber::fmt().with_env_filter(filter()).with_writer(io::stderr);
        // Colour codes do not belong into files and pipes.
        let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let _ = match self {
            Self::Text => lines.with_ansi(colour).try_init(),
            Self::Json => {
                panic::set_hook(Box::new(|panic| tracing::error!(target: TARGET, "{panic}")));
                lines.with_ansi(false).event_format(JsonLines).try_init()
            }
        };
    }

    /// Logs the last line of a program that failed.
    pub(crate) fn failed(self, reason: &str) {
        match self {
            Self::Text => eprintln!("error: {reason}"),
            Self::Json => tracing::error!(target: TARGET, "{reason}"),
        }
    }
}

fn filter() -> EnvFilter {
    let asked = env::var("RUST_LOG").ok().filter(|asked| EnvFilter::try_new(asked).is_ok());
    // Sales are logged too: after a restored backup, `ledger replay` reads them from the log.
    let asked = asked.unwrap_or_else(|| "warn,tower_x402=info".to_owned());
    let filter = EnvFilter::new(format!("{TARGET}=info,{asked}"));
    // That module's log lines would quote from a URL.
    match "sqlx_postgres::options=off".parse() {
        Ok(silent) => filter.add_directive(silent),
        Err(_) => filter,
    }
}
