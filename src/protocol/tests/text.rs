//! Text for headers: ASCII, and unchanged when it is read again.

use proptest::prelude::*;

use super::cases;
use crate::protocol::ascii_json;

#[test]
fn escapes() {
    for (text, json) in [
        ("", r#""""#),
        ("Demand insights", r#""Demand insights""#),
        (r#"say "hi" \ bye"#, r#""say \"hi\" \\ bye""#),
        ("Überblick", r#""\u00dcberblick""#),
        ("🦀", r#""\ud83e\udd80""#),
        ("a\r\nSet-Cookie: b", r#""a\u000d\u000aSet-Cookie: b""#),
        ("\u{7f}\0\t", r#""\u007f\u0000\u0009""#),
    ] {
        assert_eq!(ascii_json(text), json);
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn what_is_written_is_printable_ascii_and_means_the_same(text in any::<String>()) {
        let json = ascii_json(&text);
        prop_assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
