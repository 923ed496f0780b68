//! The guide to the payment proof keeps its promises: each rule names tests that exist.

use super::security_table::{functions, names, sources};

const GUIDE: &str = include_str!("../../src/guide/payment_proof.md");

/// The rules of the last table: what is demanded, and the cell with its tests.
fn rules(guide: &str) -> Vec<(&str, &str)> {
    let table = guide.split_once("# Conformance").map_or("", |(_, table)| table);
    let rows = table.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|')?.rsplit_once('|'));
    // Behind the head and the rule below it.
    rows.skip(2).map(|(rule, tests)| (rule.trim(), tests.trim())).collect()
}

/// The rules whose tests are not all there.
fn unproved<'a>(guide: &'a str, defined: &[&str]) -> Vec<&'a str> {
    let is_proved = |tests: &str| names(tests).next().is_some() && names(tests).all(|test| defined.contains(&test));
    rules(guide).into_iter().filter(|(_, tests)| !is_proved(tests)).map(|(rule, _)| rule).collect()
}

#[test]
fn every_rule_of_the_payment_proof_has_its_test() {
    let sources = sources();
    let defined: Vec<_> = sources.iter().flat_map(|(_, source)| functions(source)).collect();
    assert!(rules(GUIDE).len() >= 15, "the table is not where it was");
    assert_eq!(unproved(GUIDE, &defined), [""; 0]);
}

#[test]
fn a_rule_without_its_test_is_told() {
    let guide =
        "| x | `none` |\n# Conformance\n| MUST | Test |\n|---|---|\n| a | `one` |\n| b | `one`, `none` |\n| c | |\n";
    assert_eq!(unproved(guide, &["one"]), ["b", "c"]);
}
