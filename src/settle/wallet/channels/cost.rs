//! Estimates the cost of claims, with pure functions.

use alloy::primitives::U256;

use crate::{
    evm::wallet::fees::Fees,
    protocol::Amount,
    settle::{CLAIMS_MAX, wallet::checks},
};

/// The gas of a claim besides its rows, of a row with a voucher key, and of a sweep, as measured on the contract in
/// tests.
const CLAIM_GAS: u64 = 40_000;
const ROW_GAS: u64 = 25_000;
const SWEEP_GAS: u64 = 70_000;

/// Returns the cost of claiming this many channels, and of a sweep, in base units of a token in which one coin has this
/// price.
pub(super) fn of_claims(channels: usize, fees: Fees, coin: Amount) -> Amount {
    let rows = u64::try_from(channels).unwrap_or(u64::MAX);
    let claims = u64::try_from(channels.div_ceil(CLAIMS_MAX)).unwrap_or(u64::MAX);
    let gas = rows.saturating_mul(ROW_GAS).saturating_add(claims.saturating_mul(CLAIM_GAS)).saturating_add(SWEEP_GAS);
    let wei = U256::from(fees.expected()).saturating_mul(U256::from(gas));
    let units = wei.saturating_mul(U256::from_be_bytes(coin.to_be_bytes())).div_ceil(checks::WEI);
    Amount::from_be_bytes(units.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_channels_are_a_claim_and_the_last_unit_is_rounded_up() {
        // At 0.01 gwei, and 2,000 USDC for a coin, 10⁹ gas cost 20 USDC.
        let fees = Fees { most: 20_000_000, tip: 0 };
        let cost = |channels, coin| of_claims(channels, fees, Amount::from_base_units(coin)).to_u128();
        assert_eq!(cost(1, 2_000_000_000), Some(2_700));
        assert_eq!(cost(100, 2_000_000_000), Some(52_200));
        assert_eq!(cost(101, 2_000_000_000), Some(53_500));
        assert_eq!(cost(1, 1), Some(1));
        assert_eq!(cost(0, 0), Some(0));
    }
}
