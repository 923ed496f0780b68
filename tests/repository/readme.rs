//! README and guides keep their promises: what they show is what runs.

const README: &str = include_str!("../../README.md");
const PAYING: &str = include_str!("../../src/guide/paying.md");
const QUICKSTART: &str = include_str!("../../examples/quickstart.rs");

#[test]
fn the_quick_start_is_the_example() {
    let (_, code) = QUICKSTART.split_once("\n\n").expect("a head, then code");
    assert!(README.contains(code.trim()), "README and examples/quickstart.rs differ");
}

#[test]
fn every_code_of_the_contract_is_explained() {
    for code in tower_x402::protocol::ProblemCode::ALL {
        assert!(PAYING.contains(&format!("`{code}`")), "{code} is missing");
    }
}
