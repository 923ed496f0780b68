//! Transfers that were made from permits are no ordinary ones: each is sold once, under the permit's name.

use alloy::primitives::keccak256;

use super::*;
use crate::protocol::permit2::{EXACT_PROXY, UPTO_PROXY};

const OTHER: Address = Address::new([0xee; 20]);

/// What a proxy logs behind its transfer.
fn settled(position: u32, proxy: Address) -> Log {
    let event = if proxy == EXACT_PROXY { "Settled()" } else { "SettledWithPermit()" };
    Log { emitter: proxy, topics: vec![keccak256(event).0], data: Vec::new(), ..transfer(position, 0) }
}

fn of(position: u32, payer: Address) -> Log {
    Log { topics: vec![TRANSFER_TOPIC, topic(payer), topic(RECIPIENT)], ..transfer(position, PRICE) }
}

fn found(logs: Vec<Log>) -> Vec<u32> {
    positions(&verdict(&receipt(logs)))
}

#[test]
fn a_transfer_made_from_a_permit_is_no_ordinary_one() {
    for proxy in [EXACT_PROXY, UPTO_PROXY] {
        assert_eq!(found(vec![of(0, PAYER), settled(1, proxy)]), [0; 0]);
        assert_eq!(verdict(&receipt(vec![of(0, PAYER), settled(1, proxy)])), Verdict::NoTransfer, "nor too little");
        // Others' log, and one in front.
        assert_eq!(found(vec![of(0, PAYER), settled(1, OTHER)]), [0]);
        assert_eq!(found(vec![settled(0, proxy), of(1, PAYER)]), [1]);
        // In a bundle, those of others stay.
        assert_eq!(found(vec![of(0, OTHER), of(1, PAYER), settled(2, proxy), of(3, PAYER)]), [0, 3]);
        let two = vec![of(0, OTHER), settled(1, proxy), of(2, PAYER), settled(3, UPTO_PROXY), of(4, OTHER)];
        assert_eq!(found(two), [4]);
        // Behind logs that were left out, and with a fee.
        let mut fee = of(9, PAYER);
        fee.topics[2] = topic(OTHER);
        assert_eq!(found(vec![of(4, OTHER), of(7, PAYER), fee, settled(12, proxy)]), [4]);
    }
}

/// One that was made from an authorization has its own name, whatever else its payer does in the transaction.
#[test]
fn a_transfer_made_from_an_authorization_stays_one() {
    let used =
        Log { topics: vec![AUTHORIZATION_USED_TOPIC, topic(PAYER), [7; 32]], data: Vec::new(), ..transfer(0, 0) };
    assert_eq!(found(vec![used, of(1, PAYER), of(2, PAYER), settled(3, EXACT_PROXY)]), [1]);
}
