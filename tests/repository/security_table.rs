//! `threats.md` keeps its promises: every row names tests that exist, and every row that a comment cites is there.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

const TABLE: &str = include_str!("threats.md");
/// What the last cell says where there is no test.
const NO_TEST: &str = "no test yet";

/// One line of the table: its number and all of its cells.
struct Row<'a> {
    number: u32,
    cells: Vec<&'a str>,
}

fn rows(table: &str) -> impl Iterator<Item = Row<'_>> {
    table.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        Some(Row { number: cells.first()?.parse().ok()?, cells })
    })
}

/// The names in backticks.
pub(super) fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The functions that a source defines. What is commented out is not defined.
pub(super) fn functions(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("fn ").skip(1)).filter_map(|rest| {
        let (name, _) = rest.split_once('(')?;
        Some(name.split_once('<').map_or(name, |(name, _)| name))
    })
}

/// The rows that a source's comments cite: `SECURITY 1`, `SECURITY row 23`, `SECURITY rows 6, 7 and 9: …`.
fn cited(source: &str) -> Vec<u32> {
    let comments = source.lines().filter_map(|line| Some(line.split_once("//")?.1));
    comments.flat_map(|comment| comment.split("SECURITY").skip(1)).flat_map(numbers).collect()
}

fn numbers(citation: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for word in citation.split_whitespace().filter(|word| !["row", "rows", "and"].contains(word)) {
        let digits = word.trim_end_matches([',', '.', ':', ';', ')']);
        let Ok(number) = digits.parse() else { break };
        found.push(number);
        if digits != word && !word.ends_with(',') {
            break;
        }
    }
    found
}

/// What is wrong with the table.
fn faults(table: &str, sources: &[(PathBuf, String)]) -> Vec<String> {
    let defined: HashSet<_> = sources.iter().flat_map(|(_, source)| functions(source)).collect();
    let (mut faults, mut known) = (Vec::new(), HashSet::new());
    for Row { number, cells } in rows(table) {
        if !known.insert(number) {
            faults.push(format!("row {number} is there twice"));
        }
        let &[_, _, _, tests] = cells.as_slice() else {
            faults.push(format!("row {number} has {} cells, not four", cells.len()));
            continue;
        };
        if tests != NO_TEST && names(tests).next().is_none() {
            faults.push(format!("row {number} names no test"));
        }
        let missing = names(tests).filter(|name| !defined.contains(name));
        faults.extend(missing.map(|name| format!("row {number}: there is no test {name}")));
    }
    for (path, source) in sources {
        let unknown = cited(source).into_iter().filter(|number| !known.contains(number));
        faults.extend(unknown.map(|number| format!("{}: there is no row {number}", path.display())));
    }
    faults
}

/// Every Rust file below `src` and `tests`.
pub(super) fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut sources) = (vec![root.join("src"), root.join("tests")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push((path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

#[test]
fn the_table_names_tests_that_exist_and_has_every_row_that_is_cited() {
    let sources = sources();
    assert!(rows(TABLE).count() > 40, "the table is not where it was");
    assert!(sources.iter().any(|(_, source)| !cited(source).is_empty()), "no comment cites a row");
    let faults = faults(TABLE, &sources);
    assert!(faults.is_empty(), "threats.md:\n{}", faults.join("\n"));
}

#[test]
fn what_is_wrong_with_a_table_is_told() {
    let source = "//! SECURITY rows 6, 7 and 9: 64 of them, see SECURITY.md.\nasync fn one_test() {}\n// fn none() {}";
    let table = |lines: &[&str]| {
        let text = [&["| # | Attack | Rule | Tests |", "|---|---|---|---|"][..], lines].concat().join("\n");
        faults(&text, &[("src/a.rs".into(), source.to_owned())])
    };
    let (six, seven) = ("| 6 | a | `rule` | `one_test` |", "| 7 | a | b | no test yet |");
    assert!(table(&[six, seven, "| 9 | a | b | `one_test`, `one_test` |"]).is_empty());
    for (nine, fault) in [
        ("| 9 | a | b | `none` |", "row 9: there is no test none"),
        ("| 9 | a | b | some day |", "row 9 names no test"),
        ("| 9 | a | b |  |", "row 9 names no test"),
        ("| 9 | a | b |", "row 9 has 3 cells, not four"),
        ("| 9 | a | b | c | `one_test` |", "row 9 has 5 cells, not four"),
        ("", "src/a.rs: there is no row 9"),
    ] {
        assert_eq!(table(&[six, seven, nine]), [fault]);
    }
    assert_eq!(table(&[six, seven, seven, "| 9 | a | b | `one_test` |"]), ["row 7 is there twice"]);
}

#[test]
fn citations_are_read_as_they_are_written() {
    for (comment, rows) in [
        ("/// SECURITY 38: what is said", &[38][..]),
        ("//! SECURITY 1 and 2, over two pools: 64 tasks", &[1, 2]),
        ("/// SECURITY 1, on two handles: 64 tasks", &[1]),
        ("/// SECURITY 1: 64 tasks on two connections", &[1]),
        ("/// SECURITY 19.", &[19]),
        ("let table = 1; // SECURITY row 23", &[23]),
        ("// SECURITY.md, 5 of them", &[]),
        ("SECURITY 5", &[]),
    ] {
        assert_eq!(cited(comment), rows, "{comment}");
    }
}
