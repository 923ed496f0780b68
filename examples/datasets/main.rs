//! Three datasets that sell their answers: `cargo run --example datasets -- --help`.

#[path = "app.rs"]
mod app;

use std::{env, path::PathBuf, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    // Until the flags are there: only the generator.
    let dir = env::args_os().nth(1).map_or_else(app::data::default_dir, PathBuf::from);
    match app::generate::write(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
