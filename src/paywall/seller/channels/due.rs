//! Decides which of the channels that owe something are claimed now. A plain function of values.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};

use super::{Channel, policy::ChannelPolicy, tried::LastClaim};
use crate::{
    ledger::Account,
    protocol::{
        Address, Amount, ChainTime,
        channel::{ChannelId, VoucherClaim},
    },
    settle::ChannelOnChain,
};

/// A channel that owes something: sales in it are unclaimed.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    pub(crate) channel: Channel,
    pub(crate) claim: VoucherClaim,
    pub(crate) owed: Amount,
    /// Since when something is owed, by the ledger's clock.
    pub(crate) since: Option<SystemTime>,
    /// Whether its payer withdraws what would cover the debt.
    pub(crate) is_withdrawn_from: bool,
    /// Since when its payer withdraws.
    pub(crate) withdrawn_since: Option<ChainTime>,
    pub(crate) account: Account,
    /// The last known state on the chain, if any.
    pub(crate) state: Option<ChannelOnChain>,
    /// The total charged, claimed or not, covered or not.
    pub(crate) charged: u128,
    /// The last charge, if there is one. It is part of that.
    pub(crate) last: Option<u128>,
    /// The last claim of this channel that this process tried.
    pub(crate) tried: LastClaim,
}

impl Owed {
    /// Returns the part of the debt for which no claim was tried.
    fn untried(&self) -> Amount {
        self.owed.min(Amount::from_base_units(self.claim.total_claimed.saturating_sub(self.tried.total)))
    }

    /// Returns whether the debt is older than the limit. After a transaction was sent for it, it waits for that long again, or for a
    /// quarter of that if the outcome of the transaction is unknown.
    fn is_old(&self, limit: Duration, now: SystemTime) -> bool {
        // After the clock was set back, nothing waits.
        let age = |since: SystemTime| now.duration_since(since).unwrap_or(limit);
        let pause = if self.tried.claimed > 0 { limit } else { limit / 4 };
        self.since.is_some_and(|since| age(since) >= limit) && self.tried.sent.is_none_or(|sent| age(sent) >= pause)
    }
}

/// Returns the channel that has to be claimed first, and until when, in Unix seconds: before half of its delay has passed since its payer
/// began to withdraw, or since something is owed. If nothing is claimed by then, no worker claims.
pub(crate) fn first_to_claim<'a>(owed: impl Iterator<Item = &'a Owed>) -> Option<(u64, ChannelId)> {
    let until = |row: &Owed| {
        let since = row.since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
        let begun =
            row.withdrawn_since.map(ChainTime::unix).into_iter().chain(since.map(|since| since.as_secs())).min();
        Some((begun?.saturating_add(u64::from(row.channel.config.withdraw_delay) / 2), row.channel.id))
    };
    owed.filter_map(until).min_by_key(|(until, _)| *until)
}

/// The sum owed in a token for which no claim was tried, and the number of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) owed: Amount,
    pub(crate) channels: usize,
}

/// Returns the sums of these, by token. A debt whose claim was tried is part of none: it would make all others due in each turn.
pub(crate) fn sums(owed: &[Owed]) -> HashMap<Address, Sum> {
    let mut sums = HashMap::<Address, Sum>::new();
    for (row, untried) in owed.iter().map(|row| (row, row.untried())).filter(|(_, untried)| !untried.is_zero()) {
        let sum = sums.entry(row.channel.config.token).or_insert(Sum { owed: Amount::ZERO, channels: 0 });
        *sum = Sum { owed: sum.owed.checked_add(untried).unwrap_or(Amount::MAX), channels: sum.channels + 1 };
    }
    sums
}

/// Returns the channels that are claimed now: `all` of them, those with a withdrawal, those with an old debt, and all of a token whose sum
/// is large enough, or whose sum is `worth` its gas. Channels with a withdrawal come first, the largest of each token before all others,
/// because a payer could withdraw from many small ones.
pub(crate) fn due(
    owed: &[Owed],
    policy: &ChannelPolicy,
    now: SystemTime,
    all: bool,
    worth: &HashSet<Address>,
) -> Vec<Owed> {
    let sums = sums(owed);
    let is_enough = |token: &Address, from: Amount| sums.get(token).is_some_and(|sum| sum.owed >= from);
    let is_due = |row: &Owed| {
        all || row.is_withdrawn_from
            || row.is_old(policy.unclaimed_for(), now)
            || policy.claim_from.is_some_and(|from| is_enough(&row.channel.config.token, from))
            || worth.contains(&row.channel.config.token)
    };
    let due = owed.iter().filter(|row| is_due(row)).cloned();
    let (withdrawn, rest): (Vec<Owed>, Vec<Owed>) = due.partition(|row| row.is_withdrawn_from);
    largest_first(withdrawn).into_iter().chain(rest).collect()
}

/// Sorts rows for a settler whose ether is short: those of payers who withdraw first, and the largest first of both kinds.
pub(crate) fn by_harm(rows: Vec<Owed>) -> Vec<Owed> {
    let (withdrawn, rest): (Vec<Owed>, Vec<Owed>) = rows.into_iter().partition(|row| row.is_withdrawn_from);
    largest_first(withdrawn).into_iter().chain(largest_first(rest)).collect()
}

/// Sorts rows: the largest of each token, then the second of each, and so on. Base units of different tokens cannot be compared.
fn largest_first(mut rows: Vec<Owed>) -> Vec<Owed> {
    rows.sort_by_key(|row| Reverse(row.owed));
    let mut places = HashMap::<Address, usize>::new();
    let place = |row: Owed| {
        let place = places.entry(row.channel.config.token).or_default();
        *place += 1;
        (*place, row)
    };
    let mut rows: Vec<(usize, Owed)> = rows.into_iter().map(place).collect();
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns a row of a payer, in a token, for tests.
#[cfg(test)]
pub(crate) fn owing(payer: u8, token: u8, owed: u128) -> Owed {
    use crate::{
        ledger::AccountMemo,
        protocol::{
            Network, PaymentSignature,
            channel::{ChannelConfig, Voucher},
        },
    };

    let config = ChannelConfig::new(Address::new([payer; 20]), Address::new([2; 20]), Address::new([token; 20]));
    let channel = Channel::new(config, Network::BASE);
    let voucher = Voucher::new(channel.id, owed, PaymentSignature::new([7; 65]).unwrap());
    let account = Account {
        limit: Amount::MAX,
        spent: Amount::from_base_units(owed),
        held: Amount::ZERO,
        expires: None,
        closed: false,
        drawn: 1,
        memo: AccountMemo::default(),
        claims: None,
    };
    Owed {
        channel,
        claim: VoucherClaim::new(config, voucher, owed),
        owed: Amount::from_base_units(owed),
        since: None,
        is_withdrawn_from: false,
        withdrawn_since: None,
        account,
        state: None,
        charged: owed,
        last: None,
        tried: LastClaim::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_280_400)
    }

    fn row(payer: u8, token: u8, owed: u128, since: Option<Duration>) -> Owed {
        Owed { since: since.map(|ago| now() - ago), ..owing(payer, token, owed) }
    }

    /// No token is worth its gas.
    fn none() -> HashSet<Address> {
        HashSet::new()
    }

    fn payers(due: &[Owed]) -> Vec<u8> {
        due.iter().map(|row| row.channel.config.payer.as_bytes()[0]).collect()
    }

    #[test]
    fn age_sum_and_withdrawals_make_it_due() {
        let policy = ChannelPolicy::new().claim_after(HOUR);
        let rows =
            || vec![row(1, 9, 5, Some(HOUR)), row(2, 9, 6, Some(HOUR - Duration::from_secs(1))), row(3, 8, 100, None)];
        assert_eq!(payers(&due(&rows(), &policy, now(), false, &none())), [1]);
        assert_eq!(payers(&due(&rows(), &policy, now(), true, &none())), [1, 2, 3]);
        // By token: base units of different tokens are not one sum.
        let from = |units| policy.claim_from(Amount::from_base_units(units));
        assert_eq!(payers(&due(&rows(), &from(11), now(), false, &none())), [1, 2, 3]);
        assert_eq!(payers(&due(&rows(), &from(12), now(), false, &none())), [1, 3]);
        assert_eq!(payers(&due(&rows(), &from(101), now(), false, &none())), [1]);
        let worth = HashSet::from([Address::new([8; 20])]);
        assert_eq!(payers(&due(&rows(), &policy, now(), false, &worth)), [1, 3]);
        let mut rows = rows();
        rows[1].is_withdrawn_from = true;
        assert_eq!(payers(&due(&rows, &policy, now(), false, &none())), [2, 1]);
    }

    #[test]
    fn what_is_withdrawn_or_owed_for_the_longest_is_claimed_first() {
        let mut rows = [row(1, 9, 5, Some(HOUR)), row(2, 9, 6, None)];
        let half = u64::from(rows[0].channel.config.withdraw_delay) / 2;
        let unix = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(first_to_claim(rows.iter()), Some((unix(now() - HOUR) + half, rows[0].channel.id)));
        rows[1].withdrawn_since = Some(ChainTime::from_unix(unix(now() - 2 * HOUR)));
        assert_eq!(first_to_claim(rows.iter()), Some((unix(now() - 2 * HOUR) + half, rows[1].channel.id)));
        assert_eq!(first_to_claim([].into_iter()), None);
    }

    #[test]
    fn of_those_that_are_withdrawn_from_the_largest_of_each_token_comes_first() {
        let mut rows = [(1, 9, 5), (2, 9, 7), (3, 8, 900), (4, 9, 6), (5, 8, 1_000), (6, 9, 99)]
            .map(|(payer, token, owed)| row(payer, token, owed, None));
        for row in &mut rows[..5] {
            row.is_withdrawn_from = true;
        }
        assert_eq!(payers(&due(&rows, &ChannelPolicy::new(), now(), true, &none())), [5, 2, 3, 4, 1, 6]);
    }

    #[test]
    fn what_was_tried_is_part_of_no_sum_and_what_was_sent_waits_since_then() {
        let policy = ChannelPolicy::new().claim_after(HOUR).claim_from(Amount::from_base_units(10));
        let mut rows = [row(1, 9, 20, None), row(2, 9, 5, Some(HOUR))];
        rows[0].tried.total = 20;
        assert_eq!(payers(&due(&rows, &policy, now(), false, &none())), [2]);
        rows[0].tried.total = 15;
        assert_eq!(payers(&due(&rows, &policy, now(), false, &none())), [1, 2], "what was sold since counts");
        rows[0].tried.total = 20;
        // A quarter of the time if the outcome is unknown.
        for (claimed, wait) in [(0, HOUR / 4), (5, HOUR)] {
            let sent = now() - wait / 2;
            rows[1].tried = LastClaim { total: 5, sent: Some(sent), claimed };
            assert!(due(&rows, &policy, now(), false, &none()).is_empty());
            assert_eq!(payers(&due(&rows, &policy, sent + wait, false, &none())), [2]);
        }
        rows[1].is_withdrawn_from = true;
        assert_eq!(payers(&due(&rows, &policy, now(), false, &none())), [2], "nothing waits where its payer withdraws");
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_wait() {
        let policy = ChannelPolicy::new().claim_after(HOUR);
        let earlier = now() - 10 * HOUR;
        assert_eq!(due(&[row(1, 9, 5, Some(HOUR))], &policy, earlier, false, &none()).len(), 1);
    }
}
