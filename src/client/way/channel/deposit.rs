//! The size of a deposit.

use crate::{
    client::{Budget, Denial, flow::Spent},
    protocol::Amount,
};

/// Returns the size of a deposit at this price: enough for `answers` answers if the budget allows, and at least what is
/// needed.
///
/// `missing`: what the channel lacks for the next answer. `least`: the seller's smallest deposit. `answers`: how many
/// answers a deposit should pay for.
///
/// # Errors
/// The limit that even the smallest deposit would exceed.
pub(super) fn size(
    (price, missing, least): (Amount, Amount, Amount),
    answers: u32,
    budget: &Budget,
    spent: Spent,
) -> Result<Amount, Denial> {
    let least = missing.max(least);
    budget.allows_deposit(least)?;
    budget.afford(least, spent)?;
    let most = budget.deposit_limit().min(budget.left(spent).1);
    let wished = price.times(answers.into());
    Ok(wished.min(most).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::BudgetDenial, protocol::Asset};

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    #[test]
    fn a_deposit_lasts_for_some_answers_within_every_limit() {
        let budget =
            Budget::in_assets([Asset::USDC_BASE]).per_payment("1").per_host("2").per_day("10").build().unwrap();
        for ((price, missing, least), answers, spent, deposit) in [
            ((100, 100, 0), 10, 0, Ok(1_000)),
            // A part of an earlier deposit is left.
            ((100, 20, 0), 10, 0, Ok(1_000)),
            ((100, 100, 5_000), 10, 0, Ok(5_000)),
            ((100, 100, 0), 0, 0, Ok(100)),
            // The limit of one payment is that of one deposit.
            ((490_000, 490_000, 0), 10, 0, Ok(1_000_000)),
            ((100, 100, 1_000_001), 10, 0, Err(BudgetDenial::PerDeposit)),
            // The rest of the host's limit.
            ((100_000, 100_000, 0), 10, 1_850_000, Ok(150_000)),
            ((100_000, 100_000, 0), 10, 1_900_001, Err(BudgetDenial::PerHost)),
            ((u128::MAX, 1, 0), u32::MAX, 0, Ok(1_000_000)),
        ] {
            let spent = Spent { by_host: units(spent), in_all: units(spent) };
            let sized = size((units(price), units(missing), units(least)), answers, &budget, spent);
            assert_eq!(
                sized.map_err(|denial| denial.rule()),
                deposit.map(units),
                "{price} {missing} {least} {answers}"
            );
        }
    }

    #[test]
    fn a_limit_of_its_own_counts_in_its_place() {
        let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.01").per_deposit("5").per_day("10");
        let budget = budget.build().unwrap();
        let spent = Spent { by_host: Amount::ZERO, in_all: Amount::ZERO };
        assert_eq!(size((units(10_000), units(10_000), Amount::ZERO), 10, &budget, spent), Ok(units(100_000)));
    }
}
