//! Which of the channels that owe something are claimed now. A plain function of values.

use std::{collections::HashMap, time::SystemTime};

use super::{Channel, policy::ChannelPolicy};
use crate::{
    ledger::Account,
    protocol::{
        Address, Amount, ChainTime, IntentKey,
        channel::{ChannelId, VoucherClaim},
    },
};

/// A channel of which something is owed.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    pub(crate) channel: Channel,
    pub(crate) claim: VoucherClaim,
    pub(crate) owed: Amount,
    /// Since when, by the ledger's clock.
    pub(crate) since: Option<SystemTime>,
    /// Its payer takes back what is in it.
    pub(crate) is_withdrawn_from: bool,
    /// Since when.
    pub(crate) withdrawn_since: Option<ChainTime>,
    pub(crate) account: Account,
    /// What was charged, claimed or not, covered or not.
    pub(crate) charged: u128,
    /// The last charge that is part of it, and the intent that it sold.
    pub(crate) last: Option<(IntentKey, u128)>,
}

/// The channel that has to be claimed first, and until when, in Unix seconds: before half of its delay is over, since its payer began to
/// withdraw, or since something is owed. Where nothing is claimed for so long, nothing claims.
pub(crate) fn first_to_claim<'a>(owed: impl Iterator<Item = &'a Owed>) -> Option<(u64, ChannelId)> {
    let until = |row: &Owed| {
        let since = row.since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
        let begun =
            row.withdrawn_since.map(ChainTime::unix).into_iter().chain(since.map(|since| since.as_secs())).min();
        Some((begun?.saturating_add(u64::from(row.channel.config.withdraw_delay) / 2), row.channel.id))
    };
    owed.filter_map(until).min_by_key(|(until, _)| *until)
}

/// Keeps those that are claimed now: `all` of them, what is withdrawn from, what has been owed for long, and everything in a token in which
/// it is a large enough sum. Those that are withdrawn from come first.
pub(crate) fn due(owed: &[Owed], policy: &ChannelPolicy, now: SystemTime, all: bool) -> Vec<Owed> {
    let mut sums = HashMap::new();
    for row in owed {
        let sum = sums.entry(row.channel.config.token).or_insert(Amount::ZERO);
        *sum = sum.checked_add(row.owed).unwrap_or(Amount::MAX);
    }
    let sum = |token: &Address| sums.get(token).copied().unwrap_or(Amount::ZERO);
    let is_due = |row: &Owed| {
        // A clock that was set back makes nothing wait.
        let age = row.since.map(|since| now.duration_since(since).unwrap_or(policy.unclaimed_for()));
        all || row.is_withdrawn_from
            || age.is_some_and(|age| age >= policy.unclaimed_for())
            || policy.claim_from.is_some_and(|from| sum(&row.channel.config.token) >= from)
    };
    let mut due: Vec<Owed> = owed.iter().filter(|row| is_due(row)).cloned().collect();
    due.sort_by_key(|row| !row.is_withdrawn_from);
    due
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        ledger::AccountMemo,
        protocol::{
            Network, PaymentSignature,
            channel::{ChannelConfig, Voucher},
        },
    };

    const HOUR: Duration = Duration::from_secs(3_600);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_280_400)
    }

    fn row(payer: u8, token: u8, owed: u128, since: Option<Duration>) -> Owed {
        let config = ChannelConfig::new(Address::new([payer; 20]), Address::new([2; 20]), Address::new([token; 20]));
        let channel = Channel::new(config, Network::BASE);
        let voucher = Voucher::new(channel.id, owed, PaymentSignature::new([7; 65]).unwrap());
        let claim = VoucherClaim::new(config, voucher, owed);
        let since = since.map(|ago| now() - ago);
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
            claim,
            owed: Amount::from_base_units(owed),
            since,
            is_withdrawn_from: false,
            withdrawn_since: None,
            account,
            charged: owed,
            last: None,
        }
    }

    fn payers(due: &[Owed]) -> Vec<u8> {
        due.iter().map(|row| row.channel.config.payer.as_bytes()[0]).collect()
    }

    #[test]
    fn age_sum_and_withdrawals_make_it_due() {
        let policy = ChannelPolicy::new().claim_after(HOUR);
        let rows =
            || vec![row(1, 9, 5, Some(HOUR)), row(2, 9, 6, Some(HOUR - Duration::from_secs(1))), row(3, 8, 100, None)];
        assert_eq!(payers(&due(&rows(), &policy, now(), false)), [1]);
        assert_eq!(payers(&due(&rows(), &policy, now(), true)), [1, 2, 3]);
        // By token: base units of different tokens are not one sum.
        let from = |units| policy.claim_from(Amount::from_base_units(units));
        assert_eq!(payers(&due(&rows(), &from(11), now(), false)), [1, 2, 3]);
        assert_eq!(payers(&due(&rows(), &from(12), now(), false)), [1, 3]);
        assert_eq!(payers(&due(&rows(), &from(101), now(), false)), [1]);
        let mut rows = rows();
        rows[1].is_withdrawn_from = true;
        assert_eq!(payers(&due(&rows, &policy, now(), false)), [2, 1]);
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
    fn a_clock_that_was_set_back_makes_nothing_wait() {
        let policy = ChannelPolicy::new().claim_after(HOUR);
        let earlier = now() - 10 * HOUR;
        assert_eq!(due(&[row(1, 9, 5, Some(HOUR))], &policy, earlier, false).len(), 1);
    }
}
