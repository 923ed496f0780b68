//! Decides whether claiming the debts is worth its gas.

use std::collections::HashSet;

use super::{
    Channels,
    due::{Owed, Sum, sums},
};
use crate::{
    paywall::seller::time_limits::settler_in_time,
    protocol::{Address, Amount},
};

impl Channels {
    /// Returns the tokens in which the gas of claiming everything costs no more than the policy's share of it. A token whose cost the
    /// settler does not state is left out: age and sum decide.
    pub(crate) async fn worth_their_gas(&self, owed: &[Owed]) -> HashSet<Address> {
        let mut worth = HashSet::new();
        let Some(percent) = self.policy.gas_share else { return worth };
        for (token, sum) in sums(owed) {
            match settler_in_time(self.settler.claim_cost(self.network(), token, sum.channels)).await {
                Ok(Some(cost)) if is_worth(sum, cost, percent) => drop(worth.insert(token)),
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, %token, "what the gas of claims costs is not known now"),
            }
        }
        worth
    }
}

/// Returns whether the cost is at most this share of the sum.
fn is_worth(sum: Sum, cost: Amount, percent: u8) -> bool {
    cost.times(100) <= sum.owed.times(percent.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gas_is_worth_it_up_to_a_share_of_the_sum() {
        for (owed, cost, percent, worth) in [
            (10_000, 100, 1, true),
            (10_000, 101, 1, false),
            (9_999, 100, 1, false),
            (100, 100, 100, true),
            (100, 101, 100, false),
            (1, 0, 1, true),
            // Out of range, it is never worth it.
            (u128::MAX, u128::MAX, 1, false),
        ] {
            let [owed, cost] = [owed, cost].map(Amount::from_base_units);
            assert_eq!(is_worth(Sum { owed, channels: 1 }, cost, percent), worth, "{owed} {cost} {percent}");
        }
    }
}
