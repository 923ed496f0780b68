//! The load generator: `wrk` with one thread.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::shop::{PROOF, QUESTION};

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    /// Answers with a status of 400 or more.
    pub(crate) refused: u64,
    pub(crate) per_second: f64,
    pub(crate) p99_microseconds: f64,
}

pub(crate) struct Wrk {
    script: PathBuf,
}

impl Wrk {
    /// Stores its script in that folder.
    pub(crate) fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let script = folder.join("wrk.lua");
        fs::write(&script, include_str!("wrk.lua"))?;
        Ok(Self { script })
    }

    /// Sends requests for so many seconds over so many connections, each with a proof from the file, if there is one.
    pub(crate) fn ask(
        &self,
        url: &str,
        connections: u32,
        seconds: u32,
        proofs: Option<&PathBuf>,
    ) -> Result<Outcome, Box<dyn Error>> {
        let output = Command::new("wrk")
            .args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "-s"])
            .arg(&self.script)
            .args([url, "--", QUESTION, PROOF])
            .args(proofs)
            .output()
            .map_err(|error| format!("wrk is needed (apt-get install wrk): {error}"))?;
        let told = String::from_utf8_lossy(&output.stdout);
        let counts: Vec<u64> = told
            .lines()
            .find_map(|line| line.strip_prefix("result "))
            .into_iter()
            .flat_map(|line| line.split(' ').map_while(|count| count.parse().ok()))
            .collect();
        match counts[..] {
            [requests, microseconds, p99, refused, 0] if requests > 0 => Ok(Outcome {
                requests,
                refused,
                per_second: requests as f64 * 1e6 / microseconds as f64,
                p99_microseconds: p99 as f64,
            }),
            _ => Err(format!("wrk failed: {told} {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}
