//! Three datasets that sell their answers: `cargo run --example datasets --all-features -- --help`.

#[path = "app.rs"]
mod app;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    app::run::main().await
}
