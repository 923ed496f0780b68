//! The schemes in the value of an authentication header, by RFC 9110.

/// Returns whether a header's value names the scheme `Payment`, alone or beside others.
pub(super) fn names_payment(value: &[u8]) -> bool {
    elements(value).filter_map(scheme).any(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Payment"))
}

/// Splits at the commas outside quoted strings.
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_comma = move |byte: &u8| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        *byte == b',' && !is_quoted
    };
    value.split(is_comma).map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Returns the scheme that starts a challenge, and the text after it; `None` for a parameter.
pub(super) fn scheme(element: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = split_token(element)?;
    let behind = rest.trim_ascii();
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    (ends && behind.first() != Some(&b'=')).then_some((name, behind))
}

/// Splits a token from what follows it.
pub(super) fn split_token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let end = text.iter().position(|byte| !is_token(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}
