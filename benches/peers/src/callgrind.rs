//! Instructions, counted by valgrind's callgrind if it is installed.

use std::{
    env,
    error::Error,
    io::ErrorKind,
    process::{Command, Output},
};

const REQUESTS: u64 = 250;

/// Returns the instructions of one request: the difference of runs with 2N and N requests, divided by N, so that
/// one-time work is in neither.
///
/// `None` if valgrind is not installed.
pub(crate) fn instructions(contender: &str, path: &str) -> Result<Option<f64>, Box<dyn Error>> {
    let (Some(once), Some(twice)) = (run(contender, path, REQUESTS)?, run(contender, path, 2 * REQUESTS)?) else {
        return Ok(None);
    };
    Ok(Some((twice - once) / REQUESTS as f64))
}

fn run(contender: &str, path: &str, requests: u64) -> Result<Option<f64>, Box<dyn Error>> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Counts the answers only, not the creation of requests.
        .args(["--collect-atstart=no", "--toggle-collect=peers::measure::drive"])
        .arg(env::current_exe()?)
        .args(["--run", contender, path, &requests.to_string()])
        .output();
    match ran {
        Ok(output) => collected(&output).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn collected(output: &Output) -> Result<f64, Box<dyn Error>> {
    let told = String::from_utf8_lossy(&output.stderr);
    let count = told.lines().find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    match count {
        Some(count) if output.status.success() && count > 0.0 => Ok(count),
        _ => Err(format!("callgrind counted nothing: {told}").into()),
    }
}
