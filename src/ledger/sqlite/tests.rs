//! What the tests of several files claim and hold.

use std::time::Duration;

use super::super::{Claim, Lease};
use crate::protocol::{Address, Amount, ChainTime, IntentKey, Network, Transfer, TxHash};

pub(super) const TIME: ChainTime = ChainTime::from_unix(1_795_280_400);

pub(super) fn claim() -> Claim {
    let transfer = Transfer {
        network: Network::BASE,
        transaction: TxHash::new([1; 32]),
        position: 0,
        token: Address::new([2; 20]),
        payer: Address::new([3; 20]),
        recipient: Address::new([4; 20]),
        amount: Amount::from_base_units(1),
        block_number: 1,
        block_time: TIME,
    };
    let second = Duration::from_secs(1);
    Claim::new("a", IntentKey::new([5; 16]), TIME, vec![transfer], TIME, second, second)
}

pub(super) fn held() -> Lease {
    let claim = claim();
    Lease::new(&claim, &claim.transfers()[0], 1)
}
