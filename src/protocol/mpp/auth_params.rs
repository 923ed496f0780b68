//! `AuthParams`: the parameters of a challenge in `WWW-Authenticate`, parsed by RFC 9110.

use super::auth_schemes::{elements, scheme, split_token};

/// The parameters of one challenge of the scheme `Payment`: names in lower case, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AuthParams(Vec<(String, String)>);

impl AuthParams {
    /// Returns the challenges of the scheme `Payment` in a header's value, which may contain other schemes. A
    /// challenge that is malformed or names a parameter twice becomes `None`.
    pub(super) fn read_all(value: &[u8]) -> Vec<Option<Self>> {
        let (mut found, mut is_payment) = (Vec::new(), false);
        for element in elements(value) {
            let param = match scheme(element) {
                Some((scheme, first)) => {
                    is_payment = scheme.eq_ignore_ascii_case(b"Payment");
                    found.extend(is_payment.then(|| Some(Self::default())));
                    first
                }
                None => element,
            };
            if let Some(last) = found.last_mut().filter(|_| is_payment && !param.is_empty()) {
                *last = last.take().and_then(|params| params.with(param));
            }
        }
        found
    }

    fn with(mut self, param: &[u8]) -> Option<Self> {
        let (name, value) = read(param)?;
        let is_new = self.get(&name).is_none();
        self.0.push((name, value));
        is_new.then_some(self)
    }

    /// Returns the value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the length of all values.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, value)| value.len()).sum()
    }
}

/// Reads a parameter: a token, `=`, and a token or a quoted string.
fn read(param: &[u8]) -> Option<(String, String)> {
    let (name, rest) = split_token(param)?;
    let value = rest.trim_ascii().strip_prefix(b"=")?.trim_ascii();
    let value = match split_token(value) {
        Some((token, [])) => String::from_utf8(token.to_vec()).ok()?,
        _ => unquoted(value)?,
    };
    Some((String::from_utf8(name.to_ascii_lowercase()).ok()?, value))
}

/// Returns the text of exactly one quoted string. Bytes beyond ASCII are Latin-1, as in headers; mppx writes all
/// other characters as `\uXXXX`.
fn unquoted(text: &[u8]) -> Option<String> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut units = Vec::with_capacity(rest.len());
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            b'"' => return rest.is_empty().then(|| String::from_utf16_lossy(&units)),
            b'\\' => {
                let (escaped, behind) = rest.split_first()?;
                rest = behind;
                match unit(behind).filter(|_| *escaped == b'u') {
                    Some(unit) => {
                        units.push(unit);
                        rest = &behind[4..];
                    }
                    None => units.push(u16::from(*escaped)),
                }
            }
            byte => units.push(u16::from(*byte)),
        }
    }
}

fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> Vec<Option<Vec<(String, String)>>> {
        AuthParams::read_all(value.as_bytes()).into_iter().map(|found| found.map(|params| params.0)).collect()
    }

    fn params(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn challenges_are_found_among_others() {
        let one = || params(&[("id", "1")]);
        for (value, found) in [
            (r#"Payment id="1""#, vec![one()]),
            (r#"payment  ID = "1" "#, vec![one()]),
            ("Payment id=1", vec![one()]),
            (r#"Bearer, Payment id="1""#, vec![one()]),
            (r#"Bearer realm="a, Payment id=2", Payment id="1", Basic realm="b""#, vec![one()]),
            (r#"Negotiate YWJj==, Payment id="1""#, vec![one()]),
            (r#"Payment id="1", Payment id="1", realm="r""#, vec![one(), params(&[("id", "1"), ("realm", "r")])]),
            (r#"Payment id="a\"b\\c\d""#, vec![params(&[("id", r#"a"b\cd"#)])]),
            (r#"Payment id="\u20ac\ud83d\ude00""#, vec![params(&[("id", "€😀")])]),
            (r#"Payment , ,id="1",,"#, vec![one()]),
            ("Payment", vec![params(&[])]),
            (r#"Bearer id="1""#, vec![]),
            (r#"Payments id="1""#, vec![]),
            ("", vec![]),
        ] {
            assert_eq!(read(value), found, "{value}");
        }
        assert_eq!(AuthParams::read_all(b"Payment id=\"\xe4\""), [Some(AuthParams(params(&[("id", "ä")]).unwrap()))]);
    }

    #[test]
    fn a_malformed_challenge_spoils_no_other() {
        let one = || params(&[("id", "1")]);
        for (value, found) in [
            (r#"Payment id="2", ID="3", Payment id="1""#, vec![None, one()]),
            (r#"Payment id="2" x, Payment id="1""#, vec![None, one()]),
            (r#"Payment id=, Payment id="1""#, vec![None, one()]),
            (r#"Payment id=a b, Payment id="1""#, vec![None, one()]),
            (r#"Payment id="1", Payment id="2"#, vec![one(), None]),
            (r#"Payment id="1", Payment id="2\"#, vec![one(), None]),
        ] {
            assert_eq!(read(value), found, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AuthParams::read_all(&value);
        }

        #[test]
        fn what_is_quoted_comes_back(text in "[ -~]{0,40}") {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(read(&format!("Payment x=\"{quoted}\"")), [params(&[("x", &text)])]);
        }
    }
}
