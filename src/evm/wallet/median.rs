//! What several nodes agree on.

/// Returns the middle one, of an even number the lower of the two.
pub(crate) fn lower_median<T: Ord>(answers: impl IntoIterator<Item = T>) -> Option<T> {
    let mut answers: Vec<T> = answers.into_iter().collect();
    answers.sort_unstable();
    let middle = answers.len().checked_sub(1)? / 2;
    Some(answers.swap_remove(middle))
}
