//! Reads fixed fields from bytes, for notes that each request reads.

/// Takes the next field; `None` at the end.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*field)
}
