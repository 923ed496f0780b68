//! Prints one table: the cost of each contender's answer on each path, in time, allocations and instructions.
//!
//! ```sh
//! peers                          # all of it, some minutes
//! peers --run CONTENDER PATH N   # N requests and nothing else: what callgrind looks at
//! ```

mod callgrind;
mod table;

use std::{
    env,
    error::Error,
    process::{Command, exit},
};

use peers::{Case, contenders, measure};
use tokio::runtime::Runtime;

use crate::table::Line;

/// How many rounds measure all contenders in turn, and how many requests each measurement has, after some uncounted
/// ones: the processor's caches are full of the contender before.
const ROUNDS: usize = 101;
const REQUESTS: usize = 400;
const WARM_UP: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let runtime = measure::runtime();
    let mut cases = contenders::all(&runtime);
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let lines = measure_all(&runtime, &mut cases)?;
            table::print(&lines);
        }
        ["--run", contender, path, requests] => {
            let case = cases.iter_mut().find(|case| case.contender == contender && case.path.name() == path);
            case.ok_or("nobody of that name is on that path")?.time(&runtime, requests.parse()?);
        }
        _ => {
            eprintln!("usage: peers [--run CONTENDER PATH N]");
            exit(2);
        }
    }
    Ok(())
}

fn measure_all(runtime: &Runtime, cases: &mut [Case]) -> Result<Vec<Line>, Box<dyn Error>> {
    for case in &mut *cases {
        case.check(runtime);
        case.time(runtime, REQUESTS);
    }
    let allocations = allocations()?;
    let mut lines: Vec<_> = cases.iter().map(|case| Line::new(case, &allocations)).collect();
    for round in 0..ROUNDS {
        eprint!("\r{round} of {ROUNDS} rounds");
        for (case, line) in cases.iter_mut().zip(&mut lines) {
            case.time(runtime, WARM_UP);
            let took = case.time(runtime, REQUESTS).as_secs_f64() / REQUESTS as f64;
            line.seconds.push(took);
        }
    }
    eprintln!();
    for line in &mut lines {
        line.instructions = callgrind::instructions(line.contender, line.path.name())?;
    }
    Ok(lines)
}

/// Returns the counts of the program `allocations`: its allocator counts, and would slow this program down.
fn allocations() -> Result<String, Box<dyn Error>> {
    let program = env::current_exe()?.with_file_name(format!("allocations{}", env::consts::EXE_SUFFIX));
    let output =
        Command::new(program).output().map_err(|error| format!("`allocations` must be built, too: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
