//! Prints the table.

use peers::{Case, Path, contenders::OURS};

/// One contender on one path.
pub(crate) struct Line {
    pub(crate) contender: &'static str,
    pub(crate) path: Path,
    /// Of one request, for each round.
    pub(crate) seconds: Vec<f64>,
    allocations: f64,
    pub(crate) instructions: Option<f64>,
}

impl Line {
    /// Creates a line without measurements; finds its allocations among the counts.
    pub(crate) fn new(case: &Case, counted: &str) -> Self {
        let key = format!("{}\t{}\t", case.path.name(), case.contender);
        let allocations = counted.lines().find_map(|line| line.strip_prefix(&key)?.parse().ok());
        let allocations = allocations.expect("`allocations` is of the same build");
        Self { contender: case.contender, path: case.path, seconds: Vec::new(), allocations, instructions: None }
    }

    /// Compares the times within each round, so that longer noise affects both.
    fn slower_than(&self, other: &Self) -> f64 {
        median(self.seconds.iter().zip(&other.seconds).map(|(this, other)| this / other))
    }
}

pub(crate) fn print(lines: &[Line]) {
    println!("| Path | Contender | Time | to bare | to ours | Allocations | to ours | Instructions | to ours |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    let bare = &lines[0];
    for line in lines {
        let ours = lines.iter().find(|ours| ours.path == line.path && ours.contender == OURS);
        let path = line.path.name();
        let nanoseconds = median(line.seconds.iter().copied()) * 1e9;
        let time = ours.map(|ours| line.slower_than(ours));
        let allocations = ours.map(|ours| line.allocations / ours.allocations);
        let instructions = ours.and_then(|ours| Some(line.instructions? / ours.instructions?));
        println!(
            "| {path} | {} | {nanoseconds:.0} ns | {:.2} | {} | {:.0} | {} | {} | {} |",
            line.contender,
            line.slower_than(bare),
            ratio(time),
            line.allocations,
            ratio(allocations),
            line.instructions.map_or_else(|| "no valgrind".to_owned(), |count| format!("{:.1} k", count / 1e3)),
            ratio(instructions),
        );
    }
    print_quote(lines);
}

/// Prints the cost of this crate's quotes compared with the two routes that they are judged by.
fn print_quote(lines: &[Line]) {
    let of = |path, contender| lines.iter().find(|line| line.path == path && line.contender == contender);
    let (quote, json, constant) =
        (of(Path::Unpaid, OURS), of(Path::Bare, "axum, Json"), of(Path::Bare, "axum, constant 402"));
    if let (Some(quote), Some(json), Some(constant)) = (quote, json, constant) {
        let (json, constant) = (quote.slower_than(json), quote.slower_than(constant));
        println!("\nOur quote takes {json:.2} of the time of `axum, Json`, and {constant:.2} of `axum, constant 402`.");
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
