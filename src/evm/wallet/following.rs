//! Finds the nodes that follow the chain. A node that is stuck at an old block answers like any other; where the worst
//! answer counts, its answer would decide.

use super::node::Failure;
use crate::protocol::ChainTime;

/// How much older a node's latest block may be than those of others, in seconds of chain time.
const BEHIND_MAX: u64 = 60;

/// Returns the answers of nodes, each of which has the time of its latest block. A node that does not follow the chain
/// counts as silent: its latest block is too old compared with a time that at least half of the answering nodes have
/// reached.
///
/// A block time in the future makes no other block old: a node that lies about its time must not silence a node that
/// keeps up with the clock.
pub(super) fn following<T>(answers: Vec<Result<(ChainTime, T), Failure>>, now: u64) -> Vec<Result<T, Failure>> {
    let mut times: Vec<_> = answers.iter().flatten().map(|(newest, _)| newest.unix()).collect();
    times.sort_unstable_by(|one, other| other.cmp(one));
    let reached = times.get(times.len().saturating_sub(1) / 2).map_or(0, |time| (*time).min(now));
    let follows = |(newest, answer): (ChainTime, T)| match newest.unix().saturating_add(BEHIND_MAX) < reached {
        true => Err(Failure::Silence),
        false => Ok(answer),
    };
    answers.into_iter().map(|answer| answer.and_then(follows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_280_400;

    /// Whether each node counts, given the age of its latest block in seconds; `None` for a node that does not answer.
    fn count(ages: &[Option<i64>]) -> Vec<bool> {
        let answer = |age: &Option<i64>| {
            let time = NOW.checked_add_signed(-age.ok_or(Failure::Silence)?).unwrap();
            Ok((ChainTime::from_unix(time), ()))
        };
        following(ages.iter().map(answer).collect(), NOW).into_iter().map(|answer| answer.is_ok()).collect()
    }

    #[test]
    fn a_node_that_is_stuck_at_an_old_block_counts_as_silent() {
        assert_eq!(count(&[Some(1), Some(2), Some(62)]), [true, true, true]);
        assert_eq!(count(&[Some(1), Some(2), Some(63)]), [true, true, false]);
        assert_eq!(count(&[Some(900), Some(2)]), [false, true]);
        assert_eq!(count(&[None, Some(2), Some(900)]), [false, true, false]);
        assert_eq!(count(&[None, None]), [false, false]);
        // On a chain that stands still no node is ahead.
        assert_eq!(count(&[Some(900), Some(910)]), [true, true]);
        assert_eq!(count(&[Some(900)]), [true]);
    }

    #[test]
    fn a_node_that_is_ahead_of_time_silences_no_other() {
        assert_eq!(count(&[Some(-900), Some(2)]), [true, true]);
        assert_eq!(count(&[Some(-900), Some(-800), Some(2)]), [true, true, true]);
        // One node of three that is ahead does not silence the others either.
        assert_eq!(count(&[Some(0), Some(900), Some(910)]), [true, true, true]);
    }
}
