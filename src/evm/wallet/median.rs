//! The median of several nodes' answers.

/// Returns the median; of an even number of answers, the lower one.
pub(crate) fn lower_median<T: Ord>(answers: impl IntoIterator<Item = T>) -> Option<T> {
    let mut answers: Vec<T> = answers.into_iter().collect();
    answers.sort_unstable();
    let middle = answers.len().checked_sub(1)? / 2;
    Some(answers.swap_remove(middle))
}
