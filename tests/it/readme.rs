//! The README keeps its promises: what it shows is what runs.

const README: &str = include_str!("../../README.md");
const QUICKSTART: &str = include_str!("../../examples/quickstart.rs");

#[test]
fn the_fifteen_lines_are_the_quickstart() {
    let (_, code) = QUICKSTART.split_once("\n\n").expect("a head, then code");
    assert!(README.contains(code.trim()), "README and examples/quickstart.rs differ");
}

#[test]
fn every_code_of_the_contract_is_explained() {
    for code in tower_x402::protocol::ProblemCode::ALL {
        assert!(README.contains(&format!("`{code}`")), "{code} is missing");
    }
}
