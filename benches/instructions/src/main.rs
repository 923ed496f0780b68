//! Counts the instructions of each path under valgrind, and compares them with those in `benches/instructions.baseline`.
//!
//! ```sh
//! cargo run --release -p tower-x402-instructions              # fails where a path is further than 3 % from its baseline
//! cargo run --release -p tower-x402-instructions -- --write   # writes a new baseline
//! cargo run --release -p tower-x402-instructions -- PATH 1000 # serves a path so often, for a profiler
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
#[path = "../../paths/mod.rs"]
mod paths;

use std::{
    collections::BTreeMap,
    env, fs,
    process::{Command, ExitCode},
    thread,
};

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../instructions.baseline");
const HEAD: &str = "\
# Instructions to serve one request, as `just bench-instructions --write` counted them (x86-64, release).
";
/// One run serves so many requests and another twice as many: their difference excludes the start, and the creation
/// of requests.
const REQUESTS: usize = 200;
/// The tolerated deviation from the baseline, as a share of it.
const TOLERANCE: f64 = 0.03;
/// The deviation in instructions that is tolerated in any case: compiled differently because of changes elsewhere,
/// the smallest paths move by so much.
const SMALL: u64 = 80;
/// How often a path that seems to deviate more is counted: hash maps are seeded randomly, and a refusal that reads
/// many of them deviates by 3 % in about one of a hundred runs.
const ATTEMPTS: usize = 4;

fn main() -> ExitCode {
    match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => compare(),
        [write] if write == "--write" => write_baseline(),
        [path, times] => serve(path, times.parse().expect("a number of requests")),
        _ => panic!("no argument, `--write`, or a path and a number of requests"),
    }
}

/// Serves the requests to count. The number of created requests does not depend on `times`, and they are created one
/// by one: creating them all ahead would be work for the allocator that no server has.
fn serve(name: &str, times: usize) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let mut path = paths::all().into_iter().find(|path| path.name == name).expect("a path of the baseline");
    for count in 0..times.max(2 * REQUESTS) {
        let request = path.prepare();
        if count < times {
            assert_eq!(path.serve(request).as_u16(), path.status);
        }
    }
    ExitCode::SUCCESS
}

fn compare() -> ExitCode {
    if !has_valgrind() {
        println!("valgrind is not installed: instructions were NOT counted");
        return ExitCode::SUCCESS;
    }
    let baseline = read_baseline();
    let mut far = 0;
    println!("| Path | Instructions | Baseline | |\n|---|---:|---:|---:|");
    let mut gone = baseline.clone();
    for name in names() {
        gone.remove(&name);
        let Some(&before) = baseline.get(&name) else {
            println!("| {name} | {} | none | |", one_request(&name));
            far += 1;
            continue;
        };
        let is_far =
            |count: u64| count.abs_diff(before) as f64 > TOLERANCE * before as f64 && count.abs_diff(before) > SMALL;
        let mut count = one_request(&name);
        for _ in 1..ATTEMPTS {
            if is_far(count) {
                println!("| {name} | {count} | {before} | counted again |");
                count = one_request(&name);
            }
        }
        let change = count as f64 / before as f64 - 1.0;
        let beyond = is_far(count);
        far += u32::from(beyond);
        println!("| {name} | {count} | {before} | {:+.1} %{} |", change * 100.0, if beyond { " !" } else { "" });
    }
    for name in gone.keys() {
        println!("| {name} | gone | | |");
        far += 1;
    }
    if far > 0 {
        println!(
            "{far} paths are further than 3 % from the baseline. If that is meant: `just bench-instructions --write`, and for a rise a line in benches/README.md"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write_baseline() -> ExitCode {
    assert!(has_valgrind(), "valgrind is not installed");
    let lines: String = names().iter().map(|name| format!("{name} | {}\n", one_request(name))).collect();
    print!("{lines}");
    fs::write(BASELINE, format!("{HEAD}{lines}")).unwrap();
    ExitCode::SUCCESS
}

fn read_baseline() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(BASELINE).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('|'));
    lines.map(|(name, count)| (name.trim().to_owned(), count.trim().parse().unwrap())).collect()
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|ran| ran.status.success())
}

/// Returns the instructions of one request.
fn one_request(name: &str) -> u64 {
    let (once, twice) = thread::scope(|scope| {
        let once = scope.spawn(|| count(name, REQUESTS));
        let twice = count(name, 2 * REQUESTS);
        (once.join(), twice)
    });
    (twice - once.unwrap()) / REQUESTS as u64
}

fn names() -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    paths::all().iter().map(|path| path.name.to_owned()).collect()
}

/// Returns the instructions of one process that serves this path so often.
fn count(name: &str, times: usize) -> u64 {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().unwrap())
        .args([name, &times.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{name}: {said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : ")).expect("what callgrind collected");
    collected.1.trim().parse().unwrap()
}
