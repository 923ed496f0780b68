//! What the program says on standard error while it runs: for people, or as JSON for whatever collects it.

use std::{
    env,
    io::{self, IsTerminal as _},
    panic,
};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::json_lines::JsonLines;

/// The program's own lines, whatever module they come from.
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
    /// Begins. `RUST_LOG` decides what is said beside the program's own lines; without it, warnings and sales are.
    pub(crate) fn start(self) {
        let lines = tracing_subscriber::fmt().with_env_filter(filter()).with_writer(io::stderr);
        // Codes for colours have no business in files and pipes.
        let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let _ = match self {
            Self::Text => lines.with_ansi(colour).try_init(),
            Self::Json => {
                panic::set_hook(Box::new(|panic| tracing::error!(target: TARGET, "{panic}")));
                lines.with_ansi(false).event_format(JsonLines).try_init()
            }
        };
    }

    /// The last line of a program that failed.
    pub(crate) fn failed(self, reason: &str) {
        match self {
            Self::Text => eprintln!("error: {reason}"),
            Self::Json => tracing::error!(target: TARGET, "{reason}"),
        }
    }
}

fn filter() -> EnvFilter {
    let asked = env::var("RUST_LOG").ok().filter(|asked| EnvFilter::try_new(asked).is_ok());
    // What was sold is said too: a restored backup is told of it by `ledger replay`.
    let asked = asked.unwrap_or_else(|| "warn,tower_x402=info".to_owned());
    let filter = EnvFilter::new(format!("{TARGET}=info,{asked}"));
    // It would quote from a URL.
    match "sqlx_postgres::options=off".parse() {
        Ok(silent) => filter.add_directive(silent),
        Err(_) => filter,
    }
}
